"""What becomes of records that cannot be sent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from barnabas.errors import (
    KafkaError,
    KafkaTimeoutError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    TopicAuthorizationError,
)
from barnabas.spark.row_writer import RowsRefusedError
from barnabas.streams.engine.exception_handlers import (
    DefaultProductionExceptionHandler,
    Response,
    dead_letter_queue_records,
)
from barnabas.streams.engine.record import InputRecord, OutputRecord
from barnabas.streams.errors import StreamsError, TaskCorruptedError, TaskMigratedError
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.spark import rows
from barnabas.streams.spark.row_spool import RowSpool
from barnabas.streams.spark.send_errors import SendErrors
from barnabas.streams.topology.processor_api import TaskId

TASK = TaskId(0, 1)
LIMIT = 100


class Future:
    """Rows that are stored, or of which some fail; rows that failed because of others have a cause."""

    def __init__(self, rows: int, failed: dict[int, KafkaError]) -> None:
        self.rows, self.failed = rows, failed

    def done(self) -> bool:
        return True

    def exception(self) -> KafkaError | None:
        return next(iter(self.failed.values()), None)

    def failed_rows(self) -> list[tuple[int, KafkaError]]:
        return [*self.failed.items()]

    def last_offsets(self) -> dict[Any, int]:
        return {}


class FakeProducer:
    """Refuses tables with values that are longer than LIMIT; rows fail by what `failing` says of their values."""

    def __init__(self, failing: dict[bytes, KafkaError] | None = None) -> None:
        self.failing = failing or {}
        self.stored: list[tuple[str, bytes]] = []
        self.unknown: tuple[str, ...] = ()
        self.waits = 0

    def send_table(self, topic: str, table: Any) -> Any:
        if topic in self.unknown:
            self.waits += 1
            raise KafkaTimeoutError(f"Topic {topic} not present in metadata")
        values = table.column("value").to_pylist()
        if max(map(len, values)) > LIMIT:
            raise RecordTooLargeError("too large; nothing of the table was sent")
        failed = {row: self.failing[value] for row, value in enumerate(values) if value in self.failing}
        if not failed:
            self.stored += [(topic, value) for value in values]
        return Future(len(values), failed)

    def flush(self) -> None:
        pass


class Handler:
    """Answers always the same, and knows what it was asked."""

    def __init__(self, response: Response, queue: str | None = None) -> None:
        self.response, self.queue = response, queue
        self.asked: list[tuple[Any, OutputRecord, Exception]] = []

    def handle_error(self, context: Any, record: OutputRecord, error: Exception) -> Response:
        self.asked.append((context, record, error))
        return self.response._replace(dead_letter_queue_records=dead_letter_queue_records(self.queue, context, error))


def sent(*records: tuple[str, bytes]) -> pa.RecordBatch:
    made = []
    for offset, (topic, value) in enumerate(records):
        record = OutputRecord(topic, None, b"k", value, 1000, [("h", b"1")])
        source = InputRecord("in", 1, offset, 999, b"raw key", b"raw value", [("s", None)])
        record.origin = ("sink", RecordContext(999, offset, 1, "in", source.headers), source)
        made.append(record)
    found = rows.output_rows(made, with_origins=True)
    assert found is not None
    return found


Errors = Callable[..., tuple[SendErrors, list[bytes]]]


@pytest.fixture
def errors() -> Iterator[Errors]:
    """Makes what asks a handler, and the list of values that are left out."""
    with contextlib.ExitStack() as stack:

        def make(handler: Any, *, changelogs: tuple[str, ...] = ()) -> tuple[SendErrors, list[bytes]]:
            told: list[bytes] = []
            found = SendErrors(handler, TASK, changelogs, lambda row: told.extend(row.column("value").to_pylist()))
            stack.callback(found.close)
            return found, told

        yield make


def attempt(producer: FakeProducer, asked: SendErrors, source: Iterator[pa.RecordBatch]) -> int:
    producer.stored.clear()
    writer = asked.writer(producer)
    for batch in asked.rows(source):
        writer.write(batch)
    return writer.finish()


def written(producer: FakeProducer, asked: SendErrors, *batches: pa.RecordBatch) -> int:
    """Write as the sink does: once more in a new transaction when rows were refused."""
    source = iter(batches)
    while True:
        with contextlib.suppress(RowsRefusedError):
            return attempt(producer, asked, source)


BIG = b"x" * (LIMIT + 1)


def test_what_is_too_large_for_the_producer_is_left_out_and_the_rest_is_written(errors: Errors) -> None:
    producer, handler = FakeProducer(), Handler(Response.resume())
    asked, told = errors(handler)

    count = written(producer, asked, sent(*[("out", b"%d" % number) for number in range(5)], ("out", BIG), ("b", b"c")))

    assert count == 6
    assert producer.stored == [("out", b"%d" % number) for number in range(5)] + [("b", b"c")]
    assert (told, len(asked.left_out), len(handler.asked)) == ([BIG], 1, 1)


def test_the_handler_is_told_the_record_and_where_it_came_from(errors: Errors) -> None:
    handler = Handler(Response.resume())

    written(FakeProducer(), errors(handler)[0], sent(("out", b"1"), ("out", BIG)))

    ((context, record, error),) = handler.asked
    assert isinstance(error, RecordTooLargeError)
    assert record == OutputRecord("out", None, b"k", BIG, 1000, [("h", b"1")])
    assert context == ("in", 1, 1, [("s", None)], "sink", TASK, 999, b"raw key", b"raw value")


def test_what_the_brokers_refuse_is_left_out_and_all_else_is_written_again(errors: Errors) -> None:
    refused = RecordTooLargeError("max.message.bytes")
    follow_up = RecordTooLargeError("max.message.bytes")
    follow_up.__cause__ = refused
    producer = FakeProducer({b"2": refused, b"4": follow_up})
    asked, told = errors(Handler(Response.resume()))
    source = iter([sent(("out", b"1"), ("out", b"2"), ("out", b"4")), sent(("out", b"5"))])

    with pytest.raises(RowsRefusedError):
        attempt(producer, asked, source)
    del producer.failing[b"4"]

    assert attempt(producer, asked, source) == 3
    assert [value for _, value in producer.stored] == [b"1", b"4", b"5"]
    assert told == [b"2"], "the others failed with it"


def test_each_record_is_asked_about_once_however_often_the_batch_is_written(errors: Errors) -> None:
    producer = FakeProducer({b"2": RecordTooLargeError("first"), b"9": RecordTooLargeError("later")})
    handler = Handler(Response.resume())
    asked, told = errors(handler)

    count = written(producer, asked, sent(("out", b"1"), ("out", b"2"), ("out", BIG)), sent(("out", b"9"), ("a", b"3")))

    assert count == 2
    assert sorted(value for _, value in producer.stored) == [b"1", b"3"]
    assert sorted(told) == sorted([b"2", BIG, b"9"])
    assert len(handler.asked) == 3


def test_records_for_the_dead_letter_queue_are_written_with_the_others_once(errors: Errors) -> None:
    producer = FakeProducer({b"2": RecordTooLargeError("no")})
    asked, _ = errors(Handler(Response.resume(), "dead"))

    written(producer, asked, sent(("out", b"1"), ("out", BIG)), sent(("out", b"2")))

    assert producer.stored == [("out", b"1"), ("dead", b"raw value"), ("dead", b"raw value")]


def test_a_dead_letter_that_cannot_be_written_ends_the_task(errors: Errors) -> None:
    producer = FakeProducer({b"raw value": RecordTooLargeError("no")})
    asked, _ = errors(Handler(Response.resume(), "dead"))

    with pytest.raises(StreamsError, match="record of the dead-letter queue"):
        written(producer, asked, sent(("out", BIG)))


def test_a_topic_that_nobody_knows_is_waited_for_once_and_all_its_records_are_left_out(errors: Errors) -> None:
    producer = FakeProducer()
    producer.unknown = ("gone",)
    asked, told = errors(Handler(Response.resume()))

    count = written(producer, asked, sent(("gone", b"1"), ("out", b"2")), sent(("gone", b"3")))

    assert (count, told, producer.waits) == (1, [b"1", b"3"], 1)


@pytest.mark.parametrize(
    ("handler", "error", "wanted", "message"),
    [
        (Handler(Response.fail()), RecordTooLargeError("no"), StreamsError, "Exception handler choose to FAIL"),
        (Handler(Response.retry()), RecordTooLargeError("no"), StreamsError, "Exception handler choose to FAIL"),
        (Handler(Response.retry()), KafkaTimeoutError("slow"), TaskCorruptedError, "delivery.timeout.ms"),
        (Handler(Response.resume()), TopicAuthorizationError("no"), StreamsError, "since this is a fatal error"),
        (Handler(Response.resume()), OutOfOrderSequenceError("no"), TaskMigratedError, "may be migrated out"),
        (DefaultProductionExceptionHandler(), KafkaTimeoutError("slow"), TaskCorruptedError, "delivery.timeout.ms"),
        (DefaultProductionExceptionHandler(), RecordTooLargeError("no"), StreamsError, "handler choose to FAIL"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_may_not_be_left_out_ends_the_attempt(
    handler: Any, error: Any, wanted: type, message: str, errors: Errors
) -> None:
    with pytest.raises(wanted, match=message) as raised:
        written(FakeProducer({b"2": error}), errors(handler)[0], sent(("out", b"1"), ("out", b"2")))

    assert "sending record to topic out for task 0_1" in str(raised.value)
    assert raised.value.__cause__ is error


def test_a_changelog_record_is_never_left_out(errors: Errors) -> None:
    asked, told = errors(Handler(Response.resume()), changelogs=("counts-changelog",))

    with pytest.raises(StreamsError, match="a record of a changelog cannot be left out"):
        written(FakeProducer(), asked, sent(("counts-changelog", BIG)))
    assert told == []


@pytest.mark.parametrize("in_memory", [10, 1 << 20])
def test_a_spool_gives_all_rows_from_the_first_one_on_wherever_a_pass_ended(in_memory: int) -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [number, number + 1]}) for number in range(5)]
    spool, source = RowSpool(in_memory), iter(batches)
    first = spool.through(source)
    taken = [next(first) for _ in range(3)]

    again = [*spool.through(source)]

    assert taken == batches[:3]
    assert again == batches
    assert [*spool.through(source)] == batches
    spool.close()
