"""`Consumer`: reads records from topics, in an event loop."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from barnabas.aio.consumer_calls import ConsumerCalls
from barnabas.aio.environment import LoopEnvironment
from barnabas.aio.loop_waiter import LoopWaiter
from barnabas.aio.single_loop_use import LoopUse
from barnabas.client.arguments import INT32, as_integer, as_partition, as_partitions, as_seconds
from barnabas.client.consumer import auto_offset_reset_strategy as reset
from barnabas.client.consumer.consumer_arguments import as_offsets, as_operation
from barnabas.client.consumer.consumer_base import ConsumerBase, OffsetLike
from barnabas.client.consumer.consumer_record import K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.membership.messages import GroupMembershipOperation
from barnabas.client.consumer.offsets import OffsetAndMetadata, OffsetAndTimestamp
from barnabas.client.serializers import DeserializerSetting, given_serializers
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.aio.consumer_rebalance_listener import ConsumerRebalanceListener
    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener as PlainListener
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
    from barnabas.config.typed_settings import ConsumerSettings

log = logging.getLogger("barnabas.aio")

T = TypeVar("T")


class Consumer(ConsumerBase[K, V]):
    """Reads records, in asyncio.

        async with Consumer("flights", group_id="g", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                ...

    Settings, methods and errors are those of `barnabas.Consumer`. What may wait is a coroutine function, what never
    does is not (`subscribe`, `assign`, `seek`, `pause`, `commit_async`, ...). Rebalance listeners and commit callbacks
    may be coroutine functions. Heartbeats are the loop's work: there is no thread, and code that holds the loop up for
    session.timeout.ms loses the partitions.

    Made for one event loop. One `poll` at a time; the other calls may come from any task at any time. A call that is
    cancelled hands out nothing and loses nothing.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        key_deserializer: DeserializerSetting[K] = None,
        value_deserializer: DeserializerSetting[V] = None,
        environment: LoopEnvironment | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None:
        given = {
            **settings,
            **given_serializers(key_deserializer=key_deserializer, value_deserializer=value_deserializer),
        }
        self._environment = environment or LoopEnvironment()
        self._loop_use = LoopUse(self._environment)
        super().__init__(topics, self._environment, self._loop_use, given)
        waiter = LoopWaiter(self._environment, self._environment.port_of(self._parts.client.client))
        self._calls = ConsumerCalls(self._polling, self._loop_use, waiter)

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: ConsumerRebalanceListener | PlainListener | None = None,
    ) -> None:
        """Read these topics, or every topic that matches a pattern, sharing them with the group.

        The listener's methods may be coroutine functions. See `barnabas.Consumer.subscribe`; an empty list is refused.
        """
        super().subscribe(topics, cast("PlainListener | None", listener))

    async def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        await self._calls.run_alone(self._polling.unsubscribe())

    # --- reading

    async def poll(self, timeout: float = 1.0, max_records: int | None = None) -> ConsumerRecords[K, V]:
        """Return records, at most `max_records` (max.poll.records), as soon as there are any, or none after `timeout`.

        Has to be called again within max.poll.interval.ms. See `barnabas.Consumer.poll`. When the call is cancelled
        while a rebalance listener runs, the listener goes on, and the next call waits for it.
        """
        timeout = as_seconds(timeout)
        if max_records is not None:
            max_records = as_integer(max_records, "max_records", 1, INT32)
        return await self._calls.run_poll(self._polling.poll(timeout, max_records))

    async def poll_arrow(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """All records that have arrived as one Arrow batch, or None when there are none after `timeout`.

        See `barnabas.Consumer.poll_arrow`.
        """
        return await self._calls.run_poll(self._polling.poll_arrow(as_seconds(timeout)))

    async def poll_raw(self, timeout: float = 1.0) -> list[FetchedData]:
        """All data that has arrived, still encoded. See `barnabas.Consumer.poll_raw`."""
        return await self._calls.run_poll(self._polling.poll_raw(as_seconds(timeout)))

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """All records, one by one, for ever.

        A commit in the middle covers the records handed out so far, and what a loop that is left has not handed out
        comes with the next loop or `poll`.
        """
        return self._records()

    async def _records(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        iteration = self._polling.iteration
        while True:
            while (iterator := iteration.first()) is not None:
                for record in iterator:
                    yield record
                iteration.gone_through(iterator)
            iteration.fill(await self.poll(1.0))

    async def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """Return the offset of the next record to be handed out; looked up if need be.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` (default.api.timeout.ms).
        """
        return await self._calls.run(self._polling.position(as_partition(partition), self._timeout(timeout)))

    # --- committed offsets

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetLike] | None = None, timeout: float | None = None
    ) -> None:
        """Commit and wait for it: these offsets, or the position of every assigned partition.

        See `barnabas.Consumer.commit`. A call that is cancelled may have committed.
        """
        chosen = None if offsets is None else as_offsets(offsets)
        await self._calls.run(self._polling.commits.commit(chosen, self._timeout(timeout)))

    async def committed(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed; None for a partition without."""
        chosen = set(as_partitions(partitions))
        return await self._calls.run(self._polling.commits.committed(chosen, self._timeout(timeout)))

    # --- the cluster

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time in epoch milliseconds, for each partition.

        None where there is none.
        """
        return await self._calls.run(self._times(timestamps, timeout))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._calls.run(self._bounds(partitions, reset.EARLIEST_TIMESTAMP, timeout))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record that this consumer may read, for each partition."""
        return await self._calls.run(self._bounds(partitions, reset.LATEST_TIMESTAMP, timeout))

    async def partitions_for(self, topic: str, timeout: float | None = None) -> Sequence[PartitionInfo]:
        """Return the partitions of a topic; none when there is no such topic."""
        return await self._calls.run(self._partitions(topic, timeout))

    async def list_topics(self, timeout: float | None = None) -> dict[str, Sequence[PartitionInfo]]:
        """All topics that this consumer may see, with their partitions."""
        return await self._calls.run(self._look_up_topics(None, timeout))

    async def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry; see `barnabas.Consumer`."""
        return await self._calls.run(self._instance_id(timeout))

    # --- the end

    async def close(
        self,
        timeout: float = 30.0,
        group_membership_operation: GroupMembershipOperation | str = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit if that is automatic, leave the group, close the connections; within `timeout` seconds.

        See `barnabas.Consumer.close`. Raises `ConcurrentModificationError` while another task polls: cancel that first,
        or call `wakeup()`. A second call does nothing. When the call is cancelled, the connections are
        closed at once.
        """
        operation = as_operation(group_membership_operation)
        timeout = as_seconds(timeout)
        if self._loop_use.is_closed:
            return
        await self._calls.finish()
        with self._loop_use.exclusive:
            try:
                await self._calls.run(self._polling.close(timeout, operation))
            finally:
                self._loop_use.is_closed = True
                self._environment.abandon()

    async def __aenter__(self) -> Self:
        self._environment.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        use = getattr(self, "_loop_use", None)
        environment = self._environment
        if use is None or use.is_closed or environment.is_foreign:
            return
        environment.run_soon(environment.abandon)
        if environment.loop is not None:
            warnings.warn(
                f"{self!r} was never closed; its group waits for it until session.timeout.ms is over. Use it in an "
                "async with statement, or await close()",
                ResourceWarning,
                stacklevel=2,
            )

    # --- inner

    def _unsubscribe_in(self, call: str) -> None:
        raise IllegalArgumentError(f"{call} would have to wait for listeners here: await unsubscribe() instead")
