"""`Consumer`: reads records from topics, alone or as member of a group."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.client.consumer import auto_offset_reset_strategy as reset
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.client.consumer.consumer_parts import Environment, consumer_parts
from barnabas.client.consumer.consumer_polling import ConsumerPolling
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.list_offsets import OffsetsLookup
from barnabas.client.consumer.offset_commits import OffsetCommitCallback
from barnabas.client.consumer.offsets import (
    ConsumerGroupMetadata,
    FetchPosition,
    OffsetAndMetadata,
    OffsetAndTimestamp,
)
from barnabas.client.consumer.topic_metadata import TopicMetadataLookup
from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.client.consumer.fetched_data import FetchedData
    from barnabas.records.decoder import ConsumerRecord

OffsetLike = OffsetAndMetadata | int | tuple[int, str | None]


class Consumer:
    """Reads records.

        with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                ...

    Settings are Kafka's consumer settings, as keywords with `_` for `.`, or as a dict with the dots given first; topics
    given here are subscribed to. Made for one thread at a time: only `wakeup` may be called from others. Durations are
    seconds. Raises `ConfigError` for an unknown setting or a bad value.
    """

    def __init__(
        self, *topics: str | Mapping[str, Any], environment: Environment | None = None, **settings: Any
    ) -> None:
        properties, names = _split(topics)
        self._config = ConsumerConfig(properties, settings)
        self._parts = consumer_parts(self._config, environment or Environment())
        self._polling = ConsumerPolling(self._parts)
        self._use = self._polling.use
        if names:
            self.subscribe(names)

    # --- what to read

    def subscribe(
        self, topics: str | Iterable[str] | re.Pattern[str], listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics, or every topic whose whole name matches a pattern, sharing them with the group.

        Replaces an earlier subscription; an empty list ends it. Nothing is sent before `poll`. Raises
        `InvalidGroupIdError` without a group.id, `IllegalStateError` after `assign`.
        """
        with self._use:
            if isinstance(topics, re.Pattern):
                self._polling.subscribe_pattern(topics, listener)
                return
            names = [topics] if isinstance(topics, str) else list(topics)
            for name in names:
                if not isinstance(name, str) or not name.strip():
                    raise IllegalArgumentError(f"{name!r} is no topic name; subscribe() takes names or a pattern")
            if names:
                self._polling.subscribe(names, listener)
            else:
                self._polling.unsubscribe()

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, whatever other consumers do; there is no rebalancing.

        Replaces an earlier assignment; an empty list ends it. Raises `IllegalStateError` after `subscribe`.
        """
        with self._use:
            chosen = [_as_partition(partition) for partition in partitions]
            if chosen:
                self._polling.assign(chosen)
            else:
                self._polling.unsubscribe()

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        with self._use:
            self._polling.unsubscribe()

    def subscription(self) -> set[str]:
        """The topics subscribed to; for a pattern those that match it so far."""
        with self._use:
            return set(self._parts.subscriptions.subscription)

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        with self._use:
            return self._parts.subscriptions.assigned_partitions

    # --- reading

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords:
        """Records, at most `max_records` (max.poll.records), as soon as there are any, or none after `timeout`.

        Joins the group, runs listeners and commit callbacks, commits automatically, and asks for the next records
        before it returns. Has to be called again within max.poll.interval.ms, or the group gives the partitions to
        others. Raises `WakeupError` after `wakeup`, `RecordDeserializationError` and `CorruptRecordError` for a record
        that cannot be read (seek past it to go on), and errors of the cluster that trying again does not cure.
        """
        if max_records is not None and max_records < 1:
            raise IllegalArgumentError(f"max_records is {max_records}; it must be at least 1")
        with self._use:
            return self._polling.poll(timeout, max_records)

    def poll_arrow(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """All records that have arrived as one Arrow batch, or None when there are none after `timeout`.

        The columns are those of Spark's Kafka source with headers: key, value, topic, partition, offset, timestamp,
        timestampType, headers. Deserializers are not used. Otherwise like `poll`.
        """
        with self._use:
            return self._polling.poll_arrow(timeout)

    def poll_raw(self, timeout: float = 1.0) -> list[FetchedData]:
        """All data that has arrived, still encoded, for a reader that decodes in another thread (the Spark source).

        Positions move to the end of the data, and deserializers are not used; otherwise like `poll`.
        """
        with self._use:
            return self._polling.poll_raw(timeout)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """All records, one by one, for ever.

        A commit in the middle covers the records handed out so far, and what a loop that is left has not handed out
        comes with the next loop or `poll`.
        """
        return self._polling.iterate()

    def wakeup(self) -> None:
        """End the call in progress, or the next one that would wait, with `WakeupError`.

        May be called from any thread and from signal handlers.
        """
        self._parts.client.wakeup()

    # --- positions

    def seek(self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Read on from this offset; what was fetched from elsewhere is dropped."""
        with self._use:
            name = _as_partition(partition)
            chosen = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
            if chosen.offset < 0:
                raise IllegalArgumentError(f"Offset {chosen.offset} is negative; offsets begin at 0")
            leader = self._parts.metadata.leader_and_epoch(name)
            self._polling.seek(name, FetchPosition(chosen.offset, chosen.leader_epoch, leader))

    def seek_to_beginning(self, *partitions: Any) -> None:
        """Read on from the first offset of these partitions, or of all assigned; looked up by the next `poll`."""
        with self._use:
            self._polling.reset_positions(self._chosen(partitions), reset.EARLIEST)

    def seek_to_end(self, *partitions: Any) -> None:
        """Read on from the end of these partitions, or of all assigned; looked up by the next `poll`."""
        with self._use:
            self._polling.reset_positions(self._chosen(partitions), reset.LATEST)

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record to be handed out; looked up if need be.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` (default.api.timeout.ms).
        """
        with self._use:
            return self._polling.position(_as_partition(partition), self._timeout(timeout))

    def pause(self, *partitions: Any) -> None:
        """Hand out nothing of these partitions until `resume`; they stay assigned."""
        with self._use:
            for partition in _as_partitions(partitions):
                self._polling.pause(partition)

    def resume(self, *partitions: Any) -> None:
        """End `pause` for these partitions."""
        with self._use:
            for partition in _as_partitions(partitions):
                self._parts.subscriptions.resume(partition)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        with self._use:
            return self._parts.subscriptions.paused_partitions

    def current_lag(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """How many records there are beyond the position, as of the last fetch; None before the first one."""
        with self._use:
            committed_only = self._config.get_str("isolation.level").lower() == "read_committed"
            return self._parts.subscriptions.partition_lag(_as_partition(partition), read_committed=committed_only)

    # --- committed offsets

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetLike] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit and wait for it (Kafka's commitSync): these offsets, or the position of every assigned partition.

        The offset to commit is that of the last processed record plus 1. Failures that may pass are tried again
        until `timeout` (default.api.timeout.ms), then `KafkaTimeoutError`. Raises `CommitFailedError` when the
        partitions already belong to others, `RebalanceInProgressError` while the group rebalances (call `poll` first).
        """
        with self._use:
            chosen = None if offsets is None else _as_offsets(offsets)
            self._polling.commit(chosen, self._timeout(timeout))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetLike] | None = None,
        callback: OffsetCommitCallback | None = None,
    ) -> None:
        """Commit without waiting and without trying again.

        `callback(offsets, error or None)` runs inside a later `poll`, `commit` or `close`, in the order of the commits.
        """
        with self._use:
            self._polling.commit_async(None if offsets is None else _as_offsets(offsets), callback)

    def committed(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None for a partition without."""
        with self._use:
            chosen = {_as_partition(partition) for partition in partitions}
            return self._polling.committed(chosen, self._timeout(timeout))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What identifies this member, for a transactional producer. Raises `InvalidGroupIdError` without a group."""
        with self._use:
            return self._polling.coordinator().group_metadata()

    # --- the cluster

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time in epoch milliseconds, for each partition; None where there is none."""
        with self._use:
            for partition, timestamp in timestamps.items():
                if timestamp < 0:
                    raise IllegalArgumentError(f"The time {timestamp} for {partition} is negative")
            return self._look_up(timestamps, timeout)

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return self._bounds(partitions, reset.EARLIEST_TIMESTAMP, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that this consumer may read, for each partition."""
        return self._bounds(partitions, reset.LATEST_TIMESTAMP, timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """The partitions of a topic; none when there is no such topic."""
        with self._use:
            known = self._parts.metadata.fetch().topics.get(topic)
            if known is not None:
                return known.partitions
            return self._look_up_topics(topic, timeout).get(topic, ())

    def list_topics(self, timeout: float | None = None) -> dict[str, Sequence[PartitionInfo]]:
        """All topics that this consumer may see, with their partitions."""
        with self._use:
            return self._look_up_topics(None, timeout)

    # --- the rest

    @property
    def client_id(self) -> str:
        """The client id that goes with every request: `client.id`, or one made from the group's name."""
        return self._config.client_id

    def metrics(self) -> dict[str, float]:
        """What was counted so far, under Kafka's names."""
        with self._use:
            return {
                **self._parts.fetcher.metrics.as_dict(),
                "assigned-partitions": len(self._parts.subscriptions),
            }

    def close(self, timeout: float = 30.0) -> None:
        """Commit if that is automatic, leave the group, close the connections; within `timeout` seconds.

        The other members get the partitions at once, unless this is a static member (group.instance.id). A second call
        does nothing.
        """
        if self._use.is_closed:
            return
        with self._use:
            try:
                self._polling.close(timeout)
            finally:
                self._use.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Consumer(client_id={self.client_id!r}, group_id={self._config.group_id!r})"

    # --- inner

    def _timeout(self, timeout: float | None) -> float:
        return self._config.get_seconds("default.api.timeout.ms") if timeout is None else timeout

    def _chosen(self, partitions: tuple[Any, ...]) -> Collection[TopicPartition]:
        return _as_partitions(partitions) if partitions else self._parts.subscriptions.assigned_partitions

    def _bounds(self, partitions: Iterable[Any], timestamp: int, timeout: float | None) -> dict[TopicPartition, int]:
        with self._use:
            found = self._look_up({_as_partition(partition): timestamp for partition in partitions}, timeout)
            return {partition: found_at.offset for partition, found_at in found.items() if found_at is not None}

    def _look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        lookup = OffsetsLookup(
            self._parts.client,
            self._parts.metadata,
            {_as_partition(partition): timestamp for partition, timestamp in timestamps.items()},
            isolation_level=self._polling.isolation_level,
            retry_backoff=self._config.get_seconds("retry.backoff.ms"),
        )
        try:
            seconds = self._timeout(timeout)
            self._polling.wait(lambda: lookup.is_done, lookup.step, seconds, lambda: lookup.timed_out(seconds))
        finally:
            self._parts.metadata.clear_transient_topics()
        return lookup.found

    def _look_up_topics(self, topic: str | None, timeout: float | None) -> dict[str, Sequence[PartitionInfo]]:
        lookup = TopicMetadataLookup(
            self._parts.client,
            topic,
            allow_auto_creation=topic is not None and self._config.get_bool("allow.auto.create.topics"),
            retry_backoff=self._config.get_seconds("retry.backoff.ms"),
        )
        what = "the topics" if topic is None else f"topic {topic!r}"
        self._polling.wait(lambda: lookup.is_done, lookup.step, self._timeout(timeout), f"Asking about {what}")
        return lookup.found


def _split(arguments: Sequence[Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings given as dicts, and topics."""
    properties: dict[str, Any] = {}
    topics: list[str] = []
    for argument in arguments:
        if isinstance(argument, Mapping):
            properties.update(argument)
        elif isinstance(argument, str):
            topics.append(argument)
        else:
            raise IllegalTypeError(f"Consumer takes topic names and a dict of settings, not {argument!r}")
    return properties, topics


def _as_partition(partition: Any) -> TopicPartition:
    if isinstance(partition, TopicPartition):
        return partition
    if isinstance(partition, tuple) and len(partition) == 2:
        topic, number = partition
        if isinstance(topic, str) and isinstance(number, int):
            return TopicPartition(topic, number)
    raise IllegalTypeError(f"{partition!r} is no partition; give a TopicPartition(topic, partition)")


def _as_partitions(arguments: tuple[Any, ...]) -> list[TopicPartition]:
    """Partitions given one by one or as one collection."""
    if len(arguments) == 1 and not isinstance(arguments[0], tuple):
        return [_as_partition(partition) for partition in arguments[0]]
    return [_as_partition(partition) for partition in arguments]


def _as_offsets(offsets: Mapping[Any, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    chosen = {}
    for partition, offset in offsets.items():
        entry = OffsetAndMetadata(offset) if isinstance(offset, int) else OffsetAndMetadata(*offset)
        if entry.offset < 0:
            raise IllegalArgumentError(f"Offset {entry.offset} of {partition} is negative and cannot be committed")
        chosen[_as_partition(partition)] = entry._replace(metadata=entry.metadata or "")
    return chosen
