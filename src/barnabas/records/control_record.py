"""Control records: the markers that end a transaction in a partition.

Formats: ControlRecordType and EndTxnMarker of Kafka's message schemas. The key is a version and a type, the value of a
marker a version and the epoch of the transaction coordinator.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from barnabas.errors import CorruptRecordError, IllegalArgumentError
from barnabas.protocol.kinds import ControlRecordType
from barnabas.records.builder import RecordBatchBuilder

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_MARKER_BATCH_SIZE = 128
TRANSACTION_ENDS = (ControlRecordType.ABORT, ControlRecordType.COMMIT)


class EndTxnMarker(NamedTuple):
    """How a transaction ended: `control_type` is a `ControlRecordType`."""

    control_type: int
    coordinator_epoch: int

    def __repr__(self) -> str:
        return f"EndTxnMarker({ControlRecordType(self.control_type).name}, coordinator_epoch={self.coordinator_epoch})"


def parse_control_type(key: bytes | None) -> int:
    """Return the type that the key of a control record names.

    Types other than `ABORT` and `COMMIT` are for others to read.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError("the key of a control record has fewer than 4 bytes")
    version, control_type = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"the key of a control record has the version {version}")
    return int(control_type)


def parse_end_txn_marker(key: bytes | None, value: bytes | None) -> EndTxnMarker:
    """Read a transaction marker from the key and value of its record. Raises `CorruptRecordError`."""
    control_type = parse_control_type(key)
    if control_type not in TRANSACTION_ENDS:
        raise CorruptRecordError(f"a control record of type {control_type} does not end a transaction")
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecordError("the value of a transaction marker has fewer than 6 bytes")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"the value of a transaction marker has the version {version}")
    return EndTxnMarker(control_type, coordinator_epoch)


def build_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Return the control batch that ends a transaction of `producer_id` in a partition."""
    if marker.control_type not in TRANSACTION_ENDS:
        raise IllegalArgumentError(f"control type {marker.control_type} does not end a transaction")
    builder = RecordBatchBuilder(_MARKER_BATCH_SIZE)
    builder.set_producer_state(producer_id, producer_epoch, -1, transactional=True, control=True)
    builder.try_append(timestamp_ms, _KEY.pack(0, marker.control_type), _VALUE.pack(0, marker.coordinator_epoch))
    return builder.close(base_offset, partition_leader_epoch)
