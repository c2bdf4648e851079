from __future__ import annotations

import gc
import json
import pickle
import weakref

import pytest

from barnabas.errors import CorruptRecordError, RecordDeserializationError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records import (
    ConsumerRecord,
    RecordBatchBuilder,
    RecordsDecoder,
    assign_offsets,
    decode_records,
    read_batches,
)
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

ABORT, COMMIT = ControlRecordType


def batch(
    base_offset: int,
    count: int,
    *,
    codec: str = "none",
    producer_id: int = -1,
    transactional: bool = False,
    epoch: int = -1,
) -> bytes:
    builder = RecordBatchBuilder(1 << 20, codec)
    builder.set_producer_state(producer_id, 0, 0, transactional)
    for number in range(base_offset, base_offset + count):
        builder.try_append(1000 + number, b"k%d" % number, b"v%d" % number)
    return builder.close(base_offset, epoch)


def marker(offset: int, kind: int, producer_id: int) -> bytes:
    return build_end_txn_marker(
        EndTxnMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1, base_offset=offset
    )


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


@pytest.mark.shows("S1.38", breaks="barnabas.records.decoder:RecordsDecoder.take")
def test_a_record_has_all_that_a_consumer_may_ask() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(123, b"key", b"value", [("h", b"x"), ("n", None)])

    (record,) = decode_records(builder.close(7, 4), "topic", 3)

    assert (record.topic, record.partition, record.offset) == ("topic", 3, 7)
    assert (record.timestamp, record.timestamp_type, record.leader_epoch) == (123, 0, 4)
    assert (record.key, record.value, record.headers) == (b"key", b"value", [("h", b"x"), ("n", None)])
    assert (record.serialized_key_size, record.serialized_value_size) == (3, 5)


def test_null_has_the_serialized_size_minus_one() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, b"")

    (record,) = decode_records(builder.close(), "t", 0)

    assert (record.serialized_key_size, record.serialized_value_size) == (-1, 0)
    assert (record.key, record.value, record.headers) == (None, b"", [])


def test_takes_some_at_a_time_over_batches_and_resumes() -> None:
    decoder = RecordsDecoder(batch(0, 5) + batch(5, 3, codec="gzip") + batch(20, 2), "t", 0)
    taken, positions = [], []
    while records := decoder.take(3):
        taken.append(offsets(records))
        positions.append(decoder.next_offset)

    assert taken == [[0, 1, 2], [3, 4, 5], [6, 7, 20], [21]]
    assert positions == [3, 6, 21, 22]
    assert decoder.exhausted
    assert decoder.take() == []


def test_starts_at_the_fetch_offset_within_a_batch() -> None:
    data = batch(0, 5) + batch(5, 5, codec="lz4")

    assert offsets(decode_records(data, "t", 0, 7)) == [7, 8, 9]
    assert offsets(decode_records(data, "t", 0, 3, max_records=3)) == [3, 4, 5]
    assert decode_records(data, "t", 0, 10) == []


def test_ignores_an_incomplete_batch_at_the_end() -> None:
    assert offsets(decode_records(batch(0, 2) + batch(2, 2)[:-1], "t", 0)) == [0, 1]
    assert decode_records(b"", "t", 0) == []


def test_the_position_passes_what_compaction_left_out() -> None:
    data = bytearray(batch(0, 2))
    data[23:27] = (9).to_bytes(4, "big")  # the last offset delta outlives the records
    decoder = RecordsDecoder(data, "t", 0, check_crcs=False)

    assert offsets(decoder.take(10)) == [0, 1]
    assert decoder.next_offset == 10


def test_the_position_passes_an_emptied_batch() -> None:
    data = bytearray(batch(0, 1))[:61]
    data[8:12] = (49).to_bytes(4, "big")
    data[23:27] = (4).to_bytes(4, "big")
    data[57:61] = bytes(4)
    decoder = RecordsDecoder(data, "t", 0, check_crcs=False)

    assert decoder.take(10) == []
    assert decoder.next_offset == 5


def test_log_append_time_is_that_of_every_record() -> None:
    data = bytearray(batch(0, 2))
    assign_offsets(data, 0, 0, 0, log_append_time=5555)

    assert [(record.timestamp, record.timestamp_type) for record in decode_records(data, "t", 0)] == [(5555, 1)] * 2


def test_the_largest_timestamp_beside_none_is_read_as_it_was_written() -> None:
    builder = RecordBatchBuilder(1000)
    times = [-1, (1 << 63) - 1]
    for time in times:
        builder.try_append(time, None, None)
    data = builder.close()

    assert [record.timestamp for record in decode_records(data, "t", 0)] == times
    assert [record.timestamp for record in next(read_batches(data))] == times


def test_control_batches_are_passed_over() -> None:
    decoder = RecordsDecoder(
        batch(0, 2, producer_id=9, transactional=True) + marker(2, COMMIT, 9) + batch(3, 1) + marker(4, ABORT, 8),
        "t",
        0,
    )

    assert offsets(decoder.take()) == [0, 1, 3]
    assert decoder.next_offset == 5


def test_read_uncommitted_shows_aborted_records() -> None:
    data = batch(0, 2, producer_id=9, transactional=True) + marker(2, ABORT, 9)

    assert offsets(decode_records(data, "t", 0)) == [0, 1]


def test_read_committed_hides_aborted_transactions_and_nothing_else() -> None:
    data = b"".join(
        [
            batch(0, 1, producer_id=1, transactional=True),  # aborted
            batch(1, 1, producer_id=2, transactional=True),  # committed
            batch(2, 1),  # of no producer
            batch(3, 1, producer_id=1, transactional=True),  # aborted
            batch(4, 1, producer_id=1),  # not transactional
            marker(5, ABORT, 1),
            batch(6, 1, producer_id=1, transactional=True),  # the same producer's next transaction, committed
            marker(7, COMMIT, 2),
            marker(8, COMMIT, 1),
            batch(9, 1, producer_id=1, transactional=True),  # and one more, aborted
            batch(10, 1, producer_id=2, transactional=True),  # open, so below the last stable offset only by mistake
            marker(11, ABORT, 1),
        ]
    )
    decoder = RecordsDecoder(data, "t", 0, aborted_transactions=[(1, 9), (1, 0)])

    assert offsets(decoder.take()) == [1, 2, 4, 6, 10]
    assert decoder.next_offset == 12


def test_read_committed_from_the_middle_of_an_aborted_transaction() -> None:
    data = batch(3, 4, producer_id=1, transactional=True) + marker(7, ABORT, 1) + batch(8, 1)

    assert offsets(decode_records(data, "t", 0, 5, aborted_transactions=[(1, 0)])) == [8]


def test_a_marker_before_the_fetch_offset_still_ends_its_transaction() -> None:
    data = marker(3, ABORT, 1) + batch(4, 2, producer_id=1, transactional=True)

    assert offsets(decode_records(data, "t", 0, 4, aborted_transactions=[(1, 0)])) == [4, 5]


def test_deserializers_get_the_bytes_that_are_not_null() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, b"k", b'{"a": 1}')
    builder.try_append(1, None, None)

    first, second = decode_records(
        builder.close(), "t", 0, key_deserializer=bytes.decode, value_deserializer=json.loads
    )

    assert (first.key, first.value, first.serialized_value_size) == ("k", {"a": 1}, 8)
    assert (second.key, second.value) == (None, None)


def test_records_before_one_that_cannot_be_deserialized_come_first() -> None:
    decoder = RecordsDecoder(batch(0, 5), "orders", 2, value_deserializer=lambda value: 1 // (value != b"v3"))

    assert offsets(decoder.take()) == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match=r"value of orders-2 at offset 3 .*ZeroDivisionError"):
            decoder.take()
    assert decoder.next_offset == 3


def test_records_before_a_corrupt_batch_come_first() -> None:
    damaged = bytearray(batch(0, 2) + batch(2, 2))
    damaged[-1] ^= 1
    decoder = RecordsDecoder(damaged, "orders", 2)

    assert offsets(decoder.take()) == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="orders-2 cannot be read from offset 2 on"):
            decoder.take()
    with pytest.raises(CorruptRecordError):
        decode_records(damaged, "orders", 2)


def test_checksums_are_checked_unless_told_otherwise() -> None:
    damaged = bytearray(batch(0, 1))
    damaged[-2] ^= 1  # in the value

    with pytest.raises(CorruptRecordError):
        decode_records(damaged, "t", 0)
    assert decode_records(damaged, "t", 0, check_crcs=False)[0].value == b"v1"


def test_a_batch_may_not_grow_beyond_the_limit() -> None:
    decoder = RecordsDecoder(batch(0, 1000, codec="zstd"), "t", 0, max_batch_size=1000)

    with pytest.raises(CorruptRecordError, match="more than the 1000 bytes"):
        decoder.take()


def test_keeping_one_record_of_many_does_not_keep_the_fetch_alive() -> None:
    class Fetch(bytearray):
        """A buffer that can be watched."""

    for codec in ("none", "zstd"):
        fetch = Fetch(batch(0, 10_000, codec=codec))
        watch = weakref.ref(fetch)
        records = decode_records(fetch, "t", 0)
        kept = records[5000]

        del fetch, records
        gc.collect()

        assert watch() is None
        assert kept.value == b"v5000"


def test_records_may_be_made_later_as_often_as_wanted() -> None:
    decoder = RecordsDecoder(batch(0, 5) + batch(5, 5, codec="gzip"), "t", 0, 3)

    first, rest = decoder.take_encoded(4), decoder.take_encoded()

    assert (len(first), len(rest), decoder.next_offset) == (4, 3, 10)
    assert [offsets(list(first)), offsets(list(rest)), offsets(list(first))] == [[3, 4, 5, 6], [7, 8, 9], [3, 4, 5, 6]]
    assert list(first) == decode_records(batch(0, 5) + batch(5, 5), "t", 0, 3)[:4]
    first.extend(rest)
    assert offsets(list(first)) == offsets(pickle.loads(pickle.dumps(first))) == [3, 4, 5, 6, 7, 8, 9]


def test_a_record_made_later_does_not_keep_the_fetch_alive() -> None:
    class Fetch(bytearray):
        """A buffer that can be watched."""

    fetch = Fetch(batch(0, 10))
    watch = weakref.ref(fetch)
    record = next(iter(RecordsDecoder(fetch, "t", 0).take_encoded()))

    del fetch
    gc.collect()

    assert watch() is None
    assert record.value == b"v0"


@pytest.mark.parametrize("buffer_type", [bytes, bytearray, memoryview])
def test_decodes_any_buffer(buffer_type: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    assert offsets(decode_records(buffer_type(batch(0, 3)), "t", 0)) == [0, 1, 2]


def test_records_say_what_they_are_compare_and_pickle() -> None:
    record = ConsumerRecord("t", 1, 2, 3, 0, b"key", b"value", [("h", b"x")], 5, 3, 5)

    assert repr(record) == (
        "ConsumerRecord(topic='t', partition=1, offset=2, timestamp=3 (CreateTime), key=b'key', value=b'value', "
        "headers=[('h', b'x')])"
    )
    assert pickle.loads(pickle.dumps(record)) == record
    assert record != ConsumerRecord("t", 1, 2, 3, 0, b"key", b"other", [("h", b"x")], 5, 3, 5)
    assert len({record, pickle.loads(pickle.dumps(record))}) == 1


def test_a_long_value_is_cut_in_the_repr() -> None:
    assert len(repr(ConsumerRecord("t", 0, 0, value=bytes(10_000)))) < 500


def test_header_names_that_are_not_utf8_do_not_stop_the_partition() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, None, [("name", b"v")])
    data = bytearray(builder.close())
    data[data.index(b"name")] = 0xFF

    (record,) = decode_records(data, "t", 0, check_crcs=False)

    assert record.headers == [("\ufffdame", b"v")]
