"""`MockConsumer`: a consumer without a broker, for the tests of programs that read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self

from barnabas.client.arguments import PartitionLike, as_listed_partitions, as_partition
from barnabas.client.cluster import PartitionInfo
from barnabas.client.consumer.auto_offset_reset_strategy import (
    EARLIEST,
    EARLIEST_TIMESTAMP,
    LATEST,
    LATEST_TIMESTAMP,
    AutoOffsetResetStrategy,
)
from barnabas.client.consumer.consumer_arguments import as_offsets
from barnabas.client.consumer.consumer_base import OffsetLike
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.consumer_record import ConsumerRecord, K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp
from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
from barnabas.client.consumer.subscription_state import SubscriptionState
from barnabas.clock import wall_clock_ms
from barnabas.errors import IllegalArgumentError, IllegalStateError, OffsetOutOfRangeError, WakeupError
from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.mock_telemetry import MockTelemetry

Offsets = dict[TopicPartition, int]


class MockConsumer(MockTelemetry, Measured, Generic[K, V]):
    """Has the methods of `Consumer`, and hands out the records that the test gave it.

    A test tells it of the topics (`update_beginning_offsets`, `update_end_offsets`, `update_partitions`), assigns or
    `rebalance`s, then `add`s records. `schedule_poll_task` has something happen inside a later `poll`; `poll` itself
    never waits. Setting `poll_exception` makes the next `poll` raise it, `offsets_exception` every look-up of offsets.
    Commits succeed at once and are kept for `committed`. Only `wakeup` may be called from other threads.

    `auto_offset_reset` is as in a consumer's settings.
    """

    def __init__(self, auto_offset_reset: str = "latest", *, max_poll_records: int = 500) -> None:
        super().__init__()
        self.poll_exception: Exception | None = None
        self.offsets_exception: Exception | None = None
        self.max_poll_records = max_poll_records
        self.closed = False
        self.last_poll_timeout: float | None = None
        #: Whether `enforce_rebalance` was called since the last `rebalance`.
        self.should_rebalance = False
        self._subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(auto_offset_reset))
        self._reset_strategy = AutoOffsetResetStrategy.parse(auto_offset_reset)
        self._records: dict[TopicPartition, deque[ConsumerRecord[K, V]]] = {}
        self._beginning: Offsets = {}
        self._end: Offsets = {}
        self._of_duration: Offsets = {}
        self._partitions: dict[str, Sequence[PartitionInfo]] = {}
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._tasks: deque[Callable[[], object]] = deque()
        self._is_woken = False
        self._group_metadata = ConsumerGroupMetadata("dummy.group.id", 1, "1")

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """As `Consumer.subscribe`; partitions come with `rebalance`."""
        self._check_open()
        self._committed.clear()
        if isinstance(topics, SubscriptionPattern):
            self._subscriptions.subscribe_regex(topics.pattern, listener)
        elif isinstance(topics, re.Pattern):
            self._subscriptions.subscribe_pattern(topics, listener)
            self._subscriptions.subscribe_from_pattern(filter(topics.fullmatch, self._partitions))
        else:
            self._subscriptions.subscribe([topics] if isinstance(topics, str) else topics, listener)

    def assign(self, partitions: Iterable[PartitionLike]) -> None:
        """As `Consumer.assign`."""
        self._check_open()
        self._committed.clear()
        self._subscriptions.assign_from_user([as_partition(partition) for partition in partitions])

    def unsubscribe(self) -> None:
        """As `Consumer.unsubscribe`."""
        self._check_open()
        self._committed.clear()
        self._subscriptions.unsubscribe()

    def subscription(self) -> set[str]:
        """As `Consumer.subscription`."""
        return set(self._subscriptions.subscription)

    def assignment(self) -> set[TopicPartition]:
        """As `Consumer.assignment`."""
        return self._subscriptions.assigned_partitions

    def enforce_rebalance(self, reason: str = "") -> None:
        """Note that a rebalance is wanted; the test decides when `rebalance` comes."""
        self.should_rebalance = True

    # Reading

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return the records added so far, from the positions on; runs one scheduled task first, and never waits.

        Raises `poll_exception`, `WakeupError`, `OffsetOutOfRangeError` for a position below the beginning, and what the
        task raises.
        """
        self._check_open()
        self.last_poll_timeout = timeout
        if self._tasks:
            self._tasks.popleft()()
        if self._is_woken:
            self._is_woken = False
            raise WakeupError("wakeup() was called")
        error, self.poll_exception = self.poll_exception, None
        _raise(error)
        for partition in self.assignment():
            self._update_position(partition)
        return self._fetch_records(max_records or self.max_poll_records)

    def _fetch_records(self, wanted: int) -> ConsumerRecords[K, V]:
        found: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        next_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, records in list(self._records.items()):
            if not self._subscriptions.is_fetchable(partition):
                continue
            position = self._position(partition)
            if position < self._beginning.get(partition, 0):
                raise OffsetOutOfRangeError(f"{partition} begins at {self._beginning[partition]}, not at {position}")
            while records and wanted > 0:
                record = records.popleft()
                if record.offset >= position:
                    found.setdefault(partition, []).append(record)
                    wanted -= 1
                    position = record.offset + 1
                    next_offsets[partition] = OffsetAndMetadata(position, "", record.leader_epoch)
            self._subscriptions.seek(partition, position)
        return ConsumerRecords(found, next_offsets)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """As `Consumer.__iter__`, but ends when `poll` has nothing and no task is left."""
        while True:
            records = self.poll()
            yield from records
            if not records and not self._tasks:
                return

    def wakeup(self) -> None:
        """As `Consumer.wakeup`; from any thread."""
        self._is_woken = True

    # Positions

    def seek(self, partition: PartitionLike, offset: int | OffsetAndMetadata) -> None:
        """As `Consumer.seek`; records that were handed out do not come again."""
        self._check_open()
        wanted = offset.offset if isinstance(offset, OffsetAndMetadata) else offset
        if wanted < 0:
            raise IllegalArgumentError(f"Offset {wanted} is negative; offsets begin at 0")
        self._subscriptions.seek(as_partition(partition), wanted)

    def seek_to_beginning(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """As `Consumer.seek_to_beginning`."""
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """As `Consumer.seek_to_end`."""
        self._seek_to(LATEST, partitions)

    def _seek_to(
        self, strategy: AutoOffsetResetStrategy, partitions: tuple[PartitionLike | Iterable[PartitionLike], ...]
    ) -> None:
        self._check_open()
        for partition in as_listed_partitions(partitions) if partitions else self.assignment():
            self._subscriptions.request_offset_reset(partition, strategy)

    def position(self, partition: PartitionLike, timeout: float | None = None) -> int:
        """As `Consumer.position`."""
        self._check_open()
        name = as_partition(partition)
        self._update_position(name)
        return self._position(name)

    def _position(self, partition: TopicPartition) -> int:
        position = self._subscriptions.position(partition)
        return -1 if position is None else position.offset

    def _update_position(self, partition: TopicPartition) -> None:
        subscriptions = self._subscriptions
        if subscriptions.is_offset_reset_needed(partition):
            self._reset(partition, subscriptions.reset_strategy(partition) or self._reset_strategy)
        elif subscriptions.position(partition) is None:
            committed = self._committed.get(partition)
            if committed is not None:
                subscriptions.seek(partition, committed.offset)
            else:
                subscriptions.reset_initializing_positions()
                self._reset(partition, self._reset_strategy)

    def _reset(self, partition: TopicPartition, strategy: AutoOffsetResetStrategy) -> None:
        known, update = {
            "earliest": (self._beginning, "update_beginning_offsets"),
            "latest": (self._end, "update_end_offsets"),
            "by_duration": (self._of_duration, "update_duration_offsets"),
        }[strategy.name]
        if partition not in known:
            raise IllegalStateError(f"MockConsumer has to go to the {strategy.name} of {partition}: call {update}()")
        self._subscriptions.seek(partition, known[partition])

    def pause(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """As `Consumer.pause`."""
        for partition in as_listed_partitions(partitions):
            self._subscriptions.pause(partition)

    def resume(self, *partitions: PartitionLike | Iterable[PartitionLike]) -> None:
        """As `Consumer.resume`."""
        for partition in as_listed_partitions(partitions):
            self._subscriptions.resume(partition)

    def paused(self) -> set[TopicPartition]:
        """As `Consumer.paused`."""
        return self._subscriptions.paused_partitions

    def current_lag(self, partition: PartitionLike) -> int | None:
        """As `Consumer.current_lag`, to the end that `update_end_offsets` told; None without."""
        name = as_partition(partition)
        end = self._end.get(name)
        return None if end is None or self._position(name) < 0 else max(0, end - self._position(name))

    # Commits

    def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None = None, timeout: float | None = None) -> None:
        """As `Consumer.commit`; succeeds at once."""
        self._check_open()
        self._committed |= self._subscriptions.all_consumed() if offsets is None else as_offsets(offsets)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetLike] | None = None,
        callback: OffsetCommitCallback | None = None,
    ) -> None:
        """As `Consumer.commit_async`; succeeds at once, and calls `callback` before it returns."""
        self._check_open()
        chosen = self._subscriptions.all_consumed() if offsets is None else as_offsets(offsets)
        self._committed |= chosen
        if callback is not None:
            callback(chosen, None)

    def committed(
        self, partitions: Iterable[PartitionLike], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """As `Consumer.committed`."""
        self._check_open()
        return {partition: self._committed.get(partition) for partition in map(as_partition, partitions)}

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return what `set_group_metadata` said."""
        return self._group_metadata

    # The cluster

    def beginning_offsets(self, partitions: Iterable[PartitionLike], timeout: float | None = None) -> Offsets:
        """Return what `update_beginning_offsets` told."""
        return self._told(self._beginning, partitions)

    def end_offsets(self, partitions: Iterable[PartitionLike], timeout: float | None = None) -> Offsets:
        """Return what `update_end_offsets` told."""
        return self._told(self._end, partitions)

    def _told(self, known: Offsets, partitions: Iterable[PartitionLike]) -> Offsets:
        _raise(self.offsets_exception)
        names = [as_partition(partition) for partition in partitions]
        missing = [name for name in names if name not in known]
        if missing:
            raise IllegalStateError(f"The MockConsumer was not told the offset of {', '.join(map(str, missing))}")
        return {name: known[name] for name in names}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """As `Consumer.offsets_for_times`, from the records that wait, and -2 and -1 for beginning and end."""
        _raise(self.offsets_exception)
        return {as_partition(partition): self._at(as_partition(partition), at) for partition, at in timestamps.items()}

    def _at(self, partition: TopicPartition, timestamp: int) -> OffsetAndTimestamp | None:
        known = {EARLIEST_TIMESTAMP: self._beginning, LATEST_TIMESTAMP: self._end}.get(timestamp)
        if known is not None:
            return OffsetAndTimestamp(self._told(known, [partition])[partition], -1)
        for record in self._records.get(partition, ()):
            if record.timestamp >= timestamp:
                return OffsetAndTimestamp(record.offset, record.timestamp, record.leader_epoch)
        return None

    def partitions_for(self, topic: str, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """Return what `update_partitions` told."""
        return self._partitions.get(topic, ())

    def list_topics(self, timeout: float | None = None) -> dict[str, Sequence[PartitionInfo]]:
        """Return what `update_partitions` told."""
        return dict(self._partitions)

    # The rest

    @property
    def client_id(self) -> str:
        """A name."""
        return "mock-consumer"

    def metric_groups(self) -> list[MetricGroup]:
        """No metrics."""
        return []

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """No metrics."""
        return {}

    def partition_metrics(self) -> dict[TopicPartition, dict[str, float]]:
        """No metrics."""
        return {}

    def close(self, timeout: float = 30.0, group_membership_operation: str = "default") -> None:
        """Hand out nothing any more; a second call does nothing."""
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise IllegalStateError("This MockConsumer is closed")

    # What tests call

    def add_record(self, record: ConsumerRecord[K, V]) -> None:
        """Have a record handed out; its partition has to be assigned, its key and value are as deserialized."""
        partition = TopicPartition(record.topic, record.partition)
        if not self._subscriptions.is_assigned(partition):
            raise IllegalStateError(f"{partition} is not assigned: assign() or rebalance() first")
        self._records.setdefault(partition, deque()).append(record)

    def add(self, topic: str, partition: int, *values: V, key: K | None = None) -> None:
        """`add_record` for values, with the offsets that follow and the present time."""
        name = TopicPartition(topic, partition)
        waiting = self._records.get(name)
        offset = waiting[-1].offset + 1 if waiting else self._end.get(name, self._beginning.get(name, 0))
        for number, value in enumerate(values, offset):
            self.add_record(ConsumerRecord(topic, partition, number, wall_clock_ms(), 0, key, value))
            self._end[name] = number + 1

    def rebalance(self, partitions: Iterable[PartitionLike]) -> None:
        """Have the group assign exactly these, and call the listener about what goes and what comes."""
        self._check_open()
        new = {as_partition(partition) for partition in partitions}
        old = self.assignment()
        listener = self._subscriptions.rebalance_listener or ConsumerRebalanceListener()
        if old - new:
            listener.on_partitions_revoked(sorted(old - new))
        for partition in old - new:
            self._records.pop(partition, None)
        self._subscriptions.assign_from_subscribed(sorted(new))
        self.should_rebalance = False
        listener.on_partitions_assigned(sorted(new - old))

    def schedule_poll_task(self, task: Callable[[], object]) -> None:
        """Run this inside the next `poll` that has no earlier task to run."""
        self._tasks.append(task)

    def update_beginning_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell where partitions begin."""
        self._beginning |= offsets

    def update_end_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell where partitions end."""
        self._end |= offsets

    def update_duration_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell where `auto.offset.reset=by_duration:...` leads."""
        self._of_duration |= offsets

    def update_partitions(self, topic: str, count: int) -> None:
        """Tell how many partitions a topic has; a subscribed pattern takes it in."""
        self._partitions[topic] = [PartitionInfo(topic, number) for number in range(count)]
        if self._subscriptions.has_pattern_subscription:
            matching = filter(self._subscriptions.matches_subscribed_pattern, self._partitions)
            self._subscriptions.subscribe_from_pattern(matching)

    def set_group_metadata(self, metadata: ConsumerGroupMetadata) -> None:
        """Decide what `group_metadata` returns."""
        self._group_metadata = metadata


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error
