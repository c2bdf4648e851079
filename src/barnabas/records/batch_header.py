"""The header of a record batch, and what the broker does on raw bytes without decoding records.

Format: https://kafka.apache.org/documentation/#recordbatch. Base offset, length, leader epoch, magic and checksum lie
before what the checksum covers, so a broker may assign offsets and the epoch without computing it anew.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError
from barnabas.protocol.producer_identity import (
    MAX_PRODUCER_EPOCH,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    increment_sequence,
)
from barnabas.records.checksum import crc32c
from barnabas.records.compression import CODECS

if TYPE_CHECKING:
    from barnabas.records.types import Buffer

# Where each field of a batch of magic 2 begins. Nothing else in the package has these numbers: compiled modules take
# them over into C variables (`cython.declare`) when they are imported.
BASE_OFFSET_AT, LENGTH_AT, LEADER_EPOCH_AT, MAGIC_AT, CHECKSUM_AT = 0, 8, 12, 16, 17
ATTRIBUTES_AT, LAST_OFFSET_DELTA_AT, BASE_TIMESTAMP_AT, MAX_TIMESTAMP_AT = 21, 23, 27, 35
PRODUCER_ID_AT, PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT, RECORD_COUNT_AT = 43, 51, 53, 57

HEADER_SIZE = 61
"""Bytes of a batch of magic 2 before its first record."""
LOG_OVERHEAD = LEADER_EPOCH_AT
"""Bytes of base offset and length, which the length does not count; the same in every magic."""
CHECKSUM_START = ATTRIBUTES_AT
"""Where the bytes begin that the checksum covers: the attributes."""
SIZE_PREFIX = MAGIC_AT + 1
"""Bytes that say how a batch or message of any magic is to be read on."""
LAST_OFFSET_PREFIX = BASE_TIMESTAMP_AT
"""Bytes of a batch of magic 2 up to and including its last offset delta."""
MAX_RECORD_OVERHEAD = 21
"""The most that a record takes beside key, value and headers: length (5), attributes (1), timestamp delta (10) and
offset delta (5)."""

CURRENT_MAGIC = 2
CREATE_TIME = 0
LOG_APPEND_TIME = 1
NO_TIMESTAMP_TYPE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

LEGACY_HEADER_SIZES = (14, 22)
"""Bytes of a message of magic 0 and 1 up to the length of its key."""
_LEGACY_CHECKSUM_AT, _LEGACY_ATTRIBUTES_AT, _LEGACY_TIMESTAMP_AT = 12, 17, 18

HEADER = struct.Struct(">qiibIhiqqqhii")
"""All fields of the header, in the order of `BatchHeader` (the length in place of the size)."""
BEFORE_CHECKSUM = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic and checksum."""
CHECKED_FIELDS = struct.Struct(">hiqqqhii")
"""The rest of the header, which the checksum covers: from the attributes to the number of records."""
OFFSET_AND_LENGTH = struct.Struct(">qi")
OFFSET_LENGTH_AND_EPOCH = struct.Struct(">qii")
_LEADER_EPOCH = struct.Struct(">i")
_TIMESTAMP = struct.Struct(">q")
_CHECKSUM = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER_STATE = struct.Struct(">qhi")
_SMALLEST_LENGTH = SIZE_PREFIX - LOG_OVERHEAD


class BatchHeader(NamedTuple):
    """The header of one batch that begins at `position` of a buffer and takes `size_in_bytes`.

    For a message of magic 0 or 1, which has no such header, `base_offset` is the offset written in it: for a compressed
    one that of the last record inside.
    """

    position: int
    size_in_bytes: int
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 without a producer; it wraps after 2**31 - 1."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> str:
        """The name of the codec, `"unknown"` for an id that Kafka does not define."""
        codec = self.attributes & COMPRESSION_MASK
        return CODECS[codec] if codec < len(CODECS) else "unknown"

    @property
    def timestamp_type(self) -> int:
        """0 for CreateTime, 1 for LogAppendTime, -1 for messages of magic 0, which have no timestamp."""
        if self.magic == 0:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record (a transaction marker) instead of data."""
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones and markers of the batch (KIP-534); None where that is not set."""
        has_horizon = self.magic == 2 and self.attributes & DELETE_HORIZON_BIT
        return self.base_timestamp if has_horizon else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader | None:
    """Return the header of the batch at `position`, or None where the buffer ends within the batch.

    Checks everything but the checksum and the records. Raises `CorruptRecordError`.
    """
    available = len(buffer) - position
    if available < LOG_OVERHEAD:
        return None
    base_offset, length = OFFSET_AND_LENGTH.unpack_from(buffer, position)
    if length < _SMALLEST_LENGTH:
        raise CorruptRecordError(f"batch at byte {position} has an impossible length of {length}")
    if available < LOG_OVERHEAD + _SMALLEST_LENGTH:
        return None
    magic = buffer[position + MAGIC_AT]
    if magic > CURRENT_MAGIC:
        raise CorruptRecordError(f"batch at byte {position}, offset {base_offset} has the unknown magic {magic}")
    if magic < CURRENT_MAGIC:
        return _read_legacy_header(buffer, position, base_offset, length, magic)
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptRecordError(f"batch at byte {position}, offset {base_offset} is too short: {length} bytes")
    if available < LOG_OVERHEAD + length:
        return None
    fields = HEADER.unpack_from(buffer, position)
    # As BatchHeader(...), which would first sort arguments out, once for every batch that is read.
    header: BatchHeader = tuple.__new__(BatchHeader, (position, LOG_OVERHEAD + length, base_offset, *fields[2:]))
    if header.last_offset_delta < 0 or header.record_count < 0 or base_offset < 0:
        raise CorruptRecordError(
            f"batch at byte {position} has impossible counts: base offset {base_offset}, last offset delta "
            f"{header.last_offset_delta}, {header.record_count} records"
        )
    return header


def _read_legacy_header(buffer: Buffer, position: int, base_offset: int, length: int, magic: int) -> BatchHeader | None:
    if length < LEGACY_HEADER_SIZES[magic]:
        raise CorruptRecordError(f"message at byte {position}, offset {base_offset} is too short: {length} bytes")
    if len(buffer) - position < LOG_OVERHEAD + length:
        return None
    if base_offset < 0:
        raise CorruptRecordError(f"message at byte {position} has the impossible offset {base_offset}")
    (crc,) = _CHECKSUM.unpack_from(buffer, position + _LEGACY_CHECKSUM_AT)
    timestamp = _TIMESTAMP.unpack_from(buffer, position + _LEGACY_TIMESTAMP_AT)[0] if magic == 1 else NO_TIMESTAMP
    return BatchHeader(
        position, LOG_OVERHEAD + length, base_offset, NO_LEADER_EPOCH, magic, crc,
        buffer[position + _LEGACY_ATTRIBUTES_AT], 0,
        timestamp, timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1,
    )  # fmt: skip


def scan_batches(buffer: Buffer) -> list[BatchHeader]:
    """Return the headers of all complete batches in `buffer`; an incomplete one at the end is left out.

    Checks neither checksums nor records. Raises `CorruptRecordError` for a header that cannot be right.
    """
    headers = []
    position = 0
    while (header := read_header(buffer, position)) is not None:
        headers.append(header)
        position += header.size_in_bytes
    return headers


def check_crc(buffer: Buffer, header: BatchHeader) -> None:
    """Compute the checksum of a batch and raise `CorruptRecordError` if it is not the one in the header."""
    end = header.position + header.size_in_bytes
    if header.magic == 2:
        computed = crc32c(memoryview(buffer)[header.position + CHECKSUM_START : end])
    else:
        from zlib import crc32

        computed = crc32(memoryview(buffer)[header.position + _LEGACY_CHECKSUM_AT + _CHECKSUM.size : end])
    if computed != header.crc:
        raise CorruptRecordError(
            f"batch at offset {header.base_offset} is damaged: its checksum says {header.crc:#010x}, "
            f"its bytes give {computed:#010x}"
        )


def assign_offsets(
    buffer: bytearray | memoryview,
    position: int,
    base_offset: int,
    leader_epoch: int,
    log_append_time: int | None = None,
) -> None:
    """Write base offset and leader epoch into the batch of magic 2 at `position`, in place.

    `log_append_time` (epoch ms) also makes the batch one of LogAppendTime, with this as its largest timestamp, and
    computes the checksum anew.
    """
    assert base_offset >= 0
    assert leader_epoch >= NO_LEADER_EPOCH
    _TIMESTAMP.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)
    if log_append_time is None:
        return
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_AT, attributes | TIMESTAMP_TYPE_BIT)
    set_max_timestamp(buffer, position, log_append_time)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Write a largest timestamp (epoch ms) into the batch of magic 2 at `position`, and its new checksum, in place."""
    _TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp)
    _update_crc(buffer, position)


def set_producer_state(
    buffer: bytearray | memoryview, position: int, producer_id: int, epoch: int, base_sequence: int
) -> None:
    """Write another producer id, epoch and sequence into the batch of magic 2 at `position`, in place.

    The idempotent producer does so when it gets a new epoch while batches wait. Computes the checksum anew.
    """
    assert NO_SEQUENCE <= base_sequence <= MAX_SEQUENCE
    assert NO_PRODUCER_EPOCH <= epoch <= MAX_PRODUCER_EPOCH
    _PRODUCER_STATE.pack_into(buffer, position + PRODUCER_ID_AT, producer_id, epoch, base_sequence)
    _update_crc(buffer, position)


def _update_crc(buffer: bytearray | memoryview, position: int) -> None:
    size = LOG_OVERHEAD + OFFSET_AND_LENGTH.unpack_from(buffer, position)[1]
    with memoryview(buffer) as view, view[position + CHECKSUM_START : position + size] as covered:
        crc = crc32c(covered)
    _CHECKSUM.pack_into(buffer, position + CHECKSUM_AT, crc)
