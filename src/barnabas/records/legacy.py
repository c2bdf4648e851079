"""Reads the message formats before Kafka 0.11, magic 0 and 1, by turning them into records of magic 2.

Format: https://kafka.apache.org/documentation/#messageset. A compressed message wraps a message set; in magic 1 the
offsets inside count from 0, and the wrapper has the offset of the last (KIP-31).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError
from barnabas.records.batch_header import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from barnabas.records.compression import codec_name, decompress

if TYPE_CHECKING:
    from barnabas.records.types import Buffer

_INT32 = struct.Struct(">i")
_KEY_POSITIONS = (18, 26)
_ZSTD_ID = 4


class LegacyMessage:
    """One message, not yet unwrapped."""

    __slots__ = ("key", "offset", "timestamp", "value")

    def __init__(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value


def upgrade(buffer: Buffer, header: BatchHeader, max_size: int) -> tuple[BatchHeader, bytes]:
    """Return the message that `header` describes as a batch: its header with true offsets and times, and its records.

    `max_size` bounds what a compressed message may grow to. Raises `CorruptRecordError`.
    """
    outer = _read_message(buffer, header)
    messages = _unwrap(outer, header, max_size) if header.attributes & COMPRESSION_MASK else [outer]
    if header.timestamp_type == LOG_APPEND_TIME:
        for message in messages:
            message.timestamp = outer.timestamp
    first, last = messages[0], messages[-1]
    payload = b"".join([_encode(message, first) for message in messages])
    upgraded = header._replace(
        base_offset=first.offset,
        last_offset_delta=last.offset - first.offset,
        base_timestamp=first.timestamp,
        max_timestamp=max([message.timestamp for message in messages]),
        record_count=len(messages),
    )
    return upgraded, payload


def _read_message(buffer: Buffer, header: BatchHeader) -> LegacyMessage:
    start = header.position
    end = start + header.size_in_bytes
    key, position = _read_bytes(buffer, start + _KEY_POSITIONS[header.magic], end)
    value, position = _read_bytes(buffer, position, end)
    if position != end:
        raise CorruptRecordError(f"message at offset {header.base_offset} has {end - position} bytes too many")
    return LegacyMessage(header.base_offset, header.base_timestamp, key, value)


def _read_bytes(buffer: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    if position + 4 > end:
        raise CorruptRecordError(f"message ends at byte {end}, before the size of its key or value")
    (size,) = _INT32.unpack_from(buffer, position)
    position += 4
    if size == -1:
        return None, position
    if size < 0 or size > end - position:
        raise CorruptRecordError(f"key or value at byte {position} claims {size} bytes of {end - position}")
    return bytes(buffer[position : position + size]), position + size


def _unwrap(outer: LegacyMessage, header: BatchHeader, max_size: int) -> list[LegacyMessage]:
    if outer.value is None:
        raise CorruptRecordError(f"compressed message at offset {outer.offset} has no value")
    if header.attributes & COMPRESSION_MASK == _ZSTD_ID:
        raise CorruptRecordError(f"message at offset {outer.offset} of magic {header.magic} cannot be zstd-compressed")
    data = decompress(codec_name(header.attributes), outer.value, max_size, magic=header.magic)
    messages = []
    position = 0
    while (inner := read_header(data, position)) is not None:
        if inner.magic != header.magic:
            raise CorruptRecordError(
                f"message of magic {header.magic} at offset {outer.offset} wraps magic {inner.magic}"
            )
        if inner.attributes & COMPRESSION_MASK:
            raise CorruptRecordError(f"compressed message at offset {outer.offset} wraps another compressed one")
        messages.append(_read_message(data, inner))
        position += inner.size_in_bytes
    if not messages or position != len(data):
        raise CorruptRecordError(f"compressed message at offset {outer.offset} wraps no complete message set")
    _make_offsets_absolute(messages, outer.offset, header.magic)
    return messages


def _make_offsets_absolute(messages: list[LegacyMessage], outer_offset: int, magic: int) -> None:
    last = messages[-1].offset
    # Some versions of librdkafka sent wrappers of offset 0 (as Kafka's own reader notes).
    base = outer_offset - last if magic == 1 and outer_offset != 0 else 0
    if base < 0:
        raise CorruptRecordError(f"wrapper of offset {outer_offset} holds messages up to offset {last}")
    previous = -1
    for message in messages:
        message.offset += base
        if message.offset <= previous:
            raise CorruptRecordError(f"compressed message at offset {outer_offset} holds offsets out of order")
        previous = message.offset


def _encode(message: LegacyMessage, first: LegacyMessage) -> bytes:
    timestamp_delta = message.timestamp - first.timestamp if message.timestamp != NO_TIMESTAMP else 0
    body = b"".join(
        (
            b"\x00",
            _number(timestamp_delta),
            _number(message.offset - first.offset),
            _optional(message.key),
            _optional(message.value),
            b"\x00",
        )
    )
    return _number(len(body)) + body


def _optional(data: bytes | None) -> bytes:
    return _number(-1) if data is None else _number(len(data)) + data


def _number(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append((rest & 0x7F) | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
