from __future__ import annotations

import datetime
import sys

import pyarrow as pa
import pytest

from barnabas.errors import CorruptRecordError, IllegalArgumentError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records import ColumnBuilder, RecordBatchBuilder, arrow_schema, assign_offsets, decode_arrow
from barnabas.records.arrow import ALL_COLUMNS, COLUMNS
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

ABORT = ControlRecordType.ABORT


def batch(base_offset: int, count: int, codec: str = "none", size: int = 3) -> bytes:
    builder = RecordBatchBuilder(1 << 24, codec)
    for number in range(base_offset, base_offset + count):
        builder.try_append(1000 + number, b"k%d" % number, bytes(size))
    return builder.close(base_offset)


def offsets(table: pa.RecordBatch) -> list[int]:
    table.validate(full=True)
    found: list[int] = table.column("offset").to_pylist()
    return found


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    table = decode_arrow(batch(0, 1), "t", 0, columns=ALL_COLUMNS)

    assert table.schema == arrow_schema(ALL_COLUMNS)
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string, value: binary>>"),
    ]


def test_headers_come_only_when_asked_for() -> None:
    assert decode_arrow(batch(0, 1), "t", 0).schema.names == list(COLUMNS)


def test_rows_hold_what_the_records_hold() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1_700_000_000_123, None, b"", [("a", b"1"), ("b", None)])
    builder.try_append(-1, b"", None)
    builder.try_append(0, b"key", b"value", [("a", b"")])

    table = decode_arrow(builder.close(5), "topic", 3, columns=ALL_COLUMNS)

    table.validate(full=True)
    utc = datetime.UTC
    common = {"topic": "topic", "partition": 3, "timestampType": 0}
    assert table.to_pylist() == [
        {
            "key": None,
            "value": b"",
            "offset": 5,
            "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, utc),
            "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
            **common,
        },
        {
            "key": b"",
            "value": None,
            "offset": 6,
            "timestamp": datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, utc),
            "headers": None,
            **common,
        },
        {
            "key": b"key",
            "value": b"value",
            "offset": 7,
            "timestamp": datetime.datetime(1970, 1, 1, tzinfo=utc),
            "headers": [{"key": "a", "value": b""}],
            **common,
        },
    ]


def test_nulls_everywhere_and_nowhere() -> None:
    builder = RecordBatchBuilder(1 << 20)
    for number in range(3000):
        builder.try_append(1, b"k" if number % 3 else None, None if number % 7 == 0 else b"v")

    table = decode_arrow(builder.close(), "t", 0)

    assert table.column("key").to_pylist() == [b"k" if number % 3 else None for number in range(3000)]
    assert table.column("value").to_pylist() == [None if number % 7 == 0 else b"v" for number in range(3000)]
    assert table.column("value").null_count == 429
    assert decode_arrow(batch(0, 3), "t", 0).column("key").buffers()[0] is None


def test_several_partitions_go_into_one_table() -> None:
    builder = ColumnBuilder()
    stamped = bytearray(batch(50, 2))
    assign_offsets(stamped, 0, 50, 0, log_append_time=9)

    assert builder.append(batch(0, 2) + batch(2, 1, "zstd"), "one", 0) == 3
    assert builder.append(b"", "one", 7) == 0
    assert builder.append(stamped, "two", 4, 50) == 52
    assert builder.append(batch(10, 1), "one", 1, 10) == 11
    table = builder.finish()

    assert offsets(table) == [0, 1, 2, 50, 51, 10]
    assert table.column("topic").to_pylist() == ["one", "one", "one", "two", "two", "one"]
    assert table.column("partition").to_pylist() == [0, 0, 0, 4, 4, 1]
    assert table.column("timestampType").to_pylist() == [0, 0, 0, 1, 1, 0]


def test_a_finished_builder_starts_anew() -> None:
    builder = ColumnBuilder(("offset", "topic"))
    builder.append(batch(0, 2), "t", 0)
    builder.finish()

    assert builder.row_count == 0
    assert builder.finish().num_rows == 0
    builder.append(batch(5, 1), "u", 0)
    assert builder.finish().to_pylist() == [{"offset": 5, "topic": "u"}]


def test_nothing_gives_an_empty_table_of_the_same_schema() -> None:
    table = decode_arrow(b"", "t", 0, columns=ALL_COLUMNS)

    table.validate(full=True)
    assert (table.num_rows, table.schema) == (0, arrow_schema(ALL_COLUMNS))


@pytest.mark.parametrize("columns", [("value",), ("offset", "key"), ("headers",), ("timestamp", "partition"), ()])
def test_only_the_columns_asked_for_in_the_order_asked_for(columns: tuple[str, ...]) -> None:
    table = decode_arrow(batch(0, 5), "t", 0, columns=columns)

    table.validate(full=True)
    assert tuple(table.schema.names) == columns


def test_unknown_and_double_columns_are_refused() -> None:
    for columns in (("key", "valu"), ("key", "key")):
        with pytest.raises(IllegalArgumentError, match="must be different ones of key, value"):
            ColumnBuilder(columns)


def test_the_range_of_offsets_is_kept_to() -> None:
    data = batch(0, 5) + batch(5, 5, "gzip") + batch(20, 5)
    builder = ColumnBuilder()

    assert builder.append(data, "t", 0, 3, end_offset=7) == 7
    assert offsets(builder.finish()) == [3, 4, 5, 6]
    assert builder.append(data, "t", 0, 7, end_offset=15) == 10
    assert offsets(builder.finish()) == [7, 8, 9]
    assert builder.append(data, "t", 0, 10, end_offset=22) == 22
    assert offsets(builder.finish()) == [20, 21]
    assert builder.append(data, "t", 0, 22, end_offset=22) == 22
    assert builder.append(data, "t", 0, 22) == 25
    assert offsets(builder.finish()) == [22, 23, 24]


def test_the_number_of_rows_is_kept_to() -> None:
    data = batch(0, 5) + batch(5, 5, "lz4")
    builder = ColumnBuilder()
    taken, position = [], 0
    while position < 10:
        position = builder.append(data, "t", 0, position, max_rows=4)
        taken.append(offsets(builder.finish()))

    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_control_and_aborted_batches_are_passed_over() -> None:
    aborted = RecordBatchBuilder(1000)
    aborted.try_append(1, None, b"x")
    aborted.set_producer_state(9, 0, 0, transactional=True)
    marker = build_end_txn_marker(
        EndTxnMarker(ABORT, 0), producer_id=9, producer_epoch=0, timestamp_ms=1, base_offset=3
    )
    data = batch(0, 2) + aborted.close(2) + marker
    builder = ColumnBuilder()

    assert builder.append(data, "t", 0, aborted_transactions=[(9, 2)]) == 4
    assert offsets(builder.finish()) == [0, 1]
    assert builder.append(data, "t", 0, end_offset=3) == 3
    assert offsets(builder.finish()) == [0, 1, 2]


def test_rows_before_a_corrupt_batch_come_first() -> None:
    data = bytearray(batch(0, 2) + batch(2, 2))
    data[-1] ^= 1
    builder = ColumnBuilder()

    assert builder.append(data, "orders", 3) == 2
    assert offsets(builder.finish()) == [0, 1]
    with pytest.raises(CorruptRecordError, match="orders-3 cannot be read from offset 2 on"):
        builder.append(data, "orders", 3, 2)
    with pytest.raises(CorruptRecordError):
        decode_arrow(data, "orders", 3)


def test_a_batch_that_turns_out_corrupt_leaves_no_rows() -> None:
    broken = RecordBatchBuilder(10_000)
    for number in range(20):
        broken.try_append(1, None if number % 2 else b"k", None, [("h", None)] if number % 3 else ())
    data = bytearray(broken.close())
    data[-1] = 0x15  # the header's value would have a size of -11
    builder = ColumnBuilder(ALL_COLUMNS)
    builder.append(batch(100, 9), "t", 0)

    with pytest.raises(CorruptRecordError, match="record 19"):
        builder.append(data, "t", 1, check_crcs=False)
    builder.append(batch(200, 30), "t", 2)
    table = builder.finish()

    assert offsets(table) == [*range(100, 109), *range(200, 230)]
    assert table.column("partition").to_pylist() == [0] * 9 + [2] * 30
    assert (table.column("key").null_count, table.column("headers").null_count) == (0, 39)


def test_columns_grow_with_their_data() -> None:
    builder = ColumnBuilder(ALL_COLUMNS)
    position = 0
    for count, size in [(1, 10), (5000, 1), (3, 100_000), (2000, 300)]:
        position = builder.append(batch(position, count, "zstd", size), "t", 0, position)
    table = builder.finish()

    assert offsets(table) == list(range(7004))
    assert (
        table.column("value").to_pylist()
        == [bytes(10)] + [bytes(1)] * 5000 + [bytes(100_000)] * 3 + [bytes(300)] * 2000
    )
    assert table.column("key").to_pylist() == [b"k%d" % number for number in range(7004)]


def test_timestamps_that_microseconds_cannot_hold_become_the_last_ones_that_they_can() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(2**63 - 1, None, None)

    table = decode_arrow(builder.close(), "t", 0, columns=("timestamp",))

    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [9_223_372_036_854_775_000]


def test_header_names_that_are_not_utf8_become_replacement_characters() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, None, [("name", b"v")])
    data = bytearray(builder.close())
    data[data.index(b"name")] = 0xFF

    table = decode_arrow(data, "t", 0, columns=("headers",), check_crcs=False)

    table.validate(full=True)
    assert table.to_pylist() == [{"headers": [{"key": "\ufffdame", "value": b"v"}]}]


def test_without_pyarrow_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(ImportError, match=r"pip install 'barnabas\[arrow\]'"):
        decode_arrow(batch(0, 1), "t", 0)
