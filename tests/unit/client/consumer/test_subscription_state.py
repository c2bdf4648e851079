"""SubscriptionState: subscription, assignment, positions."""

from __future__ import annotations

import re

import pytest

from barnabas.client.consumer.auto_offset_reset_strategy import EARLIEST, LATEST, NONE, AutoOffsetResetStrategy
from barnabas.client.consumer.offsets import (
    EpochEndOffset,
    FetchPosition,
    LeaderAndEpoch,
    OffsetAndMetadata,
)
from barnabas.client.consumer.subscription_state import SubscriptionState
from barnabas.errors import ConfigError, IllegalStateError, NoOffsetForPartitionError
from barnabas.protocol.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADER = LeaderAndEpoch(1, 5)


def assigned(*partitions: TopicPartition, strategy: AutoOffsetResetStrategy = LATEST) -> SubscriptionState:
    state = SubscriptionState(strategy)
    state.assign_from_user(partitions)
    return state


def fetchable(state: SubscriptionState) -> list[TopicPartition]:
    return [partition for partition in state.partitions_in_order() if state.fetchable(partition) is not None]


def test_topics_pattern_and_assignment_exclude_each_other() -> None:
    state = assigned(T0)

    with pytest.raises(IllegalStateError, match="unsubscribe"):
        state.subscribe(["t"], None)
    with pytest.raises(IllegalStateError):
        state.subscribe_pattern(re.compile("t"), None)
    state.unsubscribe()
    state.subscribe(["t"], None)
    with pytest.raises(IllegalStateError):
        state.assign_from_user([T0])


def test_subscribing_tells_whether_the_topics_changed() -> None:
    state = SubscriptionState(LATEST)

    assert state.subscribe(["a", "b"], None)
    assert not state.subscribe(["b", "a"], None)
    assert state.subscribe(["a"], None)


@pytest.mark.shows("S1.44", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.set_position")
def test_holds_subscription_and_offset_state() -> None:
    state = SubscriptionState(LATEST)
    state.subscribe(["t"], None)
    state.assign_from_subscribed([T0, T1])
    state.seek(T0, 10)
    state.set_position(T0, FetchPosition(15, 3))

    assert state.subscription == {"t"}
    assert state.assigned_partitions == {T0, T1}
    assert state.all_consumed() == {T0: OffsetAndMetadata(15, "", 3)}


def test_a_partition_that_stays_keeps_its_position_through_a_new_assignment() -> None:
    state = SubscriptionState(LATEST)
    state.subscribe(["t"], None)
    state.assign_from_subscribed([T0])
    state.seek(T0, 10)

    state.assign_from_subscribed([T0, T1])

    assert state.position(T0) == FetchPosition(10)
    assert state.initializing_partitions == {T1}
    state.assign_from_subscribed([T1])
    state.assign_from_subscribed([T0, T1])
    assert state.initializing_partitions == {T0, T1}


def test_a_partition_is_fetchable_with_a_valid_position_and_neither_paused_nor_about_to_be_revoked() -> None:
    state = assigned(T0, T1)
    assert fetchable(state) == []

    state.seek(T0, 1)
    state.seek(T1, 1)
    assert fetchable(state) == [T0, T1]
    state.pause(T0)
    assert fetchable(state) == [T1]
    state.resume(T0)
    state.mark_pending_revocation([T1])
    assert fetchable(state) == [T0]
    state.request_offset_reset(T0)
    assert fetchable(state) == []


def test_a_partition_that_delivered_comes_last() -> None:
    state = assigned(T0, T1)
    state.seek(T0, 1)
    state.seek(T1, 1)

    state.move_partition_to_end(T0)

    assert fetchable(state) == [T1, T0]


def test_a_reset_takes_only_the_answer_it_waits_for() -> None:
    state = assigned(T0)
    state.request_offset_reset(T0, EARLIEST)

    state.maybe_seek_unvalidated(T0, FetchPosition(99), LATEST)
    assert state.position(T0) is None
    state.maybe_seek_unvalidated(T0, FetchPosition(3), EARLIEST)
    assert state.valid_position(T0) == FetchPosition(3)
    state.maybe_seek_unvalidated(T0, FetchPosition(7), EARLIEST)
    assert state.valid_position(T0) == FetchPosition(3)
    state.maybe_seek_unvalidated(T1, FetchPosition(7), EARLIEST)


def test_resets_wait_for_their_backoff() -> None:
    state = assigned(T0)
    state.request_offset_reset(T0)

    state.set_next_allowed_retry([T0, T1], 5.0)

    assert state.partitions_needing_reset(4.9) == set()
    assert state.partitions_needing_reset(5.0) == {T0}


def test_without_a_reset_policy_a_missing_position_is_an_error() -> None:
    state = assigned(T0, strategy=NONE)

    with pytest.raises(NoOffsetForPartitionError) as raised:
        state.reset_initializing_positions()

    assert raised.value.partitions == (T0,)


def test_positions_jump_with_a_new_seek_id_and_move_on_without() -> None:
    state = assigned(T0)
    state.seek(T0, 5)
    before = state.seek_id(T0)

    state.set_position(T0, FetchPosition(6))
    assert state.seek_id(T0) == before
    state.seek(T0, 6)
    assert state.seek_id(T0) == before
    state.seek(T0, 3)
    assert state.seek_id(T0) != before
    assert state.seek_id(T1) == 0


def test_a_new_leader_has_to_confirm_a_position_whose_epoch_is_known() -> None:
    state = assigned(T0)
    state.seek_validated(T0, FetchPosition(10, 4, LeaderAndEpoch(1, 4)))

    assert state.maybe_validate_position(T0, LEADER)
    assert state.partitions_needing_validation(0.0) == {T0}
    assert fetchable(state) == []
    state.maybe_complete_validation(T0, FetchPosition(10, 4, LEADER), EpochEndOffset(4, 20))
    assert state.valid_position(T0) == FetchPosition(10, 4, LEADER)


def test_a_position_without_an_epoch_needs_no_confirmation() -> None:
    state = assigned(T0)
    state.seek(T0, 10)

    assert not state.maybe_validate_position(T0, LEADER)
    assert fetchable(state) == [T0]


@pytest.mark.parametrize(
    ("end", "position"),
    [(EpochEndOffset(3, 8), FetchPosition(8, 3, LEADER)), (EpochEndOffset(-1, -1), None)],
)
def test_a_truncated_log_takes_the_position_back(end: EpochEndOffset, position: FetchPosition | None) -> None:
    state = assigned(T0)
    state.seek_unvalidated(T0, FetchPosition(10, 4, LEADER))

    assert state.maybe_complete_validation(T0, FetchPosition(10, 4, LEADER), end) is None

    assert state.position(T0) == position
    assert state.is_offset_reset_needed(T0) == (position is None)


def test_a_truncated_log_is_told_where_no_reset_policy_is_set() -> None:
    state = assigned(T0, strategy=NONE)
    state.seek_unvalidated(T0, FetchPosition(10, 4, LEADER))

    truncation = state.maybe_complete_validation(T0, FetchPosition(10, 4, LEADER), EpochEndOffset(3, 8))

    assert truncation is not None
    assert truncation.divergent_offset == OffsetAndMetadata(8, "", 3)


def test_an_answer_for_an_older_position_is_ignored() -> None:
    state = assigned(T0)
    state.seek_unvalidated(T0, FetchPosition(10, 4, LEADER))
    state.seek_unvalidated(T0, FetchPosition(12, 4, LEADER))

    state.maybe_complete_validation(T0, FetchPosition(10, 4, LEADER), EpochEndOffset(3, 8))

    assert state.partitions_needing_validation(0.0) == {T0}


def test_lag_is_the_distance_to_what_may_be_read() -> None:
    state = assigned(T0)
    state.seek(T0, 10)
    assert state.partition_lag(T0, read_committed=False) is None

    state.update_log_offsets(T0, 30, 0, 25)

    assert state.partition_lag(T0, read_committed=False) == 20
    assert state.partition_lag(T0, read_committed=True) == 15


def test_names_a_partition_that_is_not_assigned() -> None:
    with pytest.raises(IllegalStateError, match="t-1 is not assigned"):
        assigned(T0).seek(T1, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("LATEST", LATEST),
        ("none", NONE),
        ("by_duration:P1DT2H3M4.5S", AutoOffsetResetStrategy("by_duration", 93_784_500)),
        ("by_duration:PT0S", AutoOffsetResetStrategy("by_duration", 0)),
    ],
)
def test_reads_reset_strategies(text: str, expected: AutoOffsetResetStrategy) -> None:
    assert AutoOffsetResetStrategy.parse(text) == expected


@pytest.mark.parametrize("text", ["", "first", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT-5S"])
def test_refuses_other_reset_strategies(text: str) -> None:
    with pytest.raises(ConfigError):
        AutoOffsetResetStrategy.parse(text)


def test_a_duration_counts_back_from_now() -> None:
    assert AutoOffsetResetStrategy.parse("by_duration:PT1S").timestamp(10_000) == 9_000
    assert (EARLIEST.timestamp(10_000), LATEST.timestamp(10_000)) == (-2, -1)
