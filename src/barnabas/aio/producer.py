"""`Producer`: sends records to topics, from an event loop."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from barnabas.aio.buffer_pool import LoopBufferPool, MemoryNeededError
from barnabas.aio.callback_tasks import CallbackTasks
from barnabas.aio.environment import LoopEnvironment
from barnabas.aio.loop_driver import LoopDriver
from barnabas.aio.loop_port import LoopPort
from barnabas.aio.producer_transactions import ProducerTransactions
from barnabas.client.producer import lifetime
from barnabas.client.producer.append import FutureRecordMetadata, TopicInfo
from barnabas.client.producer.producer_base import CLOSED, DeliveryCallback, K, ProducerBase, V
from barnabas.client.producer.producer_metrics import FLUSH, METADATA_WAIT
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.record_accumulator import RecordAppendResult
from barnabas.client.serializers import SerializerSetting, given_serializers
from barnabas.client.telemetry.reports_telemetry import answered
from barnabas.errors import ApiError, IllegalArgumentError, IllegalStateError, IllegalTypeError, KafkaTimeoutError

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import Cluster, PartitionInfo
    from barnabas.client.producer.producer_config import ProducerConfig
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.send_table import TableFuture
    from barnabas.client.producer.sender import Sender
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender
    from barnabas.records.rows import ArrowRows

# After so many new batches, or so many bytes of them, send() lets the loop have a turn, in which they leave: every few
# milliseconds, when nothing else holds it up.
BATCHES_PER_TURN = 32
BYTES_PER_TURN = 512 * 1024


class _NotYet(Exception):  # noqa: N818  it is no error: the send path cannot go on without waiting
    """`append` is what `_append` goes on with; None where the topic's metadata is missing."""

    def __init__(self, append: tuple[Any, ...] | None) -> None:
        super().__init__()
        self.append = append


class Producer(ProducerTransactions, ProducerBase[K, V]):
    """Apache Kafka's KafkaProducer for asyncio. Any number of tasks of one event loop may share one.

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            future = await producer.send("flights", b"...", key=b"EWR")
            metadata = await future

    `await send()` puts a record into a batch, and waits only for the topic's metadata or for room in buffer.memory;
    what it returns is awaited for the record's place in the log. No task and no asyncio future is made for a record
    unless it is awaited. The Sender is driven by the loop: there is no thread.

    Settings and errors are those of `barnabas.Producer`. A call that is cancelled has not taken its record.
    """

    #: The id of the process that made the producer.
    owner: int

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: SerializerSetting[K] = None,
        value_serializer: SerializerSetting[V] = None,
        environment: LoopEnvironment | None = None,
        **settings: Any,
    ) -> None:
        settings |= given_serializers(key_serializer=key_serializer, value_serializer=value_serializer)
        self._environment = outside = environment or LoopEnvironment()
        ports: list[LoopPort] = []

        def selector(config: ProducerConfig) -> LoopPort:
            ports.append(outside.selector(config, config.client_id))
            return ports[0]

        super().__init__(
            config,
            settings,
            clock=outside.clock,
            wall_clock_ms=outside.wall_clock_ms,
            rng=outside.random,
            selector=selector,
            buffer_pool=LoopBufferPool,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_running: Callable[[], bool] = _never
        self._do_send = self._send_path.do_send
        self._has_interceptors = bool(self._interceptors)
        self._callbacks = CallbackTasks()
        self._new_batches = 0
        batches = BYTES_PER_TURN // max(1, self._config.get_int("batch.size"))
        self._batches_per_turn = max(1, min(BATCHES_PER_TURN, batches))
        self._ending: _Ending | None = None
        self._driver = LoopDriver(outside, ports[0], self._sender.run_once, f"producer {self._config.client_id}")
        lifetime.watch(self, close_at_exit=False)

    def _start(self) -> None:
        loop = self._environment.bind()
        lifetime.check(self)
        if self._loop is None:
            self._loop = loop
            self._is_running = loop.is_running
            self._driver.start()

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
            return await self._send_record(topic, on_delivery)
        # Another loop is found out here, another thread with the next batch; asking at once which one is running would
        # cost a third of all that a record costs.
        if not self._is_running():
            self._start()
        if on_delivery is not None:
            on_delivery = self._callbacks.wrap(on_delivery)
        try:
            if self._has_interceptors:
                return await self._send_intercepted(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            try:
                return self._do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            except _NotYet as not_yet:
                append = not_yet.append
            return await self._send_later(append, topic, value, key, partition, timestamp_ms, headers, on_delivery)
        except ApiError as error:
            return self._failed(topic, partition, error, on_delivery)

    async def _send_record(self, record: Any, on_delivery: DeliveryCallback | None) -> FutureRecordMetadata:
        topic, value, key, partition, timestamp_ms, headers = _fields(record)
        return await self.send(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    async def _send_intercepted(self, *record: Any) -> FutureRecordMetadata:
        changed, on_done = self._interceptors.intercept(*record)
        arguments = *_fields(changed), on_done
        try:
            try:
                future: FutureRecordMetadata = self._send_path.do_send(*arguments)
                return future
            except _NotYet as not_yet:
                append = not_yet.append
            return await self._send_later(append, *arguments)
        except Exception as error:
            self._interceptors.refused(changed, error)
            raise

    async def _send_later(self, append: tuple[Any, ...] | None, *record: Any) -> FutureRecordMetadata:
        """Go on with a record that could not be appended at once; nothing is awaited after the append."""
        deadline = self._clock() + self._max_block
        topic, partition = record[0], record[3]
        while append is None:
            await self._wait_on_metadata(topic, -1 if partition is None else partition, deadline)
            try:
                future: FutureRecordMetadata = self._send_path.do_send(*record)
            except _NotYet as not_yet:
                append = not_yet.append
            else:
                return future
        return await self._append(deadline, *append)

    def _await_metadata(self, topic: str, partition: int) -> tuple[TopicInfo, float]:
        version = self._accumulator.metadata_version
        cluster = self._known_cluster(topic, partition)
        if cluster is None:
            raise _NotYet(None)
        return self._topic_info(topic, cluster, version), 0.0

    def _append_slowly(
        self, topic: str, info: TopicInfo, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
        headers: tuple[Any, ...], on_delivery: Any, size: int, key_object: Any, value_object: Any, waited: float,
    ) -> FutureRecordMetadata:  # fmt: skip
        memory = 0
        cluster = self._metadata.fetch()
        is_custom = self._partitioner is not None and partition < 0
        is_known = cluster.partition_count_for_topic(topic) is not None
        if is_known and not is_custom and self._new_batches < self._batches_per_turn:
            # Nothing has to be waited for but memory, and that is mostly there: it takes no coroutine.
            self._environment.bind()
            try:
                result = self._accumulator.append(
                    topic, partition, timestamp, key, value, headers, on_delivery,
                    size=size, max_time_to_block=0.0, abort_on_new_batch=False, cluster=cluster,
                )  # fmt: skip
            except MemoryNeededError as needed:
                memory = needed.size
            else:
                return self._appended(result)
        raise _NotYet(
            (
                memory, topic, info, partition, timestamp, key, value, headers, on_delivery, size,
                key_object, value_object, waited,
            )
        )  # fmt: skip

    async def _wait_on_metadata(self, topic: str, partition: int, deadline: float) -> Cluster:
        cluster = self._known_cluster(topic, partition)
        if cluster is not None:
            return cluster
        with self._metrics.times.spent(METADATA_WAIT):
            return await self._wait_for_cluster(topic, partition, deadline)

    async def _wait_for_cluster(self, topic: str, partition: int, deadline: float) -> Cluster:
        metadata = self._metadata
        while (cluster := self._known_cluster(topic, partition)) is None:
            version = metadata.request_update_for_topic(topic)
            self._client.wakeup()
            await self._driver.until(partial(metadata.is_wait_over, version), max(0.0, deadline - self._clock()))
            try:
                metadata.await_update(version, 0.0)
            except KafkaTimeoutError:
                raise self._metadata_timeout(topic, partition) from None
            metadata.raise_error_for_topic(topic)
        return cluster

    async def _append(
        self, deadline: float, memory: int, topic: str, info: TopicInfo, partition: int, timestamp: int,
        key: bytes | None, value: bytes | None, headers: tuple[Any, ...], on_delivery: Any, size: int, key_object: Any,
        value_object: Any, waited: float,
    ) -> FutureRecordMetadata:  # fmt: skip
        """Append where it takes a custom partitioner, or `memory` bytes or a turn of the loop to be waited for."""
        self._environment.bind()
        await self._be_fair()
        is_custom = self._partitioner is not None and partition < 0
        chosen, cluster = partition, self._metadata.fetch()
        if cluster.partition_count_for_topic(topic) is None:
            # The client starts again from its bootstrap servers, and has forgotten the topic.
            cluster = await self._wait_on_metadata(topic, partition, deadline)
        choose = partial(self._partition, topic, key_object, key, value_object, value)
        if is_custom:
            chosen = choose(cluster)
        record = (timestamp, key, value, headers, on_delivery)
        allocated = 0
        if memory:
            allocated = await self._pool.acquire(memory, deadline - self._clock())
            cluster = self._metadata.fetch()
        while True:
            try:
                result = self._accumulator.append(
                    topic, chosen, *record,
                    size=size, max_time_to_block=0.0, abort_on_new_batch=is_custom, cluster=cluster,
                    allocated=allocated,
                )  # fmt: skip
            except MemoryNeededError as needed:
                wanted = needed.size
            else:
                if not result.abort_for_new_batch:
                    return self._appended(result)
                is_custom, allocated = False, 0
                on_new_batch = getattr(self._partitioner, "on_new_batch", None)
                if on_new_batch is not None:
                    on_new_batch(topic, cluster, chosen)
                    chosen = choose(cluster)
                continue
            allocated = await self._pool.acquire(wanted, deadline - self._clock())
            cluster = self._metadata.fetch()

    @property
    def _pool(self) -> LoopBufferPool:
        pool = self._accumulator.free
        assert isinstance(pool, LoopBufferPool)
        return pool

    def _appended(self, result: RecordAppendResult) -> FutureRecordMetadata:
        assert result.future is not None
        if result.new_batch_created:
            self._new_batches += 1
            result.future.request_result.completed_in_event_loop()
        if result.batch_is_full or result.new_batch_created:
            self._client.wakeup()
        return result.future

    async def _be_fair(self) -> None:
        """Let the Sender and other tasks have a turn now and then, before anything is taken."""
        if self._new_batches >= self._batches_per_turn:
            self._new_batches = 0
            await asyncio.sleep(0)

    async def send_table(self, topic: str, table: pa.Table | pa.RecordBatch) -> TableFuture:
        """Send every row of an Arrow table as a record, encoded without Python objects per row.

        Columns are those of `barnabas.Producer.send_table`, and so are the errors. Returns a future that is awaited for
        the number of rows. A call that is cancelled has taken part of the rows, in whole batches.
        """
        from barnabas.client.producer.send_table import TableFuture, dealt_out
        from barnabas.records.table_encoder import arrow_rows

        self._start()
        if self._send_path.closed_reason is not None:
            raise IllegalStateError(self._send_path.closed_reason)
        cluster = await self._wait_on_metadata(topic, -1, self._clock() + self._max_block)
        most = min(self._config.get_int("max.request.size"), self._config.get_int("buffer.memory"))
        now_ms = self._environment.wall_clock_ms()
        future = TableFuture(table.num_rows)
        try:
            for partition, chunk in dealt_out(cluster, topic, table, most, now_ms):
                rows, row = arrow_rows(chunk, now_ms), 0
                while row < rows.count:
                    row = await self._append_rows(future, topic, partition, rows, row, cluster)
        except ApiError as error:
            future.fail(error)
        return future

    async def _append_rows(
        self, future: TableFuture, topic: str, partition: int, rows: ArrowRows, row: int, cluster: Cluster
    ) -> int:
        await self._be_fair()
        deadline = self._clock() + self._max_block
        allocated = 0
        while True:
            try:
                appended = self._accumulator.append_rows(topic, partition, rows, row, 0.0, cluster, allocated)
            except MemoryNeededError as needed:
                wanted = needed.size + allocated
            else:
                future.add(appended)
                if appended.new_batch_created:
                    appended.request_result.completed_in_event_loop()
                    self._new_batches += 1
                if appended.batch_is_full or appended.new_batch_created:
                    self._client.wakeup()
                return appended.next_row
            allocated = await self._pool.acquire(wanted, deadline - self._clock())

    # Waiting and asking

    async def flush(self, timeout: float | None = None) -> None:
        """Send all batches now and wait until every record sent before has its result.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` seconds; the records stay on their way.
        """
        self._start()
        with self._metrics.times.spent(FLUSH):
            is_flushed = await self._flushed(timeout)
        if not is_flushed:
            raise KafkaTimeoutError(
                f"{self._accumulator.incomplete_record_count()} records were not acknowledged within {timeout} s; they "
                "are still being sent"
            )

    async def _flushed(self, timeout: float | None) -> bool:
        self._accumulator.begin_flush()
        try:
            self._client.wakeup()
            waiting = self._accumulator.incomplete_results()

            def is_done() -> bool:
                while waiting and waiting[-1].all_done:
                    waiting.pop()
                return not waiting

            return await self._driver.until(is_done, timeout)
        finally:
            self._accumulator.end_flush()

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, by number; waits up to max.block.ms for its metadata.

        Raises `KafkaTimeoutError` when that does not come, `InvalidTopicError`, `TopicAuthorizationError`.
        """
        self._start()
        if self._send_path.closed_reason is not None:
            raise IllegalStateError(self._send_path.closed_reason)
        cluster = await self._wait_on_metadata(topic, -1, self._clock() + self._max_block)
        return list(cluster.partitions_for_topic(topic))

    async def client_instance_id(self, timeout: float | None = None) -> bytes:
        """The id (16 bytes) that the cluster gave this client for its telemetry; see `barnabas.Producer`."""
        self._start()
        sender = self._telemetry_sender(timeout)
        sender.ask_for_instance_id()
        self._client.wakeup()
        wait = self._max_block if timeout is None else timeout
        await self._driver.until(sender.has_answer, wait)
        return answered(sender, wait, self._client.failure_to_connect)

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for the results, and end; a second call waits for the first one.

        After `timeout` seconds whatever is not acknowledged fails with an error, through its future and callback;
        0 fails it at once. Without a timeout delivery.timeout.ms bounds the wait. A call that is cancelled leaves the
        producer closing.
        """
        if timeout is not None and timeout < 0:
            raise IllegalArgumentError(f"A timeout is never negative: {timeout}")
        if lifetime.is_foreign(self):
            return
        self._start()
        self._send_path.closed_reason = self._send_path.closed_reason or CLOSED
        if self._ending is None:
            telemetry = None if self._telemetry is None else self._telemetry.sender
            self._ending = _Ending(self._driver, self._sender, self._accumulator, self._max_block, telemetry)
            self._ending.task.add_done_callback(lambda _: self._close_parts())
        await self._ending.wait(timeout)
        await self._callbacks.drain()

    def _close_parts(self) -> None:
        self._metadata.close()
        close_partitioner = getattr(self._partitioner, "close", None)
        if close_partitioner is not None:
            close_partitioner()
        self._interceptors.close()
        self._driver.look_again()

    async def __aenter__(self) -> Self:
        self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        driver = getattr(self, "_driver", None)
        if driver is None or driver.is_stopped or self._ending is not None or lifetime.is_foreign(self):
            return
        loop = self._loop
        if loop is None or loop.is_closed():
            driver.stop()
            self._sender.shut_down()
        else:
            loop.call_soon_threadsafe(_Ending, driver, self._sender, self._accumulator, self._max_block)
        if loop is not None:
            warnings.warn(
                f"{self!r} was never closed; its records are being sent while the event loop runs, but nobody waits "
                "for them. Use it in an async with statement, or await close()",
                ResourceWarning,
                stacklevel=2,
            )


class _Ending:
    """The end of a producer: what is left is sent, then all is shut down. Keeps no reference to the producer."""

    def __init__(
        self,
        driver: LoopDriver,
        sender: Sender,
        accumulator: RecordAccumulator,
        abort_timeout: float,
        telemetry: ClientTelemetrySender | None = None,
    ) -> None:
        self._driver = driver
        self._sender = sender
        self._accumulator = accumulator
        self._abort_timeout = abort_timeout
        self._telemetry = telemetry
        self._is_forced = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            self._accumulator.close()
            self._sender.wakeup()
            await self._driver.until(lambda: self._is_forced or not self._sender.has_work())
            if not self._is_forced and self._sender.is_ending_transaction():
                self._sender.wakeup()
                await self._driver.until(
                    lambda: self._is_forced or not self._sender.is_ending_transaction(), self._abort_timeout
                )
            if self._telemetry is not None:
                await self._push_telemetry(self._telemetry)
        finally:
            self._driver.stop()
            self._sender.shut_down()

    async def _push_telemetry(self, telemetry: ClientTelemetrySender) -> None:
        telemetry.initiate_close(self._driver.now())
        self._sender.wakeup()
        await self._driver.until(lambda: self._is_forced or telemetry.is_done)

    async def wait(self, timeout: float | None) -> None:
        """Wait for the end, and force it after `timeout` seconds. Who is cancelled leaves it going on."""
        done, _ = await asyncio.wait([self.task], timeout=timeout)
        if not done:
            self._is_forced = True
            self._driver.look_again()
            await asyncio.wait([self.task])


def _never() -> bool:
    return False


def _fields(record: Any) -> tuple[Any, ...]:
    if isinstance(record, ProducerRecord):
        return record.topic, record.value, record.key, record.partition, record.timestamp_ms, record.headers
    if isinstance(record, str):
        raise IllegalTypeError(f"A topic is a plain str, not a subclass of it: {type(record).__name__}")
    raise IllegalTypeError(f"send() takes a topic's name or a ProducerRecord, not {type(record).__name__}")
