"""Followed partitions in which nothing happens cost nothing, and are looked at again as soon as something does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker import delayed_fetch
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replication.replication_quota import LEADER as OF_LEADERS
from barnabas.broker.replication.replication_quota import ReplicationQuota
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.replicated_pair import FOLLOWER, LEADER, TOPIC, ReplicatedPair

MANY = 60


@pytest.fixture
def pair() -> ReplicatedPair:
    found = ReplicatedPair(MANY)
    found.settle()
    return found


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that the leader reads from now on."""
    seen: list[int] = []
    read = delayed_fetch._read

    def noted(manager: Any, target: Any, *arguments: Any, **keywords: Any) -> Any:
        seen.append(target.index)
        return read(manager, target, *arguments, **keywords)

    monkeypatch.setattr(delayed_fetch, "_read", noted)
    return seen


def calls_of(work: Callable[[], object]) -> int:
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_fetch_names_and_reads_none_that_is_quiet(pair: ReplicatedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads_of(monkeypatch)
    assert pair.ask().topics == []
    assert not pair.is_answered, "it waits, although there is nothing to look at"
    assert pair.answer() == {}
    assert seen == []


def test_one_that_grows_is_read_and_answers_who_waits(pair: ReplicatedPair, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reads_of(monkeypatch)
    pair.ask()
    pair.produce(7)
    assert pair.is_answered
    assert len(pair.answer()[7].records) > 0
    assert seen == [7]
    assert [part.partition for topic in pair.ask().topics for part in topic.partitions] == [7]
    pair.answer()


def test_one_that_grew_before_the_fetch_is_read_by_it(pair: ReplicatedPair) -> None:
    pair.produce(7)
    pair.produce(9)
    assert sorted(pair.fetch()) == [7, 9]


def test_what_grows_while_a_fetch_waits_counts_from_where_it_was_quiet(pair: ReplicatedPair) -> None:
    pair.fetcher._settings = pair.fetcher._settings._replace(min_bytes=400)
    pair.ask()
    for partition, answered in ((7, False), (8, False), (7, True)):
        pair.produce(partition)
        assert pair.is_answered is answered
    assert sorted(pair.answer()) == [7, 8]


def test_the_high_watermark_is_told_with_the_next_fetch(pair: ReplicatedPair) -> None:
    pair.produce(7)
    assert pair.fetch()[7].high_watermark == 0
    assert pair.fetch()[7].high_watermark == 1
    assert pair.follower.partition(TopicPartition(TOPIC, 7)).log.high_watermark == 1
    pair.fetch()
    assert pair.fetch() == {}


def test_it_counts_as_caught_up_as_long_as_its_session_is_used(pair: ReplicatedPair) -> None:
    for _ in range(200):  # 100 s; who lags for 30 s is taken out
        pair.fetch()
    pair.produce(7)
    pair.leader.manager.shrink_isrs(pair.leader.broker.now_ms)
    assert not pair.leader.proposals
    pair.leader.broker.advance(31)
    pair.leader.manager.shrink_isrs(pair.leader.broker.now_ms)
    assert [name.partition for name, *_ in pair.leader.proposals] == [7]


def test_a_session_that_is_not_used_keeps_no_one_in_sync(pair: ReplicatedPair) -> None:
    pair.leader.broker.advance(100)
    pair.produce(7)
    pair.leader.manager.shrink_isrs(pair.leader.broker.now_ms)
    assert [name.partition for name, *_ in pair.leader.proposals] == [7]


def test_a_follower_that_was_taken_out_is_looked_at_until_it_is_back(pair: ReplicatedPair) -> None:
    alone = PartitionRegistration((LEADER, FOLLOWER), (LEADER,), LEADER, 0, 1)
    pair.leader.assign(range(3, 4), alone)
    pair.fetch()
    assert [name.partition for name, *_ in pair.leader.proposals] == [3]


def test_one_that_was_taken_out_by_its_leaders_own_proposal_as_well(pair: ReplicatedPair) -> None:
    pair.leader.broker.advance(100)
    pair.produce(3)
    manager = pair.leader.manager
    manager.shrink_isrs(pair.leader.broker.now_ms)
    (_, _, _, done) = pair.leader.proposals.pop()
    done(PartitionRegistration((LEADER, FOLLOWER), (LEADER,), LEADER, 0, 1), pair.leader.broker.now_ms)
    pair.fetch()
    pair.fetch()
    assert [sorted(member for member, _ in proposed.isr) for _, _, proposed, _ in pair.leader.proposals] == [[1, 2]]


def test_a_broker_that_registers_again_is_known_in_its_new_life_in_every_partition(
    pair: ReplicatedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session goes on (ZooKeeper's expired, not the fetcher's), and no partition is quiet in the old epoch."""

    def epochs() -> set[int | None]:
        partitions = (pair.leader.partition(TopicPartition(TOPIC, index)) for index in range(MANY))
        return {one.in_sync.replicas[FOLLOWER].broker_epoch for one in partitions}

    assert epochs() == {1}
    monkeypatch.setattr(pair.fetcher, "_broker_epoch", lambda: 2)
    pair.fetch()
    assert epochs() == {2}


def test_another_leader_epoch_is_told_at_once(pair: ReplicatedPair) -> None:
    pair.ask()
    later = PartitionRegistration((LEADER, FOLLOWER), (LEADER, FOLLOWER), LEADER, 1, 1)
    pair.leader.assign(range(5, 6), later)
    assert pair.is_answered
    assert [index for index, data in pair.answer().items() if data.error_code] == [5]


def test_one_that_is_deleted_is_told(pair: ReplicatedPair) -> None:
    pair.ask()
    pair.leader.manager.apply_delta({}, [TopicPartition(TOPIC, 4)], pair.leader.broker.now_ms)
    pair.leader.broker.node.core.settle(pair.leader.broker.instant)
    assert [index for index, data in pair.answer().items() if data.error_code] == [4]


def test_a_start_that_moves_is_told(pair: ReplicatedPair) -> None:
    for _ in range(3):
        pair.produce(6)
    pair.settle()
    leader = pair.leader.partition(TopicPartition(TOPIC, 6))
    pair.leader.manager.delete_records(leader, 2)
    pair.leader.broker.node.core.settle(pair.leader.broker.instant)
    assert pair.fetch()[6].log_start_offset == 2
    pair.fetch()
    assert pair.leader.partition(TopicPartition(TOPIC, 6)).low_watermark == 2


def test_a_start_that_retention_moves_is_told_with_the_next_fetch(pair: ReplicatedPair) -> None:
    for _ in range(3):
        pair.produce(6)
    pair.settle()
    pair.leader.partition(TopicPartition(TOPIC, 6)).log.increment_log_start_offset(2, "retention")
    pair.leader.broker.node.core.settle(pair.leader.broker.instant)
    assert pair.fetch()[6].log_start_offset == 2
    pair.fetch()
    assert pair.fetch() == {}


def test_a_start_that_retention_moves_at_the_follower_is_told_with_its_next_fetch(pair: ReplicatedPair) -> None:
    for _ in range(3):
        pair.produce(6)
    pair.settle()
    pair.follower.partition(TopicPartition(TOPIC, 6)).log.increment_log_start_offset(2, "retention")
    (topic,) = pair.ask().topics
    assert [(part.partition, part.log_start_offset) for part in topic.partitions] == [(6, 2)]
    pair.answer()
    assert pair.leader.partition(TopicPartition(TOPIC, 6)).in_sync.replicas[FOLLOWER].log_start_offset == 2


def test_a_start_that_retention_moves_in_a_log_that_was_opened_anew_is_told(pair: ReplicatedPair) -> None:
    for _ in range(3):
        pair.produce(6)
    pair.settle()
    partition = pair.leader.partition(TopicPartition(TOPIC, 6))
    pair.leader.manager._log_moved(partition.log)
    pair.settle()
    partition.log.increment_log_start_offset(2, "retention")
    pair.leader.broker.node.core.settle(pair.leader.broker.instant)
    assert pair.fetch()[6].log_start_offset == 2


def test_a_partition_that_is_followed_no_more_is_not_told(pair: ReplicatedPair) -> None:
    pair.fetcher.remove_partition(TopicPartition(TOPIC, 7))
    pair.fetch()
    pair.ask()
    pair.produce(7)
    assert not pair.is_answered
    assert pair.answer() == {}


def test_a_session_that_ends_watches_nothing(pair: ReplicatedPair) -> None:
    purgatory = pair.leader.broker.state.purgatory
    assert len(purgatory._watchers) == 2 * MANY
    pair.fetcher.disconnected(pair.leader.broker.now)
    pair.leader.broker.advance(2)
    pair.fetch()
    sessions = pair.leader.broker.state.fetch_sessions
    assert len(sessions) == 1
    for id in list(sessions._sessions):
        sessions.remove(id)
    assert not purgatory._watchers


def test_what_the_quota_holds_back_answers_no_one(pair: ReplicatedPair) -> None:
    """A throttled follower that is not in sync waits its time, however much is appended."""
    quota = ReplicationQuota(OF_LEADERS, LEADER, lambda _topic: {"leader.replication.throttled.replicas": "*"}, 11, 1.0)
    quota.take_settings({"leader.replication.throttled.rate": "10"})
    pair.leader.manager.leader_quota = quota
    pair.leader.assign(range(7, 8), PartitionRegistration((LEADER, FOLLOWER), (LEADER,), LEADER, 0, 1))
    pair.produce(7)
    pair.fetch()  # it is sent, and uses the quota up
    for _ in range(3):
        quota.record(10_000, pair.leader.broker.now)
        pair.fetch()  # of the records that were sent it has not told yet what it knows to be committed
        pair.ask()
        pair.produce(7)
        assert not pair.is_answered
        pair.answer()


@pytest.mark.parametrize("record", [False, True])
def test_the_cost_of_a_fetch_does_not_grow_with_the_partitions(record: bool) -> None:
    costs = []
    for partitions in (10, 300):
        pair = ReplicatedPair(partitions)
        pair.settle()

        def fetch(pair: ReplicatedPair = pair) -> None:
            pair.ask()
            if record:
                pair.produce()
            else:
                # Not `advance`: the background work of logs would be counted, too.
                pair.leader.broker.now += 0.5
                pair.leader.broker.state.purgatory.tick(pair.leader.broker.now)
            pair.answer()
            pair.leader.manager.shrink_isrs(pair.leader.broker.now_ms)

        for _ in range(4):
            fetch()
        costs.append(calls_of(fetch))
    assert costs[0] == costs[1]


def test_a_high_watermark_alone_waits_for_the_next_record_or_a_moment(pair: ReplicatedPair) -> None:
    pair.produce(7)
    pair.fetch()
    pair.ask()
    assert not pair.is_answered, "the leader has something to do for the producer first"
    pair.produce(8)
    assert {index: data.high_watermark for index, data in pair.answer().items()} == {7: 1, 8: 0}
    pair.ask()
    began = pair.leader.broker.now
    pair.leader.broker.advance(0.02)
    assert pair.is_answered
    assert pair.answer()[8].high_watermark == 1
    assert pair.leader.broker.now - began < 0.03
