"""SubscriptionState against a plain model, through any sequence of calls."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.client.consumer.auto_offset_reset_strategy import EARLIEST, LATEST
from barnabas.client.consumer.offsets import EpochEndOffset, FetchPosition, LeaderAndEpoch
from barnabas.client.consumer.subscription_state import SubscriptionState
from barnabas.protocol.topic_partition import TopicPartition

PARTITIONS = [TopicPartition("t", number) for number in range(4)]
PARTITION = st.sampled_from(PARTITIONS)


class SubscriptionStateMachine(RuleBasedStateMachine):
    """The model: position, pause and what is waited for, of each assigned partition."""

    def __init__(self) -> None:
        super().__init__()
        self.state = SubscriptionState(LATEST)
        self.state.subscribe(["t"], None)
        self.positions: dict[TopicPartition, int | None] = {}
        self.waiting: dict[TopicPartition, str] = {}
        self.paused: set[TopicPartition] = set()

    @rule(partitions=st.sets(PARTITION))
    def assign(self, partitions: set[TopicPartition]) -> None:
        self.state.assign_from_subscribed(sorted(partitions))
        self.positions = {partition: self.positions.get(partition) for partition in partitions}
        self.waiting = {
            partition: self.waiting.get(partition, "initializing" if self.positions[partition] is None else "")
            for partition in partitions
        }
        self.paused &= partitions

    @rule(partition=PARTITION, offset=st.integers(0, 9))
    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition in self.positions:
            before = self.state.seek_id(partition)
            moved = self.positions[partition] != offset
            self.state.seek(partition, offset)
            self.positions[partition], self.waiting[partition] = offset, ""
            assert (self.state.seek_id(partition) != before) == moved

    @rule(partition=PARTITION, offset=st.integers(0, 9))
    def seek_with_epoch(self, partition: TopicPartition, offset: int) -> None:
        if partition in self.positions:
            self.state.seek_unvalidated(partition, FetchPosition(offset, 1, LeaderAndEpoch(1, 2)))
            self.positions[partition], self.waiting[partition] = offset, "validation"

    @rule(partition=PARTITION, end=st.integers(-1, 9))
    def validated(self, partition: TopicPartition, end: int) -> None:
        position = self.state.position(partition) if partition in self.positions else None
        if position is None or self.waiting[partition] != "validation":
            return
        self.state.maybe_complete_validation(partition, position, EpochEndOffset(1, end))
        self.waiting[partition] = "reset" if end < 0 else ""
        self.positions[partition] = None if end < 0 else min(position.offset, end)

    @rule(partition=PARTITION)
    def reset(self, partition: TopicPartition) -> None:
        if partition in self.positions:
            self.state.request_offset_reset(partition, EARLIEST)
            self.positions[partition], self.waiting[partition] = None, "reset"

    @rule(partition=PARTITION, offset=st.integers(0, 9), strategy=st.sampled_from([EARLIEST, LATEST]))
    def reset_answered(self, partition: TopicPartition, offset: int, strategy: object) -> None:
        waits = self.waiting.get(partition) == "reset" and self.state.reset_strategy(partition) == strategy
        self.state.maybe_seek_unvalidated(partition, FetchPosition(offset), strategy)  # type: ignore[arg-type]  # one of the two
        if waits:
            self.positions[partition], self.waiting[partition] = offset, ""

    @rule(partition=PARTITION)
    def pause_or_resume(self, partition: TopicPartition) -> None:
        if partition in self.paused:
            self.state.resume(partition)
            self.paused.remove(partition)
        elif partition in self.positions:
            self.state.pause(partition)
            self.paused.add(partition)

    @invariant()
    def agrees_with_the_model(self) -> None:
        state = self.state
        assert state.assigned_partitions == self.positions.keys()
        assert {p for p in self.positions if state.position(p) is not None} == {
            p for p, offset in self.positions.items() if offset is not None
        }
        assert {p: c.offset for p, c in state.all_consumed().items()} == {
            p: offset for p, offset in self.positions.items() if offset is not None
        }
        ready = {p for p, kind in self.waiting.items() if not kind}
        assert {p for p in state.partitions_in_order() if state.fetchable(p)} == ready - self.paused
        assert state.has_all_fetch_positions == (ready == self.positions.keys())
        assert state.paused_partitions == self.paused
        for kind, found in (
            ("initializing", state.initializing_partitions),
            ("reset", state.partitions_needing_reset(1.0)),
            ("validation", state.partitions_needing_validation(1.0)),
        ):
            assert found == {p for p, waits in self.waiting.items() if waits == kind}


TestSubscriptionState = SubscriptionStateMachine.TestCase
TestSubscriptionState.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
