"""What a node of the quorum does, one rule a test, on virtual time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from barnabas.broker.raft import raft_messages
from barnabas.broker.raft.batch_accumulator import MAX_BATCH_SIZE_BYTES
from barnabas.broker.raft.control_records import build_control_batch
from barnabas.broker.raft.errors import BufferAllocationError, NotLeaderError
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.replica import Replica
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.errors import DuplicateVoterError, RecordBatchTooLargeError, VoterNotFoundError
from barnabas.network.node import Node
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from tests.support.raft_cluster import CLUSTER_ID, RaftCluster, directory_of, voter_set

if TYPE_CHECKING:
    from tests.support.raft_cluster import Member


def _elected(**settings: object) -> tuple[RaftCluster, Member]:
    cluster = RaftCluster(**{"seed": 7, **settings})  # type: ignore[arg-type]
    cluster.run_until(lambda: _commits(cluster))
    cluster.run(1.0)
    leader = cluster.leader
    assert leader is not None
    return cluster, leader


def _commits(cluster: RaftCluster) -> bool:
    leader = cluster.leader
    return leader is not None and leader.leader_state is not None and leader.leader_state.high_watermark is not None


def _follower(cluster: RaftCluster) -> Member:
    return next(member for member in cluster.members if member is not cluster.leader)


def test_a_node_alone_leads_at_once() -> None:
    cluster = RaftCluster(1, voters=1)
    cluster.run(0.01)
    assert _commits(cluster)
    assert cluster.members[0].machine.leader == (0, 1)


def test_a_node_alone_leads_the_next_epoch_after_a_restart() -> None:
    cluster = RaftCluster(1, voters=1)
    cluster.run(0.01)
    member = cluster.members[0]
    member.stop(power_loss=True)
    member.start()
    cluster.run(0.01)
    assert member.machine.leader.leader_id == 0
    assert member.machine.leader.epoch > 1


def test_what_is_appended_is_committed_on_every_node_in_order() -> None:
    cluster, leader = _elected()
    for number in range(20):
        assert cluster.append([b"a%d" % number, b"b%d" % number], leader)
    cluster.run(2.0)
    expected = [value for number in range(20) for value in (b"a%d" % number, b"b%d" % number)]
    assert [member.machine.values for member in cluster.members] == [expected] * 3


def test_an_append_gives_the_offset_of_its_last_record() -> None:
    _, leader = _elected()
    assert leader.client is not None
    epoch, end = leader.client.leader_and_epoch.epoch, leader.log.end_offset
    assert leader.client.prepare_values(epoch, [b"a", b"b"]) == end + 1
    assert leader.client.prepare_values(epoch, [b"c"]) == end + 2


def test_only_the_leader_of_the_epoch_appends() -> None:
    cluster, leader = _elected()
    follower = _follower(cluster)
    assert leader.client is not None
    assert follower.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    with pytest.raises(NotLeaderError):
        follower.client.prepare_values(epoch, [b"a"])
    with pytest.raises(NotLeaderError):
        leader.client.prepare_values(epoch - 1, [b"a"])


def test_what_waits_to_be_written_has_a_bound() -> None:
    _, leader = _elected()
    assert leader.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    with pytest.raises(RecordBatchTooLargeError):
        leader.client.prepare_values(epoch, [bytes(MAX_BATCH_SIZE_BYTES + 1)])
    big = bytes(MAX_BATCH_SIZE_BYTES - 100)
    for _ in range(10):
        leader.client.prepare_values(epoch, [big])
    with pytest.raises(BufferAllocationError):
        leader.client.prepare_values(epoch, [big])


def test_a_leader_that_resigns_is_followed_by_another_at_once() -> None:
    cluster, leader = _elected()
    assert leader.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    leader.client.resign(epoch)
    leader.turn()
    cluster.run(0.5)
    found = cluster.leader
    assert found is not None
    assert found is not leader
    assert found.client is not None
    assert found.client.leader_and_epoch.epoch == epoch + 1


def test_resigning_from_an_epoch_that_is_not_ones_own_is_refused() -> None:
    cluster, leader = _elected()
    follower = _follower(cluster)
    assert leader.client is not None
    assert follower.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    with pytest.raises(ValueError, match="cannot resign"):
        leader.client.resign(epoch + 1)
    with pytest.raises(ValueError, match="cannot resign"):
        follower.client.resign(epoch)
    leader.client.resign(epoch - 1)
    cluster.run(1.0)
    assert cluster.leader is leader


def test_a_leader_without_a_majority_gives_up() -> None:
    cluster, leader = _elected()
    cluster.cut = {(leader.id, other.id) for other in cluster.members}
    cluster.cut |= {(other.id, leader.id) for other in cluster.members}
    cluster.run(3.5)
    assert leader.leader_state is None
    assert _commits(cluster)


def test_a_voter_that_was_cut_off_does_not_disturb_the_leader() -> None:
    """The pre-vote: without it the voter would come back with a later epoch (KIP-996)."""
    cluster, leader = _elected()
    follower = _follower(cluster)
    pairs = {(follower.id, other.id) for other in cluster.members}
    cluster.cut = pairs | {(other, this) for this, other in pairs}
    cluster.run(30.0)
    cluster.cut = set()
    cluster.run(5.0)
    assert cluster.leader is leader
    assert cluster.leaders == {1: leader.id}


def test_a_voter_that_hears_from_the_leader_only_does_not_vote_for_another() -> None:
    cluster, leader = _elected()
    follower = _follower(cluster)
    cluster.cut = {(leader.id, follower.id)}
    cluster.run(30.0)
    assert cluster.leader is leader


@pytest.mark.parametrize("seed", range(8))
def test_the_leader_that_was_killed_is_followed_by_another_within_half_a_second(seed: int) -> None:
    cluster, leader = _elected(seed=seed, voters=3 if seed % 2 else 5)
    began = cluster.now
    leader.stop(power_loss=False)
    cluster.run_until(lambda: _commits(cluster), step=0.01)
    assert cluster.now - began < 0.5


def test_the_leader_whose_machine_is_gone_is_followed_by_another_after_the_fetch_timeout() -> None:
    cluster, leader = _elected()
    began = cluster.now
    leader.stop(power_loss=True, silent=True)
    cluster.run_until(lambda: _commits(cluster))
    assert 1.5 < cluster.now - began < 6.0


@pytest.mark.parametrize("voters", [3, 5])
def test_a_voter_whose_connections_the_leader_refuses_does_not_disturb_it(voters: int) -> None:
    cluster, leader = _elected(voters=voters)
    follower = _follower(cluster)
    epoch = leader.machine.leader.epoch
    cluster.refused.add((follower.id, leader.id))
    cluster.run(30.0)
    assert cluster.leader is leader
    assert leader.machine.leader.epoch == epoch
    cluster.refused.clear()
    cluster.append([b"again"], leader)
    cluster.run(3.0)
    assert follower.machine.values == [b"again"]


def test_a_voter_whose_connections_the_leader_refuses_asks_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leader = _elected()
    cluster.refused.add((_follower(cluster).id, leader.id))
    asked: list[float] = []
    become = Replica.to_prospective

    def note(self: Replica, now: float) -> None:
        asked.append(now)
        become(self, now)

    monkeypatch.setattr(Replica, "to_prospective", note)
    cluster.run(60.0)
    assert len([at for at in asked if at > cluster.now - 30.0]) <= 30.0 / 2.0
    assert len(asked) > 5


def test_a_connection_that_is_lost_once_starts_no_election() -> None:
    cluster, leader = _elected()
    epoch = leader.machine.leader.epoch
    for _ in range(20):
        cluster.reset_connections(leader)
        cluster.run(0.8)
    assert leader.machine.leader.epoch == epoch
    assert all(member.machine.leader == leader.machine.leader for member in cluster.members)


def test_a_follower_that_was_away_for_long_gets_the_snapshot() -> None:
    cluster, leader = _elected()
    follower = _follower(cluster)
    follower.stop(power_loss=True)
    for number in range(10):
        cluster.append([b"%d" % number], leader)
        cluster.run(0.1)
    cluster.snapshot(leader, delete=True)
    assert leader.log.start_offset > 0
    follower.start()
    cluster.run(3.0)
    assert follower.machine.values == leader.machine.values
    assert follower.log.start_offset == leader.log.start_offset


@pytest.mark.parametrize("size", [None, 0], ids=["gone", "out of range"])
def test_a_snapshot_that_is_offered_and_gone_is_not_asked_for_as_fast_as_the_network_goes(
    size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, leader = _elected()
    follower = _follower(cluster)
    follower.stop(power_loss=True)
    cluster.append([b"x"] * 10, leader)
    cluster.run(0.5)
    cluster.snapshot(leader, delete=True)
    asked = []

    def snapshot_size(snapshot_id: OffsetAndEpoch) -> int | None:
        asked.append(cluster.now)
        return size

    with monkeypatch.context() as patch:
        patch.setattr(leader.log, "snapshot_size", snapshot_size)
        follower.start()
        cluster.run(2.0)
    backoff = follower.config.retry_backoff
    assert len(asked) > 10
    assert all(later - earlier >= backoff for earlier, later in pairwise(asked))
    cluster.run(1.0)
    assert follower.machine.values == leader.machine.values


def test_an_observer_finds_the_leader_again_that_is_no_bootstrap_server() -> None:
    """Its answer was lost: bootstrap servers name the leader that is known, and it has to be asked again."""
    cluster, leader = _elected(voters=3, nodes=4, directories=True)
    observer = cluster.members[3]
    observer.stop(power_loss=False)
    other = _follower(cluster).id
    observer.config = replace(observer.config, bootstrap=(Node(-2, f"n{other}", 9093),))
    observer.start()
    cluster.run(1.0)
    cluster.cut = {(leader.id, 3)}
    cluster.run(10.0)
    cluster.cut = set()
    cluster.append([b"a"])
    cluster.run(5.0)
    assert observer.log.end_offset == cluster.committed_end


def test_an_observer_asks_the_voters_that_it_knows_where_no_bootstrap_server_is_of_the_quorum_any_more() -> None:
    """Two observers, each the other's only bootstrap server; the leader that they knew is gone, and another leads."""
    cluster, leader = _elected(voters=3, nodes=5, directories=True)
    cluster.append([b"a"])
    cluster.run(5.0)
    observers = [cluster.members[one] for one in (3, 4)]
    for member, other in zip(observers, (4, 3), strict=True):
        member.stop(power_loss=False)
        member.config = replace(member.config, bootstrap=(Node(-2, f"n{other}", 9093),))
    leader.stop(power_loss=False)
    cluster.run(10.0)
    for member in observers:
        member.start()
    cluster.append([b"b"])
    cluster.run(20.0)
    assert [member.log.end_offset for member in observers] == [cluster.committed_end] * 2


def test_voters_of_a_history_that_is_lost_go_with_it_when_a_snapshot_is_loaded() -> None:
    """The log was longer than the snapshot that takes its place, so its end says nothing of what was read."""
    cluster, leader = _elected(voters=3, nodes=4, directories=True)
    away = _follower(cluster)
    pairs = {(away.id, other.id) for other in cluster.members}
    cluster.cut = pairs | {(other, this) for this, other in pairs}
    cluster.append([b"a"], leader)
    cluster.run(1.0)
    assert away.client is not None
    state = away.client.replica
    lost = voter_set(range(4), directories=True)
    end = away.log.end_offset
    away.log.append(build_control_batch([lost.to_record()] * 9, base_offset=end, epoch=1, timestamp_ms=0), 1, 0)
    state.partition_state.update()
    assert state.partition_state.last_voter_set == lost
    assert leader.client is not None
    leader.client.resign(1)
    leader.turn()
    cluster.run(3.0)
    for member in cluster.members:
        if member is not away:
            cluster.snapshot(member, delete=True)
    cluster.cut = set()
    cluster.run(10.0)
    assert away.machine.values == [b"a"]
    assert state.partition_state.last_voter_set == voter_set(range(3), directories=True)


def test_a_snapshot_of_what_is_not_committed_is_refused() -> None:
    _, leader = _elected()
    assert leader.client is not None
    end = OffsetAndEpoch(leader.log.end_offset + 1, 1)
    with pytest.raises(ValueError, match="no snapshot"):
        leader.client.create_snapshot(end, 0)
    with pytest.raises(ValueError, match="another epoch"):
        leader.client.create_snapshot(OffsetAndEpoch(leader.log.end_offset, 99), 0)


def test_a_voter_joins_and_leaves() -> None:
    cluster, leader = _elected(voters=3, nodes=4, directories=True)
    added = cluster.change_voters(3, add=True)
    cluster.run(2.0)
    assert cluster.answers[added].error_code == 0  # type: ignore[attr-defined]
    removed = cluster.change_voters(leader.id, add=False)
    cluster.run(5.0)
    assert cluster.answers[removed].error_code == 0  # type: ignore[attr-defined]
    assert _commits(cluster)
    assert cluster.leader is not leader
    for member in cluster.members:
        assert member.client is not None
        ids = member.client.replica.partition_state.last_voter_set.ids
        assert ids == [other.id for other in cluster.members if other is not leader]


def test_what_cannot_become_of_the_voters_is_refused_by_its_error() -> None:
    cluster, _ = _elected(voters=3, nodes=4, directories=True)
    known = cluster.change_voters(1, add=True)
    unknown = cluster.change_voters(3, add=False)
    cluster.run(1.0)
    assert cluster.answers[known].error_code == DuplicateVoterError.code  # type: ignore[attr-defined]
    assert cluster.answers[unknown].error_code == VoterNotFoundError.code  # type: ignore[attr-defined]


def test_a_vote_is_remembered_after_a_power_loss() -> None:
    cluster = RaftCluster(7)
    voter = cluster.members[2]
    assert _asks_for_vote(cluster, voter, 0)
    voter.stop(power_loss=True)
    voter.start()
    assert not _asks_for_vote(cluster, voter, 1)
    assert _asks_for_vote(cluster, voter, 0)


def _asks_for_vote(cluster: RaftCluster, voter: Member, candidate: int) -> bool:
    assert voter.client is not None
    config = cluster.members[candidate].config
    request = raft_messages.make_vote_request(config, 5, ReplicaKey(voter.id), OffsetAndEpoch(0, 0), pre_vote=False)
    answer = voter.client._voting.handle_vote(request, "CONTROLLER", cluster.now)
    return answer.topics[0].partitions[0].vote_granted


def test_a_follower_counts_nothing_as_committed_that_it_does_not_have() -> None:
    cluster, _ = _elected()
    follower = _follower(cluster)
    assert follower.client is not None
    state = follower.client.replica.quorum.state
    follower.client._fetcher._advance(state, 10_000)  # type: ignore[arg-type]
    assert follower.client.high_watermark == follower.log.end_offset


def test_a_controller_joins_by_itself_if_it_is_told_to() -> None:
    cluster, leader = _elected(voters=3, nodes=5, directories=True, auto_join=True)
    cluster.run(20.0)
    assert leader.client is not None
    assert leader.client.replica.partition_state.last_voter_set.ids == [0, 1, 2, 3, 4]


def test_describe_quorum_tells_voters_and_observers() -> None:
    cluster, leader = _elected(voters=3, nodes=4, directories=True)
    topic = TopicData(raft_messages.METADATA_TOPIC, [PartitionData(0)])
    answer = cluster.answers[cluster.ask(DescribeQuorumRequest([topic]))]
    partition = answer.topics[0].partitions[0]  # type: ignore[attr-defined]
    assert partition.leader_id == leader.id
    assert [found.replica_id for found in partition.current_voters] == [0, 1, 2]
    assert [found.replica_directory_id for found in partition.observers] == [directory_of(3)]
    assert {found.log_end_offset for found in partition.current_voters} == {leader.log.end_offset}


def test_another_clusters_request_is_refused() -> None:
    _, leader = _elected()
    assert leader.client is not None
    request = raft_messages.VoteRequest(cluster_id="other")
    answer = leader.client._voting.handle_vote(request, "CONTROLLER", 0.0)
    assert answer.error_code
    assert CLUSTER_ID != "other"


def test_elections_are_timed_by_who_asked_for_votes() -> None:
    cluster, leader = _elected()
    leader.stop(power_loss=False)
    cluster.run_until(lambda: cluster.leader is not leader and _commits(cluster))
    cluster.run(1.0)
    times = [member.client.replica.elections for member in cluster.members if member.client is not None]
    assert any(found.count for found in times), "who stood for election has a time"
    for found in times:
        assert 0 <= found.average <= found.longest < 10
        assert found.total == pytest.approx(found.average * found.count)
