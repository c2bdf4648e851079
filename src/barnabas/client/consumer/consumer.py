"""`Consumer`: reads records from topics, alone or as member of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from barnabas.client.arguments import INT32, as_integer, as_partition, as_partitions, as_seconds
from barnabas.client.consumer import auto_offset_reset_strategy as reset
from barnabas.client.consumer.consumer_arguments import as_offsets, as_operation
from barnabas.client.consumer.consumer_base import ConsumerBase, OffsetLike
from barnabas.client.consumer.consumer_record import K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback
from barnabas.client.consumer.membership.messages import GroupMembershipOperation
from barnabas.client.consumer.offsets import OffsetAndMetadata, OffsetAndTimestamp
from barnabas.client.consumer.single_thread_use import SingleThreadUse
from barnabas.client.environment import Environment
from barnabas.client.serializers import DeserializerSetting, given_serializers
from barnabas.client.steps import Steps, run
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.config.typed_settings import ConsumerSettings

T = TypeVar("T")


class Consumer(ConsumerBase[K, V]):
    """Reads records.

        with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
            for record in consumer:
                ...

    Settings are Kafka's consumer settings, as keywords with `_` for `.`, or as a dict with the dots given first; topics
    given here are subscribed to. The types of keys and values follow from the deserializers: a type checker sees a
    `Consumer[str, Order]`. Made for one thread at a time: only `wakeup` may be called from others. Durations are
    seconds. Raises `ConfigError` for an unknown setting or a bad value.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        key_deserializer: DeserializerSetting[K] = None,
        value_deserializer: DeserializerSetting[V] = None,
        environment: Environment | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        use = SingleThreadUse()
        given = {
            **settings,
            **given_serializers(key_deserializer=key_deserializer, value_deserializer=value_deserializer),
        }
        super().__init__(topics, environment or Environment(), use, given)
        self._single_thread = use

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._run(self._polling.unsubscribe())

    # --- reading

    def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records, at most `max_records` (max.poll.records), as soon as there are any, or none after `timeout`.

        Joins the group, runs listeners and commit callbacks, commits automatically, and asks for the next records
        before it returns. Has to be called again within max.poll.interval.ms, or the group gives the partitions to
        others. Raises `WakeupError` after `wakeup`, `RecordDeserializationError` and `CorruptRecordError` for a record
        that cannot be read (seek past it to go on), and errors of the cluster that trying again does not cure.
        """
        timeout = as_seconds(timeout)
        if max_records is not None:
            max_records = as_integer(max_records, "max_records", 1, INT32)
        return self._run_poll(self._polling.poll(timeout, max_records))

    def poll_arrow(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """All records that have arrived as one Arrow batch, or None when there are none after `timeout`.

        The columns are those of Spark's Kafka source with headers: key, value, topic, partition, offset, timestamp,
        timestampType, headers. Deserializers are not used. Otherwise like `poll`.
        """
        return self._run_poll(self._polling.poll_arrow(as_seconds(timeout)))

    def poll_raw(self, timeout: float = 1.0) -> list[FetchedData]:
        """All data that has arrived, still encoded, for a reader that decodes in another thread (the Spark source).

        Positions move to the end of the data, and deserializers are not used; otherwise like `poll`.
        """
        return self._run_poll(self._polling.poll_raw(as_seconds(timeout)))

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """All records, one by one, for ever.

        A commit in the middle covers the records handed out so far, and what a loop that is left has not handed out
        comes with the next loop or `poll`.
        """
        return self._polling.iteration.records(lambda: self.poll(1.0))

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record to be handed out; looked up if need be.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` (default.api.timeout.ms).
        """
        return self._run(self._polling.position(as_partition(partition), self._timeout(timeout)))

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
        chosen = None if offsets is None else as_offsets(offsets)
        self._run(self._polling.commits.commit(chosen, self._timeout(timeout)))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetLike] | None = None,
        callback: OffsetCommitCallback | None = None,
    ) -> None:
        """Commit without waiting and without trying again.

        `callback(offsets, error or None)` runs once, inside a later `poll`, `commit` or `close`, in the order of the
        commits; at the end of `close` with `KafkaTimeoutError` for what has not been answered by then.
        """
        with self._use:
            run(self._polling.commits.run_commit_callbacks())
            super().commit_async(offsets, callback)

    def committed(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed; None for a partition without."""
        chosen = set(as_partitions(partitions))
        return self._run(self._polling.commits.committed(chosen, self._timeout(timeout)))

    # --- the cluster

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time in epoch milliseconds, for each partition.

        None where there is none.
        """
        return self._run(self._times(timestamps, timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._run(self._bounds(partitions, reset.EARLIEST_TIMESTAMP, timeout))

    def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record that this consumer may read, for each partition."""
        return self._run(self._bounds(partitions, reset.LATEST_TIMESTAMP, timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """Return the partitions of a topic; none when there is no such topic."""
        return self._run(self._partitions(topic, timeout))

    def list_topics(self, timeout: float | None = None) -> dict[str, Sequence[PartitionInfo]]:
        """All topics that this consumer may see, with their partitions."""
        return self._run(self._look_up_topics(None, timeout))

    def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry (KIP-714).

        Raises `KafkaTimeoutError` when none comes within `timeout` seconds (default.api.timeout.ms),
        `UnsupportedVersionError` when the brokers take no telemetry, `IllegalStateError` when `enable.metrics.push` is
        off.
        """
        return self._run(self._instance_id(timeout))

    # --- the end

    def close(
        self,
        timeout: float = 30.0,
        group_membership_operation: GroupMembershipOperation | str = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit if that is automatic, leave the group, close the connections; within `timeout` seconds.

        The other members get the partitions at once, unless this is a static member (group.instance.id);
        `group_membership_operation`, `leave_group` or `remain_in_group`, decides otherwise (KIP-1092). A second call
        does nothing.
        """
        operation = as_operation(group_membership_operation)
        timeout = as_seconds(timeout)
        if self._single_thread.is_closed:
            return
        with self._use:
            try:
                run(self._polling.close(timeout, operation))
            except BaseException:
                # Also one from outside: the group must not wait for a member without a driver.
                self._polling.abandon(operation)
                raise
            finally:
                self._single_thread.is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inner

    def _run(self, steps: Steps[T]) -> T:
        with self._use:
            try:
                return run(steps)
            except KafkaError:
                raise
            except BaseException:
                self._polling.begin_anew(is_outermost=self._single_thread.is_outermost)
                raise

    def _run_poll(self, steps: Steps[T]) -> T:
        try:
            return self._run(steps)
        except KafkaError:
            raise
        except BaseException:
            # Of a signal handler, a deserializer, or a callback: what was collected is handed out by the next poll.
            self._polling.take_back()
            raise

    def _unsubscribe_in(self, call: str) -> None:
        run(self._polling.unsubscribe())
