"""`kraft.version` from 0 to 1 in a running quorum: what followers tell, what the leader writes, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.broker.raft.control_records import read_control_records
from barnabas.broker.raft.errors import NotLeaderError
from barnabas.errors import InvalidRequestError, InvalidUpdateVersionError, UnsupportedVersionError, VoterNotFoundError
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.leader_change_message import LeaderChangeMessage
from barnabas.protocol.messages.update_raft_voter_request import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
)
from barnabas.protocol.messages.voters_record import VotersRecord
from barnabas.records import read_batches
from tests.support.raft_cluster import CLUSTER_ID, RaftCluster, directory_of, endpoints_of, voter_set

if TYPE_CHECKING:
    from tests.support.raft_cluster import Member

#: A follower tells its leader within the fetch timeout, and a fetch that waits there.
_TOLD = 3.0


def _quorum(**settings: Any) -> tuple[RaftCluster, Member]:
    cluster = RaftCluster(**{"seed": 7, **settings})
    return cluster, _leader(cluster)


def _leader(cluster: RaftCluster) -> Member:
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader.leader_state.high_watermark is not None)  # type: ignore[union-attr]
    assert cluster.leader is not None
    return cluster.leader


def _upgrade(leader: Member, level: int = 1, *, validate_only: bool = False) -> None:
    assert leader.client is not None
    leader.client.upgrade_kraft_version(leader.client.leader_and_epoch.epoch, level, validate_only=validate_only)
    leader.turn()


def _levels(cluster: RaftCluster) -> list[int]:
    return [member.client.replica.partition_state.kraft_version for member in cluster.members if member.client]


def _written(member: Member, start: int) -> tuple[list[bool], list[object]]:
    """Which batches are control batches, and the messages of all of them."""
    data = member.log.read(start, 1 << 20)
    return [batch.is_control for batch in read_batches(data)], [type(found[1]) for found in read_control_records(data)]


def test_voters_of_level_0_become_voters_that_can_change() -> None:
    cluster, leader = _quorum(nodes=4)
    cluster.run(_TOLD)
    end = leader.log.end_offset
    _upgrade(leader)
    cluster.run(1.0)
    assert _written(leader, end) == ([True], [KRaftVersionRecord, VotersRecord])
    assert _levels(cluster) == [1] * 4
    for member in cluster.members:
        assert member.client is not None
        assert member.client.replica.partition_state.last_voter_set == voter_set(range(3), directories=True)
    number = cluster.change_voters(3, add=True)
    cluster.run(2.0)
    assert cluster.answers[number].error_code == 0  # type: ignore[attr-defined]
    other = next(member.id for member in cluster.members[:3] if member is not leader)
    number = cluster.change_voters(other, add=False)
    cluster.run(2.0)
    assert cluster.answers[number].error_code == 0  # type: ignore[attr-defined]


def test_a_quorum_that_was_raised_goes_on_after_a_power_loss_of_all() -> None:
    cluster, leader = _quorum(on_files=True)
    cluster.run(_TOLD)
    _upgrade(leader)
    cluster.run(1.0)
    for member in cluster.members:
        member.stop(power_loss=True)
    for member in cluster.members:
        member.start()
    _leader(cluster)
    assert _levels(cluster) == [1] * 3
    assert cluster.append([b"on"])
    cluster.run(1.0)
    assert [member.machine.values for member in cluster.members] == [[b"on"]] * 3


def test_a_level_that_was_not_committed_goes_with_its_leader_and_can_be_asked_for_again() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    cluster.cut = {(leader.id, other.id) for other in cluster.members}
    _upgrade(leader)
    leader.stop(power_loss=False)
    cluster.cut.clear()
    cluster.run(2.0)
    successor = _leader(cluster)
    assert successor is not leader
    leader.start()
    cluster.run(_TOLD)
    assert _levels(cluster) == [0] * 3
    _upgrade(successor)
    cluster.run(1.0)
    assert _levels(cluster) == [1] * 3


def test_a_leader_that_was_not_told_of_all_directories_refuses() -> None:
    cluster, leader = _quorum()
    missing = next(member for member in cluster.members if member is not leader)
    missing.stop(power_loss=False)
    cluster.run(_TOLD)
    leader = _leader(cluster)
    end = leader.log.end_offset
    with pytest.raises(InvalidUpdateVersionError, match=f"controllers {missing.id} have not told"):
        _upgrade(leader)
    cluster.run(0.5)
    assert leader.log.end_offset == end
    missing.start()
    cluster.run(_TOLD)
    _upgrade(leader)
    cluster.run(1.0)
    assert _levels(cluster) == [1] * 3


def test_validating_writes_nothing() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    end = leader.log.end_offset
    _upgrade(leader, validate_only=True)
    cluster.run(1.0)
    assert leader.log.end_offset == end


def test_the_level_that_is_in_force_or_on_its_way_is_no_change() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    _upgrade(leader, 0)
    assert leader.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    leader.client.upgrade_kraft_version(epoch, 1, validate_only=False)
    leader.client.upgrade_kraft_version(epoch, 1, validate_only=False)
    leader.turn()
    cluster.run(1.0)
    end = leader.log.end_offset
    _upgrade(leader)
    cluster.run(1.0)
    assert leader.log.end_offset == end


@pytest.mark.parametrize(("first", "then"), [(1, 0), (1, 2)])
def test_the_level_does_not_sink_and_has_a_highest(first: int, then: int) -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    _upgrade(leader, first)
    cluster.run(1.0)
    with pytest.raises(InvalidUpdateVersionError, match=f"cannot go from 1 to {then}"):
        _upgrade(leader, then)


def test_only_the_leader_of_the_epoch_writes_it() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    assert leader.client is not None
    epoch = leader.client.leader_and_epoch.epoch
    with pytest.raises(NotLeaderError):
        leader.client.upgrade_kraft_version(epoch - 1, 1, validate_only=False)
    follower = next(member for member in cluster.members if member is not leader)
    assert follower.client is not None
    with pytest.raises(NotLeaderError):
        follower.client.upgrade_kraft_version(epoch, 1, validate_only=False)


def _tell(cluster: RaftCluster, node_id: int, *, highest: int = 1, listener: str = "CONTROLLER") -> int:
    request = UpdateRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        current_leader_epoch=_leader(cluster).client.leader_and_epoch.epoch,  # type: ignore[union-attr]
        voter_id=node_id,
        voter_directory_id=directory_of(node_id),
        listeners=[Listener(listener, endpoint.host, endpoint.port) for endpoint in endpoints_of(node_id)],
        k_raft_version_feature=KRaftVersionFeature(0, highest),
    )
    number = cluster.ask(request)
    cluster.run(0.1)
    return cluster.answers[number].error_code  # type: ignore[attr-defined, no-any-return]


def test_a_voter_that_does_not_know_the_level_holds_it_back() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    other = next(member.id for member in cluster.members if member is not leader)
    assert _tell(cluster, other, highest=0) == 0
    with pytest.raises(InvalidUpdateVersionError, match=f"controllers {other} do not support it"):
        _upgrade(leader)


def test_who_is_no_voter_is_not_taken_for_one() -> None:
    cluster, leader = _quorum(nodes=4)
    cluster.run(_TOLD)
    assert _tell(cluster, 3) == VoterNotFoundError.code
    _upgrade(leader)
    cluster.run(1.0)
    assert leader.client is not None
    assert leader.client.replica.partition_state.last_voter_set.ids == [0, 1, 2]


def test_voters_do_not_come_and_go_at_level_0() -> None:
    cluster, _ = _quorum(nodes=4)
    cluster.run(_TOLD)
    for add, node_id in ((True, 3), (False, 1)):
        number = cluster.change_voters(node_id, add=add)
        cluster.run(1.0)
        assert cluster.answers[number].error_code == UnsupportedVersionError.code  # type: ignore[attr-defined]


def test_a_voter_tells_its_endpoints_though_its_fetches_wait_at_the_leader() -> None:
    """The period of UpdateRaftVoter nearly always ends while a fetch is in flight."""
    cluster, leader = _quorum(directories=True)
    moved = next(member for member in cluster.members if member is not leader)
    moved.stop(power_loss=False)
    listeners = tuple(endpoint._replace(port=19093) for endpoint in moved.config.listeners)
    moved.config = replace(moved.config, listeners=listeners)
    moved.start()
    cluster.run(_TOLD + 1.0)
    for member in cluster.members:
        assert member.client is not None
        assert member.client.replica.partition_state.last_voter_set.endpoints(moved.id) == listeners


def test_a_request_without_the_listener_of_the_quorum_is_refused() -> None:
    cluster, leader = _quorum()
    cluster.run(_TOLD)
    other = next(member.id for member in cluster.members if member is not leader)
    assert _tell(cluster, other, listener="OTHER") == InvalidRequestError.code


def test_leader_changes_are_written_as_apache_kafka_reads_them() -> None:
    """Controllers of release 4.3 decode the message in version 0 whatever it says, and end at a longer one."""
    _, leader = _quorum(directories=True)
    found = [record.message for record in read_control_records(leader.log.read(0, 1 << 20))]
    changes = [message for message in found if isinstance(message, LeaderChangeMessage)]
    assert changes
    assert all(message.version == 0 for message in changes)
