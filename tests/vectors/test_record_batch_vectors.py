"""The 120 record batches that Kafka's own Java classes wrote, read and written by ours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.errors import CorruptRecordError
from barnabas.records import (
    RecordBatchBuilder,
    assign_offsets,
    decode_arrow,
    decode_records,
    read_batches,
    scan_batches,
    validate_records,
)
from barnabas.records.arrow import ALL_COLUMNS

DATA = Path(__file__).parent / "data" / "record-batch-vectors.jsonl.gz"
VECTORS = [json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
TIMESTAMP_TYPE_BIT = 0x08
NAMES = [
    f"{number}-{vector['compression']}-{vector['timestampType']}-{len(vector['records'])}"
    for number, vector in enumerate(VECTORS)
]
every_vector = pytest.mark.parametrize("vector", VECTORS, ids=NAMES)


def as_json(record: Any) -> dict[str, Any]:
    def shown(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    return {
        "timestamp": record.timestamp,
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [[name, shown(value)] for name, value in record.headers],
    }


def from_json(data: str | None) -> bytes | None:
    return None if data is None else bytes.fromhex(data)


def with_times(data: bytes, vector: dict[str, Any]) -> tuple[bytes, int | None]:
    """The batch as its producer sent it, and the time that the broker stamped on it, if it did."""
    if vector["timestampType"] == "CreateTime":
        return data, None
    sent = bytearray(data)
    sent[22] &= 0xFF ^ TIMESTAMP_TYPE_BIT
    return bytes(sent), scan_batches(data)[0].max_timestamp


def rebuilt(vector: dict[str, Any]) -> bytes:
    data = bytes.fromhex(vector["hex"])
    sent, append_time = with_times(data, vector)
    builder = RecordBatchBuilder(1 << 20, vector["compression"])
    builder.set_producer_state(
        vector["producerId"], vector["producerEpoch"], vector["baseSequence"], vector["transactional"]
    )
    (batch,) = read_batches(sent)
    for record in batch:
        builder.try_append(record.timestamp, record.key, record.value, record.headers)
    batch_bytes = bytearray(builder.close(vector["baseOffset"], vector["leaderEpoch"]))
    if append_time is not None:
        assign_offsets(batch_bytes, 0, vector["baseOffset"], vector["leaderEpoch"], append_time)
    return bytes(batch_bytes)


@every_vector
def test_reads_header_and_records(vector: dict[str, Any]) -> None:
    (batch,) = read_batches(bytes.fromhex(vector["hex"]))

    batch.check()

    assert [as_json(record) for record in batch] == vector["records"]
    assert batch.compression == vector["compression"]
    assert batch.base_offset == vector["baseOffset"]
    assert batch.producer_id == vector["producerId"]
    assert batch.producer_epoch == vector["producerEpoch"]
    assert batch.base_sequence == vector["baseSequence"]
    assert batch.is_transactional == vector["transactional"]
    assert batch.partition_leader_epoch == vector["leaderEpoch"]
    assert batch.timestamp_type == ("CreateTime", "LogAppendTime").index(vector["timestampType"])
    assert [record.offset for record in batch] == list(range(batch.base_offset, batch.next_offset))


@every_vector
def test_writes_the_same_bytes_or_the_same_records_compressed(vector: dict[str, Any]) -> None:
    original = bytes.fromhex(vector["hex"])

    ours = rebuilt(vector)

    (batch,) = read_batches(ours)
    batch.check()
    assert [as_json(record) for record in batch] == vector["records"]
    # Compressors differ from one version to the next; before compression all must be equal.
    assert ours[:8] == original[:8]
    assert ours[12:17] == original[12:17]
    assert ours[21:61] == original[21:61]
    if vector["compression"] == "none":
        assert ours == original


@every_vector
def test_passes_the_broker_checks(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])

    timestamps = validate_records(data, scan_batches(data)[0])

    assert timestamps.max_timestamp == max(record["timestamp"] for record in vector["records"])
    assert timestamps.min_timestamp == min(record["timestamp"] for record in vector["records"])


@every_vector
def test_objects_and_arrow_columns_hold_the_same(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])

    records = decode_records(data, "topic", 3)
    table = decode_arrow(data, "topic", 3, columns=ALL_COLUMNS)

    table.validate(full=True)
    assert [as_json(record) for record in records] == vector["records"]
    rows = table.to_pylist()
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [
        (record.key, record.value, record.offset) for record in records
    ]
    assert [[(header["key"], header["value"]) for header in row["headers"] or ()] for row in rows] == [
        record.headers for record in records
    ]
    assert [round(row["timestamp"].timestamp() * 1000) for row in rows] == [record.timestamp for record in records]


@every_vector
def test_a_flipped_bit_is_a_corrupt_record(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for position in (21, 30, 61, len(data) // 2 + 30, len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 0x10

        with pytest.raises(CorruptRecordError):
            decode_records(damaged, "topic", 0)


@every_vector
def test_a_truncated_batch_at_the_end_is_left_out(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])

    assert list(read_batches(data[:-1])) == []
    assert len(list(read_batches(data + data[: len(data) // 2]))) == 1
