"""What becomes of records that cannot be sent: `production.exception.handler` decides (KIP-210, KIP-1034).

Source: Kafka's RecordCollectorImpl. Java's producer fails a whole transaction with one record, so that what a handler
leaves out cannot be left out there with exactly_once_v2 (KAFKA-15259). Here it can: the rows of the batch are kept, the
transaction is aborted, and the others are written again in a new one, with what the handler has for the dead-letter
queue. Of each record the handler is asked once in an attempt to compute a batch.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas.errors import (
    ApiError,
    AuthenticationError,
    AuthorizationError,
    IllegalStateError,
    InvalidPidMappingError,
    InvalidProducerEpochError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    SecurityDisabledError,
    SerializationError,
    UnknownServerError,
)
from barnabas.spark.row_writer import RowsRefusedError
from barnabas.spark.sink_schema import sink_columns
from barnabas.streams.engine.exception_handlers import (
    DefaultProductionExceptionHandler,
    ErrorHandlerContext,
    Response,
    Result,
)
from barnabas.streams.engine.record import OutputRecord
from barnabas.streams.errors import StreamsError, TaskCorruptedError, TaskMigratedError
from barnabas.streams.spark import rows
from barnabas.streams.spark.row_spool import RowSpool

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.producer.send_table import TableFuture
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.spark.row_writer import TableSender
    from barnabas.streams.topology.processor_api import TaskId

_log = logging.getLogger(__name__)

#: Of these no handler is asked.
_FATAL = (
    AuthenticationError, AuthorizationError, SecurityDisabledError, InvalidTopicError, UnknownServerError,
    SerializationError, OffsetMetadataTooLargeError, IllegalStateError,
)  # fmt: skip
_FENCED = (ProducerFencedError, InvalidPidMappingError, InvalidProducerEpochError, OutOfOrderSequenceError)

_COLUMNS = frozenset(sink_columns(include_timestamp=True)) - {"topic"}

_RETRY = """\
The broker is either slow or in bad state (like not having enough replicas) in responding the request, or the \
connection to broker was interrupted sending the request or receiving the response.
Consider overwriting `max.block.ms` and /or `delivery.timeout.ms` to a larger value to wait longer for such scenarios \
and avoid timeout errors"""

#: Rows of a dead-letter queue are numbered from here on, far beyond those of a batch.
_FIRST_DEAD_LETTER = 1 << 60


class Chosen(NamedTuple):
    """Rows of a batch for one topic; `number` is that of the batch's first row, `places` are theirs in the batch."""

    topic: str
    rows: pa.RecordBatch
    number: int
    places: Sequence[int]


class ProductionHandler(Protocol):
    """What is asked about a record that was not sent: a user's own, or one of Kafka's kinds."""

    def handle_error(self, where: Any, record: Any, error: Any, /) -> object:
        """Say whether it may be left out."""


class SendErrors:
    """Asks the handler of a task about the records of one batch, and knows which are left out.

    `left_out` is told of the rows that are. Changelog records cannot be: the store would lose what it has.
    """

    def __init__(
        self,
        handler: ProductionHandler,
        task: TaskId,
        changelogs: Collection[str],
        left_out: Callable[[pa.RecordBatch], None],
    ) -> None:
        self._handler = handler
        self._task = task
        self._changelogs = frozenset(changelogs)
        self._tell = left_out
        self._spool = RowSpool() if asks(handler) else None
        self.left_out: set[int] = set()
        self.dead_letters: list[OutputRecord] = []

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the batch; see `AskedRows`."""
        return batches if self._spool is None else self._spool.through(batches)

    def writer(self, producer: TableSender) -> AskingWriter:
        """Return what writes them; see `AskedRows`."""
        return AskingWriter(producer, self)

    def close(self) -> None:
        """Forget the rows."""
        if self._spool is not None:
            self._spool.close()

    def ask(self, topic: str, row: pa.RecordBatch, number: int, error: KafkaError) -> None:
        """Leave a row out if the handler says so.

        Raises TaskCorruptedError to have the batch computed again, StreamsError to end.
        """
        message = f"Error encountered sending record to topic {topic} for task {self._task} due to:\n{error!r}"
        if isinstance(error, _FATAL):
            raise StreamsError(
                f"{message}\nWritten offsets would not be recorded and no more records would be sent since this is a "
                "fatal error."
            ) from error
        if isinstance(error, _FENCED):
            raise TaskMigratedError(
                f"{message}\nWritten offsets would not be recorded and no more records would be sent since the "
                "producer is fenced, indicating the task may be migrated out"
            ) from error
        if number >= _FIRST_DEAD_LETTER:
            raise StreamsError(f"{message}\nIt is a record of the dead-letter queue, which has none itself.") from error
        response = self._response(topic, row, error)
        if response.result is Result.RETRY and getattr(error, "retriable", False):
            raise TaskCorruptedError(f"{message}\n{_RETRY}") from error
        if response.result is not Result.RESUME or self._spool is None:
            raise StreamsError(
                f"{message}\nException handler choose to FAIL the processing, no more records would be sent."
            ) from error
        if topic in self._changelogs:
            raise StreamsError(
                f"{message}\nException handler choose to CONTINUE, but a record of a changelog cannot be left out: its "
                "store would have what a restored one has not."
            ) from error
        _log.warning("%s\nException handler choose to CONTINUE processing in spite of this error.", message)
        self.left_out.add(number)
        self.dead_letters += response.dead_letter_queue_records
        self._tell(row)

    def _response(self, topic: str, row: pa.RecordBatch, error: KafkaError) -> Response:
        (values,) = row.to_pylist()
        headers = [(each["key"], each["value"]) for each in values["headers"] or ()]
        record = OutputRecord(topic, values["partition"], values["key"], values["value"], values["timestamp"], headers)
        origin = values.get(rows.ORIGIN)
        found = (None, None, -1, -1, [], -1, None, None) if origin is None else pickle.loads(origin)  # noqa: S301  ours
        node, source, partition, offset, source_headers, time, key, value = found
        where = ErrorHandlerContext(source, partition, offset, source_headers, node, self._task, time, key, value)
        try:
            response = self._handler.handle_error(where, record, error)
        except Exception as fatal:
            raise StreamsError("Fatal user code error in production error callback") from fatal
        if not isinstance(response, Response):
            raise StreamsError(f"Invalid ProductionExceptionHandler response: {response!r} is no Response")
        return response


def asks(handler: object) -> bool:
    """Whether a handler may leave records out: the default one never does, and needs no rows kept for it."""
    return type(handler) is not DefaultProductionExceptionHandler


class AskingWriter:
    """As RowWriter, for one attempt to write the rows of a task.

    Raises RowsRefusedError when the transaction has failed because of rows that are left out from now on, and what
    `SendErrors.ask` raises. What the producer does not even take fails no transaction.
    """

    def __init__(self, producer: TableSender, errors: SendErrors) -> None:
        self._producer = producer
        self._errors = errors
        self._sent: deque[tuple[TableFuture, Chosen]] = deque()
        self._unreachable: dict[str, KafkaTimeoutError] = {}
        self._next = self._count = 0
        #: The last offset written in each partition; complete after `finish`.
        self.ends: dict[TopicPartition, int] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows that are not left out, as far as there is memory."""
        number, self._next = self._next, self._next + batch.num_rows
        self._write(batch, number)

    def _write(self, batch: pa.RecordBatch, number: int) -> None:
        for topic, places in self._by_topic(batch, number):
            chosen = batch if len(places) == batch.num_rows else batch.take(_indices(places))
            self._send(Chosen(topic, chosen, number, places))
        while self._sent and self._sent[0][0].done():
            self._take_result()

    def _by_topic(self, batch: pa.RecordBatch, number: int) -> Iterator[tuple[str, Sequence[int]]]:
        import pyarrow.compute as pc

        left_out = {found - number for found in self._errors.left_out if number <= found < number + batch.num_rows}
        topics = batch.column("topic")
        found = pc.unique(topics)
        for topic in found:
            if len(found) == 1 and not left_out:
                yield topic.as_py(), range(batch.num_rows)
                continue
            places = pc.indices_nonzero(pc.equal(topics, topic)).to_pylist()
            if kept := [place for place in places if place not in left_out]:
                yield topic.as_py(), kept

    def _send(self, chosen: Chosen) -> None:
        if (unreachable := self._unreachable.get(chosen.topic)) is not None:
            self._ask_all(chosen, unreachable)
            return
        try:
            table = chosen.rows.select([name for name in chosen.rows.schema.names if name in _COLUMNS])
            self._sent.append((self._producer.send_table(chosen.topic, table), chosen))
        except RecordTooLargeError as error:
            half = chosen.rows.num_rows // 2
            if not half:
                self._ask_all(chosen, error)
                return
            for part in (slice(None, half), slice(half, None)):
                self._send(chosen._replace(rows=chosen.rows[part], places=chosen.places[part]))
        except KafkaTimeoutError as error:
            self._unreachable[chosen.topic] = error  # its metadata do not come, and need not be waited for again
            self._ask_all(chosen, error)
        except KafkaError as error:
            self._collect()
            if not isinstance(error, ApiError):
                raise
            self._ask_all(chosen, error)

    def _ask_all(self, chosen: Chosen, error: KafkaError) -> None:
        for row in range(chosen.rows.num_rows):
            self._ask(chosen, row, error)

    def _ask(self, chosen: Chosen, row: int, error: KafkaError) -> None:
        self._errors.ask(chosen.topic, chosen.rows.slice(row, 1), chosen.number + chosen.places[row], error)

    def finish(self) -> int:
        """Return the number of rows, once each is acknowledged."""
        written = 0
        while True:
            if self._sent:
                self._producer.flush()
            while self._sent:
                self._take_result()
            letters = self._errors.dead_letters[written:]
            if not letters:
                return self._count
            batch = rows.output_rows(letters)
            assert batch is not None
            self._write(batch, _FIRST_DEAD_LETTER + written)
            written += len(letters)

    def _take_result(self) -> None:
        future, _ = self._sent[0]
        if (error := future.exception()) is not None:
            self._collect()
            raise error
        self._sent.popleft()
        self._count += future.rows
        for partition, offset in future.last_offsets().items():
            self.ends[partition] = max(offset, self.ends.get(partition, -1))

    def _collect(self) -> None:
        """Ask about the rows that have failed the transaction; others failed because of them.

        Raises RowsRefusedError when there are any and they are left out.
        """
        self._producer.flush()
        failed = [
            (chosen, row, error)
            for future, chosen in self._sent
            for row, error in future.failed_rows()
            if not isinstance(error.__cause__, KafkaError)
        ]
        first = [each for each in failed if not isinstance(each[2], _FENCED)] or failed
        for each in first:
            self._ask(*each)
        if first:
            raise RowsRefusedError(f"{len(first)} records are left out, and the others are written again")


def _indices(places: Sequence[int]) -> pa.Array:
    import pyarrow as pa

    return pa.array(places, pa.int64())
