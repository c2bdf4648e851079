"""`ShareConsumer`: reads records of topics as from a queue, in an event loop."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from barnabas.aio.consumer_calls import ConsumerCalls
from barnabas.aio.environment import LoopEnvironment
from barnabas.aio.loop_waiter import LoopWaiter
from barnabas.aio.single_loop_use import LoopUse
from barnabas.client.arguments import as_seconds
from barnabas.client.consumer.consumer_record import K, V
from barnabas.client.consumer.consumer_records import ConsumerRecords
from barnabas.client.consumer.share.share_consumer_base import ShareConsumerBase
from barnabas.client.serializers import DeserializerSetting, given_serializers
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.config.typed_settings import ShareConsumerSettings


class ShareConsumer(ShareConsumerBase[K, V]):
    """Reads records as from a queue, in asyncio.

        async with ShareConsumer("orders", group_id="shipping", bootstrap_servers="localhost:9092") as consumer:
            async for record in consumer:
                ...

    Settings, methods and errors are those of `barnabas.ShareConsumer`. What may wait is a coroutine function, what
    never does is not (`subscribe`, `acknowledge`, `commit_async`, ...). The callback may be a coroutine function.
    Heartbeats are the loop's work: there is no thread.

    Made for one event loop. One `poll` at a time. A call that is cancelled hands out nothing and loses nothing.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        key_deserializer: DeserializerSetting[K] = None,
        value_deserializer: DeserializerSetting[V] = None,
        environment: LoopEnvironment | None = None,
        **settings: Unpack[ShareConsumerSettings],
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

    async def unsubscribe(self) -> None:
        """Read nothing any more: give back what was not handed out, and leave the group."""
        self._polling.check_use()
        await self._calls.run_alone(self._polling.unsubscribe())

    # --- reading

    async def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Return records as soon as there are any, or none after `timeout`. See `barnabas.ShareConsumer.poll`."""
        self._polling.check_use()
        return await self._calls.run_poll(self._polling.poll(as_seconds(timeout)))

    async def poll_arrow(self, timeout: float = 1.0) -> pa.RecordBatch | None:
        """All records that have arrived as one Arrow batch, or None when there are none after `timeout`.

        See `barnabas.ShareConsumer.poll_arrow`.
        """
        self._polling.check_use()
        return await self._calls.run_poll(self._polling.poll_arrow(as_seconds(timeout)))

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

    # --- acknowledgements

    async def commit_sync(self, timeout: float | None = None) -> dict[TopicIdPartition, KafkaError | None]:
        """Send what is to be said of the records of the last `poll`, and return what the brokers say of each partition.

        See `barnabas.ShareConsumer.commit_sync`. A call that is cancelled may have committed.
        """
        self._polling.check_use()
        return await self._calls.run_alone(self._polling.commit_sync(self._timeout(timeout)))

    async def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry."""
        return await self._calls.run(self._instance_id(timeout))

    # --- the end

    async def close(self, timeout: float = 30.0) -> None:
        """Send the acknowledgements, release all other records, leave the group; within `timeout` seconds.

        See `barnabas.ShareConsumer.close`. Raises `ConcurrentModificationError` while another task polls: cancel that
        first, or call `wakeup()`. A second call does nothing. When the call is cancelled, the connections are closed at
        once.
        """
        timeout = as_seconds(timeout)
        if self._loop_use.is_closed:
            return
        self._polling.check_use()
        await self._calls.finish()
        with self._loop_use.exclusive:
            try:
                await self._calls.run(self._polling.close(timeout))
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
                f"{self!r} was never closed; its records wait until their locks are over. Use it in an async with "
                "statement, or await close()",
                ResourceWarning,
                stacklevel=2,
            )
