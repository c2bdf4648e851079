from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.records import RecordBatchBuilder, arrow_schema, decode_arrow, decode_records, encode_arrow, read_batches
from barnabas.records.table_encoder import arrow_rows, partition_column

PARTITIONING = Path(__file__).parents[2] / "vectors" / "data" / "partitioning-vectors.jsonl"
HEADERS = arrow_schema(("headers",)).field("headers").type
NOW = 1_700_000_000_000


def encoded(table: pa.RecordBatch, max_batch_size: int = 1 << 20, **settings: Any) -> bytes:
    return b"".join(encode_arrow(table, now_ms=NOW, max_batch_size=max_batch_size, **settings))


def sent(table: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return [(r.timestamp, r.key, r.value, r.headers) for r in decode_records(encoded(table), "t", 0)]


def test_a_row_becomes_the_record_that_the_builder_makes_of_it() -> None:
    rows = [
        (5, b"key", b"value", [("a", b"1"), ("b", None), ("", b"")]),
        (6, None, b"", []),
        (4, b"", None, [("c", b"x" * 300)]),
    ]
    builder = RecordBatchBuilder(1 << 20)
    for row in rows:
        builder.try_append(*row)
    table = pa.record_batch(
        {
            "key": pa.array([row[1] for row in rows], pa.binary()),
            "value": pa.array([row[2] for row in rows], pa.binary()),
            "timestamp": pa.array([row[0] for row in rows], pa.int64()),
            "headers": pa.array([[{"key": k, "value": v} for k, v in row[3]] for row in rows], HEADERS),
        }
    )

    assert encoded(table) == builder.close()


def test_what_the_source_reads_the_sink_writes() -> None:
    builder = RecordBatchBuilder(1 << 20)
    for number in range(500):
        builder.try_append(
            NOW + number, b"k%d" % number if number % 3 else None, bytes(number) if number % 5 else None,
            [("h", b"v" * number)] if number % 2 else (),
        )  # fmt: skip
    data = builder.close()

    table = decode_arrow(data, "t", 0, columns=("topic", "key", "headers", "value", "offset", "timestamp"))

    assert encoded(table) == data


def test_only_the_value_is_needed() -> None:
    assert sent(pa.record_batch({"value": [b"a", None]})) == [(NOW, None, b"a", []), (NOW, None, None, [])]


def test_a_table_without_values_is_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="no column 'value', only key"):
        encoded(pa.record_batch({"key": [b"a"]}))


def test_no_rows_give_no_batches() -> None:
    assert encoded(pa.record_batch({"value": pa.array([], pa.binary())})) == b""


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["é", None, ""], pa.string()),
        pa.array(["é", None, ""], pa.large_string()),
        pa.array(["é", None, ""], pa.string_view()),
        pa.array(["é".encode(), None, b""], pa.large_binary()),
        pa.array(["é".encode(), None, b""], pa.binary_view()),
        pa.array(["é", None, ""]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_values_of_every_binary_and_string_type_are_sent(array: pa.Array) -> None:
    assert [row[2] for row in sent(pa.record_batch({"value": array}))] == ["é".encode(), None, b""]


def test_values_of_fixed_size_are_sent() -> None:
    assert [row[2] for row in sent(pa.record_batch({"value": pa.array([b"ab", None], pa.binary(2))}))] == [b"ab", None]


@pytest.mark.parametrize(
    "array", [pa.array([1]), pa.array([1.5]), pa.array([["a"]])], ids=lambda array: str(array.type)
)
def test_values_of_other_types_are_refused(array: pa.Array) -> None:
    with pytest.raises(IllegalTypeError, match=r"column .value. has type .* bytes or strings"):
        encoded(pa.record_batch({"value": array}))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_become_milliseconds(unit: str) -> None:
    time = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    table = pa.record_batch(
        {"value": [b"", b""], "timestamp": pa.array([time, None], pa.timestamp(unit, tz="America/New_York"))}
    )

    assert [row[0] for row in sent(table)] == [1_700_000_000_000, NOW]


def test_a_negative_timestamp_is_refused_after_the_rows_before_it() -> None:
    rows = arrow_rows(pa.record_batch({"value": [b"a", b"b"], "timestamp": [1, -2]}), NOW)
    builder = RecordBatchBuilder(1000)

    with pytest.raises(IllegalArgumentError, match="-2 is negative"):
        builder.append_rows(rows, 0)
    assert builder.record_count == 1


def test_a_header_without_a_name_is_refused() -> None:
    for headers in ([{"key": None, "value": b"x"}], [None]):
        with pytest.raises(IllegalArgumentError, match="row 1 has a header without a name"):
            encoded(pa.record_batch({"value": [b"", b""], "headers": pa.array([[], headers], HEADERS)}))


def test_slices_send_their_own_rows_only() -> None:
    whole = pa.record_batch(
        {
            "key": pa.array([None if number % 3 else b"k%d" % number for number in range(100)], pa.binary()),
            "value": pa.array([None if number % 4 == 0 else b"v%d" % number for number in range(100)], pa.binary()),
            "timestamp": pa.array([None if number % 5 == 0 else number for number in range(100)], pa.int64()),
            "headers": pa.array(
                [None if number % 2 else [{"key": f"h{number}", "value": None}] for number in range(100)], HEADERS
            ),
        }
    )

    expected = sent(whole)

    for start, length in ((0, 1), (1, 1), (7, 20), (13, 87), (99, 1), (50, 0)):
        assert sent(whole.slice(start, length)) == expected[start : start + length]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_spread_over_batches_within_the_size_in_order(codec: str) -> None:
    values = [b"%d " % number * 20 for number in range(1000)]

    batches = list(
        encode_arrow(
            pa.record_batch({"value": values}), now_ms=NOW, max_batch_size=5000, compression=codec, base_offset=7
        )
    )

    assert all(len(batch) <= 5000 for batch in batches)
    records = decode_records(b"".join(batches), "t", 0)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(7, 1007))
    assert len(batches) == len(list(read_batches(b"".join(batches)))) > 5


def test_a_row_larger_than_a_batch_gets_one_of_its_own() -> None:
    table = pa.record_batch({"value": [b"a", bytes(10_000), b"b"]})

    assert [batch.record_count for batch in read_batches(encoded(table, 1000))] == [1, 1, 1]


def test_partitions_are_those_of_kafkas_own_vectors() -> None:
    vectors = [json.loads(line) for line in PARTITIONING.read_text().splitlines()]
    vectors = [vector for vector in vectors if "of6" in vector]
    keys = pa.array([bytes.fromhex(vector["key"]) for vector in vectors], pa.binary())

    for count in (1, 3, 6, 50):
        assert partition_column(keys, count).to_pylist() == [vector[f"of{count}"] for vector in vectors]


def test_null_keys_have_no_partition() -> None:
    keys = pa.array(["x", None, "a", None])

    partitions = partition_column(keys, 6).to_pylist()

    assert (partitions[1], partitions[3]) == (-1, -1)
    assert partition_column(keys.slice(2), 6).to_pylist() == partitions[2:]
