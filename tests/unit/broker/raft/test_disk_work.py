"""What waits for the disk of a node, and what goes on meanwhile, one rule a test, on virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from barnabas.broker.log.disk_steps import carried_out, done_at_once
from barnabas.broker.raft import raft_messages
from barnabas.broker.raft.disk_work import DiskWork
from barnabas.broker.raft.replica import InboundRequest
from barnabas.broker.raft.replica_key import ReplicaKey
from tests.support.raft_cluster import RaftCluster
from tests.support.raft_history import play
from tests.support.raft_log import FileDisk
from tests.support.slow_storage import SlowStorage

if TYPE_CHECKING:
    from tests.support.raft_cluster import Member

_LONG = 1.0


def _elected(voters: int = 3) -> tuple[RaftCluster, Member]:
    cluster = RaftCluster(7, voters=voters)
    cluster.disk_delay = 0.001
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader.machine.next_offset > 0)
    cluster.run(1.0)
    assert cluster.leader is not None
    return cluster, cluster.leader


def _stall(cluster: RaftCluster, *members: Member) -> None:
    for member in members:
        member.disk_stalls_until = cluster.now + 60.0


def test_followers_fetch_what_the_leader_has_not_on_its_disk_yet_and_it_is_committed_by_them() -> None:
    cluster, leader = _elected()
    end = leader.log.end_offset
    _stall(cluster, leader)
    cluster.append([b"a"], leader)
    cluster.run(_LONG)
    assert leader.log.flushed == end
    assert [member.machine.values for member in cluster.members] == [[b"a"]] * 3


def test_what_only_the_leader_and_nobodys_disk_has_is_not_committed() -> None:
    cluster, leader = _elected()
    _stall(cluster, *cluster.members)
    cluster.append([b"a"], leader)
    cluster.run(_LONG)
    assert [member.log.end_offset for member in cluster.members] == [leader.log.end_offset] * 3
    assert [member.machine.values for member in cluster.members] == [[]] * 3
    assert cluster.leader is leader


def test_a_leader_that_is_alone_commits_what_is_on_its_disk() -> None:
    cluster, leader = _elected(voters=1)
    _stall(cluster, leader)
    cluster.append([b"a"], leader)
    cluster.run(_LONG)
    assert leader.machine.values == []
    cluster.append([b"b"], leader)
    leader.disk_stalls_until = 0.0
    cluster.run(70.0)
    assert leader.machine.values == [b"a", b"b"]


def test_a_follower_acknowledges_what_is_on_its_disk_and_suspects_no_leader_meanwhile() -> None:
    cluster, leader = _elected()
    one, other = (member for member in cluster.members if member is not leader)
    _stall(cluster, one)
    epoch = leader.leader_state.epoch if leader.leader_state is not None else -1
    cluster.append([b"a"], leader)
    cluster.run(10.0)
    state = leader.leader_state
    assert state is not None
    assert state.epoch == epoch
    assert state.voters[one.id].end_offset == one.log.flushed < one.log.end_offset
    assert state.voters[other.id].end_offset == leader.log.end_offset


def test_a_restarted_follower_acknowledges_what_it_had_in_memory_only_once_that_is_on_its_disk() -> None:
    cluster, leader = _elected()
    one = next(member for member in cluster.members if member is not leader)
    _stall(cluster, one)
    cluster.append([b"a"], leader)
    cluster.run(_LONG)
    state = leader.leader_state
    assert state is not None
    one.stop(power_loss=False)
    one.start()
    cluster.run(_LONG)
    assert state.voters[one.id].end_offset == one.log.flushed < one.log.end_offset
    cluster.run(70.0)
    assert state.voters[one.id].end_offset == one.log.flushed == one.log.end_offset


def test_a_vote_is_told_when_it_is_on_the_disk() -> None:
    cluster, leader = _elected()
    member = next(member for member in cluster.members if member is not leader)
    client, storage = member.client, SlowStorage()
    assert client is not None
    client.replica.disk.storage = storage
    client.take_outbound()
    client.replica.to_unattached(9, cluster.now)
    request = raft_messages.make_vote_request(
        leader.config,
        9,
        ReplicaKey(member.id),
        leader.client.replica.log_end,
        pre_vote=False,  # type: ignore[union-attr]
    )
    client.handle_request(InboundRequest(77, request, "CONTROLLER"), cluster.instant)
    client.poll(cluster.instant)
    assert client.take_outbound() == []
    storage.drain()
    client.poll(cluster.instant)
    storage.drain()
    assert b'"votedId":%d' % leader.id in (member.store.content or b"")  # type: ignore[union-attr]
    client.poll(cluster.instant)
    assert [one.request_id for one in client.take_outbound() if hasattr(one, "request_id")] == [77]


def test_a_node_that_leaves_does_not_wait_for_a_disk_that_stands_still() -> None:
    cluster, leader = _elected()
    client = leader.client
    assert client is not None
    client.replica.disk.storage = SlowStorage()
    client.replica.disk.do_first(carried_out(lambda: None))
    client.shutdown(5.0)
    assert client.poll(cluster.instant) == pytest.approx(cluster.now + 5.0, abs=1.0)
    cluster.now += 6.0
    client.poll(cluster.instant)
    assert client.is_shut_down


def test_what_comes_first_is_done_in_order_and_one_after_the_other() -> None:
    disk, storage, done = DiskWork(), SlowStorage(), []
    disk.storage = storage
    disk.do_first(carried_out(lambda: done.append(1)))
    disk.do_first(carried_out(lambda: done.append(2)))
    assert len(storage.in_flight) == 1
    storage.step()
    assert (done, disk.is_busy) == ([1], True)
    storage.step()
    assert (done, disk.is_busy) == ([1, 2], False)


def test_work_that_fails_or_was_not_carried_out_raises() -> None:
    def fail() -> None:
        raise OSError(28, "no space left")

    with pytest.raises(OSError, match="no space left"):
        done_at_once(carried_out(fail))
    steps = carried_out(lambda: None)
    next(steps)
    with pytest.raises(OSError, match="not carried out"):
        next(steps)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_waits_for_the_disk_on_the_loop_but_the_start(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the quorum does: elections, appends, truncations, snapshots that are written, fetched and loaded."""
    disks: list[FileDisk] = []
    begin = FileDisk.__init__

    def remember(self: FileDisk, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        disks.append(self)

    monkeypatch.setattr(FileDisk, "__init__", remember)
    play(seed, on_files=True)
    assert [disk.waits for disk in disks] == [[]] * len(disks)
    assert all(disk.syncs for disk in disks)
