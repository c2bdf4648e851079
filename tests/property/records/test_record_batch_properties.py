from __future__ import annotations

import gzip
import json
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.errors import CorruptRecordError, InvalidRecordError
from barnabas.records import (
    RecordBatchBuilder,
    RecordsDecoder,
    assign_offsets,
    crc32c,
    decode_arrow,
    decode_records,
    read_batches,
    scan_batches,
    validate_records,
)
from barnabas.records.arrow import ALL_COLUMNS

DATA = Path(__file__).parents[2] / "vectors" / "data" / "record-batch-vectors.jsonl.gz"
BATCHES = [
    bytes.fromhex(vector["hex"])
    for vector in map(json.loads, gzip.decompress(DATA.read_bytes()).splitlines())
    if len(vector["hex"]) < 4000
]

maybe_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=4)
records = st.tuples(st.integers(-1, 2**63 - 1), maybe_bytes, maybe_bytes, headers)
codecs = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
batches = st.sampled_from(BATCHES)


#: Timestamps so far apart that their difference does not fit 64 bits: it wraps around, as in Java.
FAR_APART = [(-1, None, None, []), (2**63 - 1, None, None, []), (5, None, None, [])]


@example(FAR_APART, "none", 0)
@example(FAR_APART[::-1], "zstd", 0)
@given(st.lists(records, min_size=1, max_size=50), codecs, st.integers(0, 2**62))
def test_what_is_appended_is_read(written: list[tuple], codec: str, base_offset: int) -> None:
    builder = RecordBatchBuilder(1 << 20, codec)
    for record in written:
        builder.try_append(*record)
    size = builder.estimated_size
    data = builder.close(base_offset)

    (batch,) = read_batches(data)
    batch.check()
    table = decode_arrow(data, "t", 0, columns=ALL_COLUMNS)

    assert [tuple(record)[1:] for record in batch] == written
    assert [(r.timestamp, r.key, r.value, r.headers) for r in decode_records(data, "t", 0)] == written
    assert [record.offset for record in batch] == list(range(base_offset, base_offset + len(written)))
    assert codec != "none" or size == len(data)
    table.validate(full=True)
    assert list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)) == [r[1:3] for r in written]
    assert [[(h["key"], h["value"]) for h in row or ()] for row in table["headers"].to_pylist()] == [
        r[3] for r in written
    ]
    assert validate_records(data, scan_batches(data)[0])[:2] == (
        min(record[0] for record in written),
        max(record[0] for record in written),
    )


def taken(decoder: RecordsDecoder, method: str, chunk: int) -> tuple[list[object], list[int], str]:
    """All that a decoder gives, the position after each call, and the error at the end."""
    found: list[object] = []
    positions = []
    try:
        while some := list(getattr(decoder, method)(chunk)):
            found += some
            positions.append(decoder.next_offset)
    except CorruptRecordError as error:
        return found, [*positions, decoder.next_offset], str(error)
    return found, [*positions, decoder.next_offset, decoder.leader_epoch], ""


@given(st.lists(batches, min_size=1, max_size=4), st.integers(0, 40), st.integers(1, 30), st.none() | st.integers(0))
def test_records_made_later_are_those_made_at_once(
    parts: list[bytes], fetch_offset: int, chunk: int, damage: int | None
) -> None:
    data = bytearray(b"".join(parts))
    if damage is not None:
        data[damage // 8 % len(data)] ^= 1 << damage % 8
    at_once, later = (
        taken(RecordsDecoder(data, "t", 0, fetch_offset, check_crcs=False), method, chunk)
        for method in ("take", "take_encoded")
    )

    assert later == at_once


@given(st.lists(records, min_size=1, max_size=40), st.integers(61, 4000))
def test_a_full_builder_stays_within_its_capacity(written: list[tuple], capacity: int) -> None:
    builder = RecordBatchBuilder(capacity)
    accepted = [record for record in written if builder.try_append(*record) >= 0]

    data = builder.close()

    assert accepted[0] == written[0]
    assert len(data) <= capacity or len(accepted) == 1
    assert [tuple(record)[1:] for record in next(read_batches(data))] == accepted


@given(st.lists(records, min_size=1, max_size=30), st.data())
def test_any_range_of_offsets_gives_the_same_rows_as_the_whole(written: list[tuple], data: st.DataObject) -> None:
    parts, offset = [], 0
    while offset < len(written):
        builder = RecordBatchBuilder(1 << 20, data.draw(codecs))
        count = data.draw(st.integers(1, len(written) - offset))
        for record in written[offset : offset + count]:
            builder.try_append(*record)
        parts.append(builder.close(offset))
        offset += count
    fetched = b"".join(parts)
    start = data.draw(st.integers(0, len(written)))
    end = data.draw(st.integers(start, len(written)))

    table = decode_arrow(fetched, "t", 0, start, end_offset=end)

    assert table["offset"].to_pylist() == list(range(start, end))
    assert table["value"].to_pylist() == [record[2] for record in written[start:end]]
    assert [record.offset for record in decode_records(fetched, "t", 0, start, max_records=end - start)] == list(
        range(start, end)
    )


def consume(data: bytes, check_crcs: bool) -> None:
    """Everything that may be done to bytes from elsewhere."""
    for use in (
        lambda: decode_records(data, "t", 0, check_crcs=check_crcs, aborted_transactions=[(0, 0)]),
        lambda: decode_arrow(data, "t", 0, columns=ALL_COLUMNS, check_crcs=check_crcs),
        lambda: [list(batch) for batch in read_batches(data)],
        lambda: [validate_records(data, header) for header in scan_batches(data)],
    ):
        try:
            use()
        except (CorruptRecordError, InvalidRecordError):
            pass


@given(batches, st.data())
def test_a_flipped_bit_is_found(batch: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(batch) - 1))
    damaged = bytearray(batch)
    damaged[position] ^= 1 << data.draw(st.integers(0, 7))

    if position >= 21 or position == 16 or 17 <= position < 21:
        with pytest.raises(CorruptRecordError):
            decode_records(damaged, "t", 0)
    consume(bytes(damaged), check_crcs=True)


@given(batches, st.data())
def test_damage_behind_a_right_checksum_gives_no_other_error(batch: bytes, data: st.DataObject) -> None:
    damaged = bytearray(batch)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    struct.pack_into(">I", damaged, 17, crc32c(memoryview(damaged)[21:]))

    consume(bytes(damaged), check_crcs=True)


@given(batches, st.data())
def test_any_truncation_is_corrupt_or_left_out(batch: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(batch) - 1))

    assert decode_records(batch[:size], "t", 0) == []
    assert len(scan_batches(batch + batch[:size])) == 1
    cut = bytearray(batch[: max(size, 61)])  # a shorter batch that claims to be whole
    struct.pack_into(">i", cut, 8, len(cut) - 12)
    consume(bytes(cut), check_crcs=False)


@given(st.binary(max_size=200), st.integers(0, 2), st.data())
def test_random_bytes_are_no_records(noise: bytes, magic: int, data: st.DataObject) -> None:
    length = data.draw(st.sampled_from([len(noise), max(0, len(noise) - 12), 0x7FFFFFFF, -1]))
    framed = bytearray(struct.pack(">qiibI", 0, length, 0, magic, 0) + noise)

    consume(bytes(noise), check_crcs=False)
    consume(bytes(framed), check_crcs=False)


@settings(max_examples=30)
@given(batches, st.sampled_from([23, 57, 8]), st.integers(-(2**31), 2**31 - 1))
def test_no_claim_in_a_header_allocates_much(batch: bytes, position: int, claim: int) -> None:
    damaged = bytearray(batch)
    struct.pack_into(">i", damaged, position, claim)
    tracemalloc.start()
    try:
        consume(bytes(damaged), check_crcs=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 4 << 20


@given(batches, st.integers(0, 2**62), st.integers(-1, 2**31 - 1), st.none() | st.integers(0, 2**62))
def test_assigned_offsets_are_read_back_under_a_right_checksum(
    batch: bytes, base_offset: int, epoch: int, time: int | None
) -> None:
    data = bytearray(batch)
    (before,) = read_batches(batch)

    assign_offsets(data, 0, base_offset, epoch, time)

    (after,) = read_batches(data)
    after.check()
    assert (after.base_offset, after.partition_leader_epoch) == (base_offset, epoch)
    assert [record.key for record in after] == [record.key for record in before]
    if time is not None:
        assert {record.timestamp for record in after} == {time}
