"""`Producer`: sends records to topics, from an event loop."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from barnabas.aio.delivery_callbacks import CallbackTasks
from barnabas.aio.environment import LoopEnvironment
from barnabas.aio.producer_close import ProducerEnding
from barnabas.aio.producer_waits import LoopWaits
from barnabas.aio.transaction import Transaction
from barnabas.aio.waiting_task import WaitingTask
from barnabas.client.producer import arguments
from barnabas.client.producer.append import FutureRecordMetadata
from barnabas.client.producer.producer_base import DeliveryCallback, K, ProducerBase, V, record_fields
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_parts import ProducerParts
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.slow_append import SlowAppend, UnsentRecord
from barnabas.client.producer.transactions.states import PreparedTxnState
from barnabas.client.serializers import SerializerSetting, given_serializers
from barnabas.client.steps import Steps
from barnabas.errors import ApiError
from barnabas.network.loop_driver import LoopDriver

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.send_table import TableFuture
    from barnabas.config.typed_settings import ProducerSettings
    from barnabas.protocol.topic_partition import TopicPartition

T = TypeVar("T")


class Producer(ProducerBase[K, V]):
    """Apache Kafka's KafkaProducer for asyncio. Any number of tasks of one event loop may share one.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("flights", b"...", key=b"EWR")
            metadata = await future

    `await send()` puts a record into a batch, and waits only for the topic's metadata or for room in buffer.memory;
    what it returns is awaited for the record's place in the log. No task and no asyncio future is made for a record
    unless it is awaited. The Sender is driven by the loop: there is no thread.

    Settings and errors are those of `barnabas.Producer`. A call that is cancelled has not taken its record; an
    operation on a transaction whose call is cancelled is still in flight: call the method again.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: SerializerSetting[K] = None,
        value_serializer: SerializerSetting[V] = None,
        environment: LoopEnvironment | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        given = {**settings, **given_serializers(key_serializer=key_serializer, value_serializer=value_serializer)}
        self._environment = loop = environment or LoopEnvironment()
        parts = ProducerParts(ProducerConfig(config, given), loop, WaitingTask)
        name = f"producer {parts.config.client_id}"
        self._driver = LoopDriver(loop, loop.port_of(parts.client), parts.sender.run_once, name)
        self._waits = LoopWaits(parts, loop, self._driver)
        self._begin_calls(parts, self._waits)
        self._waits.telemetry = self._begin_telemetry(parts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_running: Callable[[], bool] = _never
        self._do_send = self._core.send_path.do_send
        self._callbacks = CallbackTasks()

    def _start(self) -> None:
        loop = self._environment.bind()
        self._core.lifetime.check()
        if self._loop is None:
            self._loop = loop
            self._is_running = loop.is_running
            self._driver.start()

    async def _run(self, steps: Steps[T]) -> T:
        self._start()
        return await _run(steps)

    # Sending

    async def send(
        self,
        topic: str | ProducerRecord,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """Send a record, or a `ProducerRecord`; returns the record's future, which can be awaited.

        Waits up to max.block.ms when the topic's metadata is not known or buffer.memory is full; a call that is
        cancelled meanwhile has not taken the record. `on_delivery(metadata, error)`, a function or a coroutine
        function, is called in the loop, in the order of sending per partition; `error` is None on success. What goes
        wrong with this record (too large, no metadata in time, not authorized) comes through future and callback.

        Raises `SerializationError`, `IllegalTypeError`, `IllegalArgumentError`, and `IllegalStateError` after
        `close()` or in another event loop.
        """
        if topic.__class__ is not str:
            given = (value, key, partition, timestamp_ms, headers)
            topic, value, key, partition, timestamp_ms, headers = record_fields(topic, given)
            return await self.send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        # Another loop is found out here, another thread with the next batch; asking at once which one is running would
        # cost a third of all that a record costs.
        if not self._is_running():
            self._start()
        if on_delivery is not None:
            on_delivery = self._callbacks.wrap(on_delivery)
        try:
            sent = self._do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if isinstance(sent, FutureRecordMetadata):
                return sent
            finished = self._finish_nowait(sent)
            return finished if finished is not None else await _run(self._core.finish_send(sent))
        except ApiError as error:
            return self._core.failed(topic, partition, error, on_delivery)

    def _finish_nowait(self, unfinished: SlowAppend | UnsentRecord) -> FutureRecordMetadata | None:
        """Finish where nothing has to be waited for but memory, and that is free, as mostly: it takes no coroutine."""
        if isinstance(unfinished, UnsentRecord) or self._waits.is_turn_due:
            return None
        self._environment.bind()
        return self._core.append_nowait(unfinished)

    async def send_table(self, topic: str, table: pa.Table | pa.RecordBatch) -> TableFuture:
        """Send every row of an Arrow table as a record, encoded without Python objects per row.

        Columns are those of `barnabas.Producer.send_table`, and so are the errors. Returns a future that is awaited for
        the number of rows. A call that is cancelled has taken part of the rows, in whole batches.
        """
        return await self._run(self._core.send_table(topic, table))

    # Waiting and asking

    async def flush(self, timeout: float | None = None) -> None:
        """Send all batches now and wait until every record sent before has its result.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` seconds; the records are still being sent.
        """
        await self._run(self._core.flush(timeout))

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions, by number; waits up to max.block.ms for its metadata.

        Raises `KafkaTimeoutError` when that does not come, `InvalidTopicError`, `TopicAuthorizationError`.
        """
        return await self._run(self._core.partitions_for(topic))

    async def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry; see `barnabas.Producer`."""
        sender = self._telemetry_sender(arguments.timeout(timeout))
        return await self._run(self._core.client_instance_id(sender, timeout))

    # Transactions; see `barnabas.Producer` for what each does and raises.

    async def init_transactions(self, timeout: float | None = None, *, keep_prepared_txn: bool = False) -> None:
        """Get an id and a new epoch, once, before the first transaction; what an earlier producer left is aborted."""
        await self._run(self._calls.initialize(timeout, keep_prepared_txn))

    def transaction(self) -> Transaction:
        """Return a transaction as a context: `async with` commits at its end, and aborts after an error.

        An error of a record, of the commit, or a cancellation aborts too and is raised.
        """
        self._calls.manager("transaction()")
        return Transaction(self.begin_transaction, lambda error: self._run(self._calls.leave(error)))

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction."""
        await self._run(self._calls.send_offsets(offsets, group_metadata, timeout))

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left, and commit."""
        await self._run(self._calls.commit(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort; records not sent yet fail."""
        await self._run(self._calls.abort(timeout))

    async def prepare_transaction(self) -> PreparedTxnState:
        """Make the transaction outlive this producer (KIP-939); returns what identifies it."""
        return await self._run(self._calls.prepare())

    async def complete_transaction(self, prepared: PreparedTxnState | str, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one, else abort it; without one do nothing (KIP-939)."""
        await self._run(self._calls.complete(prepared, timeout))

    # The end

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for the results, and end; a second call waits for the first one.

        After `timeout` seconds all that is not acknowledged fails with an error, through its future and callback;
        0 fails it at once. Without a timeout delivery.timeout.ms bounds the wait. A call that is cancelled leaves the
        producer closing.
        """
        if not self._core.lifetime.is_foreign:
            await self._run(self._core.close(timeout))
            await self._callbacks.drain()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        core = getattr(self, "_core", None)
        if core is None or self._driver.is_stopped or self._waits.ending is not None or core.lifetime.is_foreign:
            return
        parts, loop = core.parts, self._loop
        if loop is None or loop.is_closed():
            self._driver.stop()
            parts.sender.shut_down()
        else:
            loop.call_soon_threadsafe(ProducerEnding, self._driver, parts.sender, parts.accumulator, core.max_block)
        if loop is not None:
            warnings.warn(
                f"{self!r} was never closed; its records are being sent while the event loop runs, but no call waits "
                "for them. Use it in an async with statement, or await close()",
                ResourceWarning,
                stacklevel=2,
            )


async def _run(steps: Steps[T]) -> T:
    """Run a call to its end, awaiting what its steps yield."""
    try:
        awaited = next(steps)
        while True:
            assert awaited is not None, "the producer waits for something in each of its steps"
            try:
                result = await awaited
            except BaseException as error:  # noqa: BLE001  the steps decide what it means
                awaited = steps.throw(error)
            else:
                awaited = steps.send(result)
    except StopIteration as end:
        found: T = end.value
        return found


def _never() -> bool:
    return False
