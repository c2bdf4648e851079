"""Values in the changelogs of suppression buffers, of all versions that Kafka wrote.

The header "v" names the version; without it, it is 0. Sources: KIP-328, Kafka's
TimeOrderedKeyValueBufferChangelogDeserializationHelper, and the records that its TimeOrderedKeyValueBufferTest holds.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.buffer_value import BufferValue
from barnabas.streams.serdes.reader import Reader
from barnabas.streams.serdes.record_context import RecordContext

if TYPE_CHECKING:
    from barnabas.streams.serdes.serde import Headers

_LONG = Struct(">q")

#: What Kafka writes since 2.4: record context, prior, old and new value, time.
CURRENT_HEADERS: Headers = [("v", b"\x03")]


def current_form(record: Any, topic: str, prior: bytes | None) -> bytes:
    """Return the value of a changelog's record as the current version writes it; of that version it is not looked at.

    `prior` is the prior value of the same key that is buffered already: versions 0 and 1 do not keep it. A record of
    version 0 has no context; it gets its own place in the changelog `topic`, as in Kafka. Raises `StreamsError` when
    the version is unknown, and when the bytes are not those of the version.
    """
    data: bytes = record.value
    version = next((value for name, value in reversed(record.headers) if name == "v"), b"\x00")
    if version == b"\x03":
        return data
    if version == b"\x02":
        return _of_version_2(data)
    if version == b"\x01":
        return _of_version_1(Reader(data), prior)
    if version == b"\x00":
        return _of_version_0(Reader(data), _place(record, topic), prior)
    raise StreamsError(f"its version is {version!r}, known are 0 to 3")


def _of_version_0(reader: Reader, place: RecordContext, prior: bytes | None) -> bytes:
    """Buffer time, old value, new value: Kafka 2.1."""
    time = reader.long()
    old, new = _change(reader)
    return _written(BufferValue(old if prior is None else prior, old, new, place), time)


def _of_version_1(reader: Reader, prior: bytes | None) -> bytes:
    """Buffer time, record context, both values in one: Kafka 2.2."""
    time = reader.long()
    context = RecordContext.from_bytes(reader)
    old, new = _nested_change(reader)
    _ended(reader)
    return _written(BufferValue(old if prior is None else prior, old, new, context), time)


def _of_version_2(data: bytes) -> bytes:
    """Record context, both values in one, prior value, buffer time: Kafka 2.3.

    Kafka 2.4.0 to 2.5.0 named version 2 and wrote version 3. No bytes are both: read as version 2, those of version 3
    end 4 bytes too late, at least.
    """
    reader = Reader(data)
    try:
        context = RecordContext.from_bytes(reader)
        old, new = _nested_change(reader)
        prior, time = reader.sized(), reader.long()
        _ended(reader)
    except StreamsError:
        reader = Reader(data)
        BufferValue.from_bytes(reader)
        reader.long()
        _ended(reader)
        return data
    return _written(BufferValue(prior, old, new, context), time)


def _nested_change(reader: Reader) -> tuple[bytes | None, bytes | None]:
    both = reader.sized()
    if both is None:
        raise StreamsError("it has no change")
    return _change(Reader(both))


def _change(reader: Reader) -> tuple[bytes | None, bytes | None]:
    old, new = reader.sized(), reader.sized()
    _ended(reader)
    return old, new


def _ended(reader: Reader) -> None:
    if reader.at != len(reader.data):
        raise StreamsError(f"{len(reader.data) - reader.at} bytes are too many")


def _place(record: Any, topic: str) -> RecordContext:
    """Return where a record lies; one that no consumer read has neither offset nor partition."""
    offset, partition = getattr(record, "offset", -1), getattr(record, "partition", -1)
    return RecordContext(record.timestamp, offset, partition, topic, list(record.headers))


def _written(value: BufferValue, time: int) -> bytes:
    return value.to_bytes() + _LONG.pack(time)
