from __future__ import annotations

import struct

import pytest

from barnabas.errors import CorruptRecordError, InvalidRecordError
from barnabas.records import (
    RecordBatchBuilder,
    assign_offsets,
    check_crc,
    compress,
    crc32c,
    read_batches,
    scan_batches,
    validate_records,
)


def batch(count: int = 3, base_offset: int = 0, codec: str = "none") -> bytes:
    builder = RecordBatchBuilder(1 << 20, codec)
    for number in range(count):
        builder.try_append(1000 + number, b"key", b"value %d" % number)
    return builder.close(base_offset)


def with_crc(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def patched(data: bytes, form: str, position: int, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, *values)
    return with_crc(changed)


def of_records(*records: bytes) -> bytes:
    """A batch of the given raw records."""
    payload = b"".join(records)
    header = struct.pack(">hiqqqhii", 0, len(records) - 1, 0, 0, -1, -1, -1, len(records))
    crc = crc32c(payload, crc32c(header))
    return struct.pack(">qiibI", 0, 49 + len(payload), -1, 2, crc) + header + payload


def test_scans_the_headers_of_all_complete_batches() -> None:
    first, second = batch(3, 10), batch(2, 13, "zstd")

    headers = scan_batches(first + second + first[:40])

    assert [header.position for header in headers] == [0, len(first)]
    assert [header.size_in_bytes for header in headers] == [len(first), len(second)]
    assert [(header.base_offset, header.last_offset, header.next_offset) for header in headers] == [
        (10, 12, 13),
        (13, 14, 15),
    ]
    assert [(header.record_count, header.compression, header.magic) for header in headers] == [
        (3, "none", 2),
        (2, "zstd", 2),
    ]
    assert [(header.base_timestamp, header.max_timestamp) for header in headers] == [(1000, 1002), (1000, 1001)]
    assert headers[0].partition_leader_epoch == headers[0].producer_id == headers[0].last_sequence == -1
    assert not headers[0].has_producer_id


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_scans_any_buffer(buffer_type: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert len(scan_batches(buffer_type(batch() * 2))) == 2


@pytest.mark.parametrize(
    ("form", "position", "value", "message"),
    [
        (">i", 8, -1, "impossible length of -1"),
        (">i", 8, 4, "impossible length of 4"),
        (">i", 8, 48, "too short: 48 bytes"),
        (">b", 16, 3, "unknown magic 3"),
        (">b", 16, -1, "unknown magic 255"),
        (">i", 23, -1, "impossible counts"),
        (">i", 57, -1, "impossible counts"),
        (">q", 0, -1, "impossible counts"),
    ],
)
def test_an_impossible_header_is_corrupt(form: str, position: int, value: int, message: str) -> None:
    with pytest.raises(CorruptRecordError, match=message):
        scan_batches(patched(batch(), form, position, value))


def test_a_length_beyond_the_data_is_an_incomplete_batch() -> None:
    assert scan_batches(patched(batch(), ">i", 8, 0x7FFFFFFF)) == []


def test_the_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    (plain,) = read_batches(batch())
    (cleaned,) = read_batches(patched(batch(), ">h", 21, 0x40))

    assert plain.delete_horizon_ms is None
    assert cleaned.delete_horizon_ms == 1000
    assert [record.timestamp for record in cleaned] == [1000, 1001, 1002]


def test_an_undefined_codec_is_corrupt_when_records_are_read() -> None:
    (broken,) = read_batches(patched(batch(), ">h", 21, 5))

    assert broken.compression == "unknown"
    with pytest.raises(CorruptRecordError, match="codec 5"):
        list(broken)


def test_assigning_offsets_needs_no_new_checksum() -> None:
    data = bytearray(batch() + batch())
    second = len(data) // 2

    assign_offsets(data, second, 2**40, 7)

    first_batch, second_batch = read_batches(data)
    second_batch.check()
    assert (first_batch.base_offset, first_batch.partition_leader_epoch) == (0, -1)
    assert (second_batch.base_offset, second_batch.partition_leader_epoch) == (2**40, 7)
    assert [record.offset for record in second_batch] == [2**40, 2**40 + 1, 2**40 + 2]
    assert [record.timestamp for record in second_batch] == [1000, 1001, 1002]
    assert scan_batches(data)[1].crc == scan_batches(batch())[0].crc


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = bytearray(b"before" + batch() + b"behind")

    assign_offsets(memoryview(data), 6, 5, 0, log_append_time=77_777)

    (stamped,) = read_batches(memoryview(data)[6:-6])
    stamped.check()
    assert (stamped.timestamp_type, stamped.max_timestamp, stamped.base_timestamp) == (1, 77_777, 1000)
    assert {record.timestamp for record in stamped} == {77_777}
    assert (data[:6], data[-6:]) == (b"before", b"behind")


def test_a_wrong_checksum_names_the_batch() -> None:
    data = bytearray(batch(base_offset=42))
    data[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="offset 42 is damaged"):
        check_crc(data, scan_batches(data)[0])


def test_validation_gives_the_timestamps_of_the_records() -> None:
    builder = RecordBatchBuilder(1000, "gzip")
    for time in (5, 9, 2, 9):
        builder.try_append(time, None, None)
    data = builder.close()

    assert validate_records(data, scan_batches(data)[0]) == (2, 9, 1)


def test_validation_of_log_append_time_knows_one_time() -> None:
    data = bytearray(batch())
    assign_offsets(data, 0, 0, 0, 999)

    assert validate_records(data, scan_batches(data)[0]) == (999, 999, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (patched(batch(), ">i", 57, 2), "a batch of 2 records has a last offset delta of 2"),
        (patched(batch(), ">i", 23, 5), "a batch of 3 records has a last offset delta of 5"),
        (patched(batch(), ">ii", 57, 0, 0), "a batch of 0 records"),
        (of_records(b"\x0c\x00\x00\x00\x01\x01\x00", b"\x0c\x00\x00\x00\x01\x01\x00"), "record 1 .*not well-formed"),
        (of_records(b"\x0c\x00\x00\x02\x01\x01\x00"), "not well-formed"),
    ],
    ids=["count", "last-delta", "empty", "same-delta", "delta-past-the-end"],
)
def test_validation_refuses_batches_with_other_offsets(data: bytes, message: str) -> None:
    with pytest.raises((InvalidRecordError, CorruptRecordError), match=message):
        validate_records(data, scan_batches(data)[0])


def test_validation_refuses_gaps_in_the_offset_deltas() -> None:
    gap = patched(of_records(b"\x0c\x00\x00\x00\x01\x01\x00", b"\x0c\x00\x00\x04\x01\x01\x00"), ">i", 23, 2)

    with pytest.raises(InvalidRecordError):
        validate_records(gap, scan_batches(gap)[0])
    (read,) = read_batches(gap)
    assert [record.offset for record in read] == [0, 2]  # as compaction leaves it


@pytest.mark.parametrize(
    "record",
    [
        b"\x0c\x00\x00\x00\x01\x01",  # ends early
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # a byte too many in the record
        b"\x0c\x00\x00\x00\x03\x01\x00",  # a key size of -2
        b"\x0c\x00\x00\x00\x10\x01\x00",  # a key longer than the record
        b"\x0c\x00\x00\x00\x01\x03\x00",  # a value size of -2
        b"\x0c\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x0c\x00\x00\x00\x01\x01\x02",  # a header that is not there
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x00",  # a header without a name
        b"\x0a\x00\x00\x00\x01\x01\x00",  # a size below the least
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00",  # a number of more than 64 bits
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03\x00\x00",  # the same in ten bytes
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # a byte behind the last record
    ],
)
def test_a_malformed_record_is_corrupt(record: bytes) -> None:
    data = of_records(record)

    with pytest.raises(CorruptRecordError):
        validate_records(data, scan_batches(data)[0])
    with pytest.raises(CorruptRecordError):
        list(next(read_batches(data)))


def test_a_missing_key_is_refused_where_the_topic_is_compacted() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, b"", b"")
    builder.try_append(1, None, b"v")
    data = builder.close()

    validate_records(data, scan_batches(data)[0])
    with pytest.raises(InvalidRecordError, match="record 1 of the batch has no key"):
        validate_records(data, scan_batches(data)[0], need_keys=True)


def test_validation_bounds_decompression() -> None:
    data = batch(1000, codec="gzip")

    validate_records(data, scan_batches(data)[0])
    with pytest.raises(CorruptRecordError, match="more than the 100 bytes"):
        validate_records(data, scan_batches(data)[0], max_size=100)


def test_a_claim_of_many_records_allocates_nothing() -> None:
    data = patched(batch(), ">i", 57, 0x7FFFFFFF)

    with pytest.raises(CorruptRecordError, match="claims 2147483647 records"):
        list(next(read_batches(data)))


def test_old_messages_are_not_taken_from_producers() -> None:
    body = b"\x01\x00" + struct.pack(">qii", 5, -1, -1)
    old = struct.pack(">qiI", 0, len(body) + 4, 0) + body

    with pytest.raises(CorruptRecordError, match="magic 1"):
        validate_records(old, scan_batches(old)[0])


def test_compressed_bytes_of_something_else_are_corrupt() -> None:
    payload = compress("zstd", b"these are no records")
    header = struct.pack(">hiqqqhii", 4, 0, 0, 0, -1, -1, -1, 1)
    crc = crc32c(payload, crc32c(header))
    data = struct.pack(">qiibI", 0, 49 + len(payload), -1, 2, crc) + header + payload

    with pytest.raises(CorruptRecordError):
        validate_records(data, scan_batches(data)[0])
