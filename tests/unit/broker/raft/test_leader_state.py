"""What a leader counts as committed."""

from __future__ import annotations

import pytest

from barnabas.broker.instant import Instant
from barnabas.broker.raft.batch_accumulator import BatchAccumulator
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.errors import IllegalStateError
from tests.support.raft_cluster import endpoints_of, voter_set

_NOW = Instant(10.0, 10_000)


def _leader(voters: int, start: int) -> LeaderState:
    return LeaderState(
        ReplicaKey(0),
        endpoints_of(0),
        BatchAccumulator(4, start, 0.0),
        voters=voter_set(range(voters), directories=False),
        granting_voters=[],
        fetch_timeout=2.0,
        now=10.0,
    )


def test_a_record_of_an_earlier_epoch_is_committed_only_with_one_of_this_epoch() -> None:
    """Figure 8 of the Raft paper: another leader may still cut it, though a majority has it."""
    leader = _leader(3, start=7)
    voters = voter_set(range(3), directories=False)
    leader.update_local(8, 8, voters)
    assert not leader.update_replica(ReplicaKey(1), 7, _NOW)
    assert leader.high_watermark is None
    assert leader.update_replica(ReplicaKey(1), 8, _NOW)
    assert leader.high_watermark == 8


def test_a_majority_is_counted_for_every_number_of_voters() -> None:
    for count in range(1, 8):
        leader = _leader(count, start=0)
        leader.update_local(5, 5, voter_set(range(count), directories=False))
        for voter in range(1, count):
            has_majority = voter >= count // 2 + 1
            assert (leader.high_watermark == 5) == has_majority, (count, voter)
            leader.update_replica(ReplicaKey(voter), 5, _NOW)
        assert leader.high_watermark == 5


def test_what_the_leader_has_only_written_does_not_count() -> None:
    leader = _leader(3, start=0)
    voters = voter_set(range(3), directories=False)
    leader.update_local(5, 0, voters)
    leader.update_replica(ReplicaKey(1), 5, _NOW)
    assert leader.high_watermark is None
    assert leader.update_local(7, 3, voters)
    assert leader.high_watermark == 3
    assert leader.update_replica(ReplicaKey(2), 4, _NOW)
    assert leader.high_watermark == 4, "a majority is a majority without the leader"


def test_the_leaders_log_does_not_become_shorter() -> None:
    leader = _leader(1, start=0)
    leader.update_local(5, 3, voter_set(range(1), directories=False))
    with pytest.raises(IllegalStateError):
        leader.update_local(4, 3, voter_set(range(1), directories=False))


def test_an_observer_does_not_count() -> None:
    leader = _leader(3, start=0)
    leader.update_local(5, 5, voter_set(range(3), directories=False))
    assert not leader.update_replica(ReplicaKey(9), 5, _NOW)
    assert leader.high_watermark is None


def test_a_fetch_of_the_majority_keeps_the_leader() -> None:
    leader = _leader(5, start=0)
    leader.heard_from(ReplicaKey(1), 11.0)
    assert leader.resigns_at() == 13.0
    leader.heard_from(ReplicaKey(1), 11.5)
    assert leader.resigns_at() == 13.0
    leader.heard_from(ReplicaKey(2), 12.0)
    assert leader.resigns_at() == 15.0


def test_the_voter_with_the_longest_log_is_preferred() -> None:
    leader = _leader(4, start=0)
    leader.update_local(9, 9, voter_set(range(4), directories=False))
    leader.update_replica(ReplicaKey(2), 9, _NOW)
    leader.update_replica(ReplicaKey(3), 7, _NOW)
    assert leader.voters_by_offset() == [ReplicaKey(2), ReplicaKey(3), ReplicaKey(1)]
