"""A follower that has one more partition to ask for gets it through while its Fetch waits, whoever learns it first."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.partition_registration import PartitionRegistration
from tests.support.replicated_pair import FOLLOWER, LEADER, WAIT, ReplicatedPair

THIRD = 3
#: Partition 1 of the pair as before, led by a third broker, and then by the leader of partition 0.
BEFORE = PartitionRegistration((LEADER, FOLLOWER, THIRD), (LEADER, FOLLOWER, THIRD), THIRD, 1, 1)
AFTER = PartitionRegistration((LEADER, FOLLOWER, THIRD), (LEADER, FOLLOWER), LEADER, 2, 2)
MOVED = range(1, 2)


@pytest.fixture
def pair() -> ReplicatedPair:
    """Both follow partition 1, and the follower's Fetch of partition 0 waits."""
    found = ReplicatedPair(2)
    for broker in (found.leader, found.follower):
        broker.assign(MOVED, BEFORE)
    # The way to the third broker is another one.
    found.fetcher = found.follower.manager._cluster.fetchers.by_leader[LEADER, 0]  # type: ignore[union-attr]
    for _ in range(10):
        found.fetch()
    found.ask()
    found.leader.broker.advance(0.1)
    assert not found.is_answered
    return found


def waits_until_asked(pair: ReplicatedPair, learns_after: float) -> tuple[float, int]:
    """Return how long it takes until the follower asks for partition 1, and with how many Fetches.

    It learns of it so many seconds after the leader.
    """
    broker, began, fetches, knows = pair.leader.broker, pair.leader.broker.now, 0, False
    while True:
        if not knows and broker.now - began >= learns_after:
            pair.follower.assign(MOVED, AFTER)
            knows = True
        if pair.is_answered:
            pair.answer()
            fetches += 1
            asked = pair.ask()
            if 1 in [part.partition for topic in asked.topics for part in topic.partitions]:
                return broker.now - began, fetches
        broker.advance(0.001)


def test_a_fetch_that_waits_is_answered_when_the_leader_leads_what_its_follower_knows_of(pair: ReplicatedPair) -> None:
    pair.follower.assign(MOVED, AFTER)
    pair.leader.assign(MOVED, AFTER)
    assert waits_until_asked(pair, 0.0) == (0.0, 1)


@pytest.mark.parametrize("late", [0.002, 0.02, 0.1])
def test_a_follower_that_learns_of_it_later_waits_for_about_as_long_as_that(pair: ReplicatedPair, late: float) -> None:
    pair.leader.assign(MOVED, AFTER)
    waited, fetches = waits_until_asked(pair, late)
    assert waited <= 2 * late + 0.02
    assert fetches <= 6


def test_fetches_wait_as_long_as_they_may_again_soon(pair: ReplicatedPair) -> None:
    """One that never asks for it, as its disk has failed, does not go round and round."""
    pair.leader.assign(MOVED, AFTER)
    fetches = 0
    for _ in range(3000):
        if pair.is_answered:
            pair.answer()
            fetches += 1
            pair.ask()
        pair.leader.broker.advance(0.001)
    assert fetches <= 3.0 / WAIT + 8


def test_a_broker_that_does_not_follow_it_waits_on(pair: ReplicatedPair) -> None:
    alone = PartitionRegistration((LEADER, THIRD), (LEADER,), LEADER, 2, 2)
    pair.leader.assign(MOVED, alone)
    assert not pair.is_answered


def test_another_isr_in_the_same_epoch_answers_no_one(pair: ReplicatedPair) -> None:
    pair.leader.assign(MOVED, AFTER)
    pair.follower.assign(MOVED, AFTER)
    for _ in range(20):
        pair.answer()
        pair.ask()
    pair.leader.broker.advance(0.1)
    assert not pair.is_answered
    pair.leader.assign(range(1), PartitionRegistration((LEADER, FOLLOWER), (LEADER,), LEADER, 0, 1))
    before = pair.leader.manager.awaited.times(FOLLOWER)
    pair.leader.assign(range(1), PartitionRegistration((LEADER, FOLLOWER), (LEADER, FOLLOWER), LEADER, 0, 2))
    assert pair.leader.manager.awaited.times(FOLLOWER) == before


def test_a_replica_that_is_added_is_awaited_as_well(pair: ReplicatedPair) -> None:
    pair.leader.assign(MOVED, PartitionRegistration((LEADER, THIRD), (LEADER,), LEADER, 2, 2))
    assert not pair.is_answered
    pair.leader.assign(MOVED, PartitionRegistration((LEADER, THIRD, FOLLOWER), (LEADER,), LEADER, 2, 3))
    assert pair.is_answered
