"""From Arrow batches to a producer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barnabas.errors import RecordTooLargeError
from barnabas.spark.errors import SinkSchemaError
from barnabas.spark.row_writer import RowWriter


class Future:
    def __init__(self, rows: int, error: Exception | None = None) -> None:
        self.rows, self.error, self.is_done = rows, error, False

    def done(self) -> bool:
        return self.is_done

    def result(self) -> int:
        if self.error is not None:
            raise self.error
        return self.rows


class FakeProducer:
    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.futures: list[Future] = []
        self.flushed = 0

    def send_table(self, topic: str, table: Any) -> Any:
        self.sent.append((topic, table))
        self.futures.append(Future(table.num_rows))
        return self.futures[-1]

    def flush(self) -> None:
        self.flushed += 1


def rows(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_rows_go_to_the_topics_of_their_column_in_order() -> None:
    producer = FakeProducer()
    writer = RowWriter(producer, None)

    writer.write(rows(topic=["a", "b", "a"], value=["1", "2", "3"]))

    sent = [(topic, table.to_pydict()) for topic, table in producer.sent]
    assert sent == [("a", {"value": ["1", "3"]}), ("b", {"value": ["2"]})]
    assert writer.finish() == 3


def test_the_option_topic_wins_and_other_columns_are_left_out() -> None:
    producer = FakeProducer()
    writer = RowWriter(producer, "c")

    writer.write(rows(topic=["a", None], value=["1", "2"], offset=[1, 2], key=["k", None]))

    assert [(topic, table.schema.names) for topic, table in producer.sent] == [("c", ["value", "key"])]


def test_a_row_without_topic_is_refused_before_any_row_of_its_batch_is_sent() -> None:
    producer = FakeProducer()

    with pytest.raises(SinkSchemaError, match="null topic present in the data"):
        RowWriter(producer, None).write(rows(topic=["a", None], value=["1", "2"]))

    assert producer.sent == []


def test_a_row_that_failed_fails_the_task_at_its_next_batch() -> None:
    producer = FakeProducer()
    writer = RowWriter(producer, "c")
    writer.write(rows(value=["1"]))
    producer.futures[0].is_done, producer.futures[0].error = True, RecordTooLargeError("too large")

    with pytest.raises(RecordTooLargeError):
        writer.write(rows(value=["2"]))


def test_without_rows_nothing_is_sent_and_nothing_waited_for() -> None:
    producer = FakeProducer()
    writer = RowWriter(producer, "c")

    writer.write(rows(value=[]))

    assert (writer.finish(), producer.sent, producer.flushed) == (0, [], 0)


def test_the_time_of_a_row_is_sent_unless_the_option_says_no() -> None:
    producer = FakeProducer()

    RowWriter(producer, "c").write(rows(value=["1"], timestamp=[7]))
    RowWriter(producer, "c", include_timestamp=False).write(rows(value=["1"], timestamp=[7]))

    assert [table.schema.names for _, table in producer.sent] == [["value", "timestamp"], ["value"]]
