from __future__ import annotations

import pytest

from barnabas.errors import CorruptRecordError, IllegalArgumentError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records import read_batches, scan_batches, validate_records
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker, parse_control_type, parse_end_txn_marker

ABORT, COMMIT = ControlRecordType


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_is_a_control_batch_of_its_producer(kind: int) -> None:
    data = build_end_txn_marker(
        EndTxnMarker(kind, 12),
        producer_id=77,
        producer_epoch=3,
        timestamp_ms=1000,
        base_offset=5,
        partition_leader_epoch=1,
    )

    (batch,) = read_batches(data)
    (record,) = batch
    batch.check()
    validate_records(data, scan_batches(data)[0])
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, -1)
    assert (record.offset, record.timestamp, batch.partition_leader_epoch) == (5, 1000, 1)
    assert parse_end_txn_marker(record.key, record.value) == EndTxnMarker(kind, 12)


def test_the_bytes_are_those_of_kafka() -> None:
    (record,) = next(
        read_batches(
            build_end_txn_marker(EndTxnMarker(COMMIT, 0x01020304), producer_id=1, producer_epoch=0, timestamp_ms=0)
        )
    )

    assert record.key == bytes.fromhex("00000001")  # version 0, type 1
    assert record.value == bytes.fromhex("000001020304")  # version 0, the coordinator's epoch


def test_later_versions_are_read_as_far_as_they_are_known() -> None:
    assert parse_end_txn_marker(bytes.fromhex("00050000ff"), bytes.fromhex("000900000001ff")) == EndTxnMarker(ABORT, 1)


def test_a_marker_says_what_it_is() -> None:
    assert repr(EndTxnMarker(ABORT, 3)) == "EndTxnMarker(ABORT, coordinator_epoch=3)"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, bytes(6)),
        (b"\x00\x00\x00", bytes(6)),
        (b"\xff\xff\x00\x00", bytes(6)),  # version -1
        (b"\x00\x00\x00\x02", bytes(6)),  # a leader change
        (bytes(4), None),
        (bytes(4), bytes(5)),
        (bytes(4), b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_what_is_no_marker_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        parse_end_txn_marker(key, value)


def test_other_control_types_can_be_told_apart() -> None:
    assert parse_control_type(b"\x00\x00\x00\x02") == 2


def test_only_commit_and_abort_end_a_transaction() -> None:
    with pytest.raises(IllegalArgumentError, match="type 2"):
        build_end_txn_marker(EndTxnMarker(2, 0), producer_id=1, producer_epoch=0, timestamp_ms=0)
