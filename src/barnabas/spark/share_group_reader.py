"""A share group as a streaming source: a queue whose records are accepted once the sink has committed them (KIP-932).

The driver is the group's member. A micro-batch is what one `poll` brings; its records travel to the tasks with the
plan, and stay locked for the driver, which renews the locks while the batch runs.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from barnabas.errors import CorruptRecordError, KafkaError

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas import ConsumerRecord, ShareConsumer
    from barnabas.spark.options import SourceOptions

LOGGER = logging.getLogger("barnabas.spark")

#: How many micro-batches there were; and who has the records of the last one, for they are nowhere else.
QueueOffsets: TypeAlias = Mapping[str, Any]
_BATCH, _READER = "batch", "reader"

#: How long (seconds) a look for records waits; at first the group has to give the driver its partitions.
_LOOK, _FIRST_LOOK = 0.2, 10.0
#: A queue that has nothing for so long (seconds) is empty: another member may be about to give records back.
_IS_EMPTY_AFTER = 3.0
#: Locks are renewed when so much of their time is over.
_RENEW_AFTER = 0.4
_COMMIT_TIMEOUT = 30.0
#: A poll brings so many records at most, unless kafka.max.poll.records or maxOffsetsPerTrigger say otherwise.
MAX_RECORDS = 10_000


class QueuePartition(InputPartition):
    """One task's records, as an Arrow stream; None for a micro-batch whose records this driver does not have."""

    def __init__(self, data: bytes | None) -> None:
        super().__init__(None)
        self.data = data


class ShareGroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's micro-batch source over a share group. One micro-batch at a time is in hands."""

    def __init__(
        self, options: SourceOptions, make: Callable[[SourceOptions], ShareConsumer[bytes, bytes]] | None = None
    ) -> None:
        """Keep the options only: a copy of the reader is pickled to the tasks."""
        self.options = options
        self._make = make or _consumer
        self._held: _HeldBatch | None = None
        self._id = uuid.uuid4().hex
        self._consumer: ShareConsumer[bytes, bytes] | None = None
        self._ends_when_empty = self._is_over = False

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    # --- what Spark asks

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """No micro-batch yet."""
        return {_BATCH: 0, _READER: ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """No limit of Spark's: a poll has its own (`maxOffsetsPerTrigger`)."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End with the first look that finds the queue empty."""
        self._ends_when_empty = True

    def latestOffset(self, start: QueueOffsets, limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch, or `start` while the queue is empty.

        Who asks what follows a micro-batch has written down that it is over; `commit` comes only with the next one.
        """
        self.commit(start)
        if self._held is None and not self._is_over:
            self._poll(int(start[_BATCH]) + 1)
            self._is_over = self._held is None and self._ends_when_empty
        if self._held is None:
            return dict(start)
        return {_BATCH: self._held.number, _READER: self._id}

    def partitions(self, start: QueueOffsets, end: QueueOffsets) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch.

        One that was planned by a driver that has ended has no records any more: they were not accepted, so the group
        delivers them again, in a later micro-batch.
        """
        held = self._held_at(end)
        if held is None:
            if end != start:
                LOGGER.warning(
                    "Micro-batch %s of the share group %s was not finished by the last run: it stays empty now, and "
                    "its records are delivered again",
                    end[_BATCH], self.options.share_group,
                )  # fmt: skip
            return [QueuePartition(None)]
        return [QueuePartition(data) for data in held.parts(self.options.columns, self.options.min_partitions or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records as Arrow batches; runs in an executor."""
        assert isinstance(partition, QueuePartition), "Spark hands back what it was given"
        if partition.data is None:
            return
        from barnabas.records.arrow import pyarrow

        yield from pyarrow().ipc.open_stream(partition.data)

    def commit(self, end: QueueOffsets) -> None:
        """Accept the records of a micro-batch that the sink has committed."""
        held = self._held_at(end)
        if held is not None:
            self._held = None
            held.accept()

    def stop(self) -> None:
        """Release what was not committed, and leave the group."""
        held, self._held = self._held, None
        if held is not None:
            held.release()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _held_at(self, end: QueueOffsets) -> _HeldBatch | None:
        held = self._held
        return held if held is not None and (end[_READER], end[_BATCH]) == (self._id, held.number) else None

    # --- the group

    def _poll(self, number: int) -> None:
        is_first = self._consumer is None
        if self._consumer is None:
            self._consumer = self._make(self.options)
        patience = _FIRST_LOOK if is_first else _IS_EMPTY_AFTER if self._ends_when_empty else _LOOK
        deadline = time.monotonic() + patience
        records: list[ConsumerRecord[bytes, bytes]] = []
        while not records and time.monotonic() < deadline:
            try:
                records = list(self._consumer.poll(_LOOK))
            except CorruptRecordError as problem:
                LOGGER.warning("Records of the share group %s are rejected: %s", self.options.share_group, problem)
        if records:
            self._held = _HeldBatch(number, records, self._consumer)


class _HeldBatch:
    """The records of one micro-batch, whose locks a thread renews until they are accepted or released."""

    def __init__(
        self, number: int, records: list[ConsumerRecord[bytes, bytes]], consumer: ShareConsumer[bytes, bytes]
    ) -> None:
        self.number = number
        self.records = records
        self._consumer = consumer
        self._over = threading.Event()
        #: Whose turn it is with the consumer.
        self._turn = threading.Lock()
        self._renewing = threading.Thread(target=self._renew, name="barnabas-renew-locks", daemon=True)
        self._renewing.start()

    def parts(self, columns: Sequence[str], count: int) -> list[bytes]:
        """Return the records as Arrow streams of about as many each."""
        size = -(-len(self.records) // count)
        return [_stream(self.records[at : at + size], columns) for at in range(0, len(self.records), size)]

    def accept(self) -> None:
        """Say that all of it is done; what is not taken (a lock that was over) is delivered again."""
        self._end("accept")

    def release(self) -> None:
        """Give all of it back."""
        self._end("release")

    def _end(self, kind: str) -> None:
        self._over.set()
        with self._turn:
            self._say(kind)
        self._renewing.join()

    def _say(self, kind: str) -> None:
        for record in self.records:
            self._consumer.acknowledge(record, kind)
        try:
            results = self._consumer.commit_sync(_COMMIT_TIMEOUT)
        except KafkaError as problem:
            LOGGER.warning("Records could not be acknowledged (%s), they are delivered again: %s", kind, problem)
            return
        for partition, error in results.items():
            if error is not None:
                LOGGER.warning("Records of %s are delivered again, for they could not be %sed: %s",
                               partition, kind.removesuffix("e"), error)  # fmt: skip

    def _renew(self) -> None:
        timeout = self._consumer.acquisition_lock_timeout() or 30.0
        while not self._over.wait(timeout * _RENEW_AFTER):
            with self._turn:
                if self._over.is_set():
                    return
                try:
                    self._renew_once()
                except Exception as problem:  # noqa: BLE001 - the next renewal may succeed, and this thread is the only one
                    LOGGER.warning("Locks could not be renewed; records may be delivered twice: %r", problem)

    def _renew_once(self) -> None:
        for record in self.records:
            self._consumer.acknowledge(record, "renew")
        # The next poll hands out what was renewed; without the wait it would do so broker by broker.
        self._consumer.commit_sync(_COMMIT_TIMEOUT)
        again = list(self._consumer.poll(_LOOK))
        if len(again) < len(self.records):
            LOGGER.warning("%d locks could not be renewed: their records may be delivered twice",
                           len(self.records) - len(again))  # fmt: skip
        self.records = again


def _consumer(options: SourceOptions) -> ShareConsumer[bytes, bytes]:
    from barnabas import ShareConsumer

    _end_in_order_when_terminated()

    most = options.max_offsets_per_trigger or MAX_RECORDS
    settings = {
        "max.poll.records": most,
        **options.client,
        "group.id": options.share_group,
        "share.acknowledgement.mode": "explicit",
    }
    topics = options.strategy_options["subscribe"].split(",")
    return ShareConsumer(*(topic.strip() for topic in topics), settings)


def _end_in_order_when_terminated() -> None:
    """Have `stop` called when Spark terminates this process, as it does at the end of a query.

    A member that goes without a word keeps its partitions from the others until its session is over.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


def _stream(records: Sequence[ConsumerRecord[bytes, bytes]], columns: Sequence[str]) -> bytes:
    from barnabas.records.arrow import arrow_schema, pyarrow

    arrow = pyarrow()
    schema = arrow_schema(columns)
    arrays = [
        arrow.array([_VALUES[name](record) for record in records], type=schema.field(name).type) for name in columns
    ]
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(arrow.RecordBatch.from_arrays(arrays, schema=schema))
    found: bytes = sink.getvalue().to_pybytes()
    return found


#: Column → its value of a record.
_VALUES: dict[str, Callable[[Any], Any]] = {
    "key": lambda record: record.key,
    "value": lambda record: record.value,
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp * 1000,
    "timestampType": lambda record: int(record.timestamp_type),
    "headers": lambda record: [{"key": key, "value": value} for key, value in record.headers] or None,
}
