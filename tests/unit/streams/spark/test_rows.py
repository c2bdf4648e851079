"""Arrow batches as records of the engine and back."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from barnabas.records.arrow import arrow_schema
from barnabas.streams.engine.record import InputRecord, OutputRecord
from barnabas.streams.spark import rows


def test_rows_of_the_source_become_records_with_times_in_milliseconds() -> None:
    schema = arrow_schema(rows.INPUT_COLUMNS)
    time = datetime.datetime(1970, 1, 1, 0, 0, 1, 5000, datetime.UTC)
    columns: list[Any] = [[b"k", None], [None, b"v"], ["t", "u"], [1, 0], [7, 8], [time, time]]
    columns.append([[{"key": "h", "value": None}], None])
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )

    assert [*rows.input_records(batch)] == [
        InputRecord("t", 1, 7, 1005, b"k", None, [("h", None)]), InputRecord("u", 0, 8, 1005, None, b"v", []),
    ]  # fmt: skip


def test_records_become_rows_for_the_sink_in_their_order() -> None:
    batch = rows.output_rows([
        OutputRecord("t", None, b"k", b"v", 5, [("h", b"1")]), OutputRecord("t-changelog", 3, b"k", None, None, []),
    ])  # fmt: skip

    assert batch is not None
    assert batch.to_pylist() == [
        {"topic": "t", "partition": None, "key": b"k", "value": b"v", "timestamp": 5,
         "headers": [{"key": "h", "value": b"1"}]},
        {"topic": "t-changelog", "partition": 3, "key": b"k", "value": None, "timestamp": None, "headers": None},
    ]  # fmt: skip
    assert rows.output_rows([]) is None
