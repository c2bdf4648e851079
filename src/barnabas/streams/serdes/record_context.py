"""Where and when a record came from, as the engine passes it along and as buffers keep it."""

from __future__ import annotations

from struct import Struct, error

from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.serde import Headers

_LONG = Struct(">q")
_INT = Struct(">i")


class RecordContext:
    """Timestamp in milliseconds, offset, partition, topic and headers of the record that is being processed.

    `raw_key` and `raw_value` are the bytes that were read, for a dead-letter queue; None when they are gone.
    """

    __slots__ = ("headers", "offset", "partition", "raw_key", "raw_value", "timestamp", "topic")

    def __init__(
        self,
        timestamp: int,
        offset: int,
        partition: int,
        topic: str | None,
        headers: Headers,
        raw_key: bytes | None = None,
        raw_value: bytes | None = None,
    ) -> None:
        self.timestamp = timestamp
        self.offset = offset
        self.partition = partition
        self.topic = topic
        self.headers = headers
        self.raw_key = raw_key
        self.raw_value = raw_value

    def memory_size(self) -> int:
        """Return Kafka's estimate of the bytes that it takes, by which suppress measures its buffer."""
        size = 20 + len((self.topic or "").encode("utf-16-le")) // 2
        for name, value in self.headers:
            size += len(name.encode("utf-16-le")) // 2 + len(value or b"")
        return size

    def to_bytes(self) -> bytes:
        """Write it as changelogs of buffers hold it. Raises `StreamsError` without a topic, as in a punctuation."""
        if self.topic is None:
            raise StreamsError("A record without a topic, from a punctuation, cannot be kept in a buffer")
        topic = self.topic.encode()
        parts = [_LONG.pack(self.timestamp), _LONG.pack(self.offset), _INT.pack(len(topic)), topic]
        parts += [_INT.pack(self.partition), _INT.pack(len(self.headers))]
        for name, value in self.headers:
            parts.append(sized(name.encode()))
            parts.append(sized(value))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, reader: Reader) -> RecordContext:
        """Read it. Raises `StreamsError` when bytes are missing."""
        timestamp, offset = reader.long(), reader.long()
        topic = (reader.sized() or b"").decode()
        partition = reader.int()
        headers = [((reader.sized() or b"").decode(), reader.sized()) for _ in range(max(reader.int(), 0))]
        return cls(timestamp, offset, partition, topic, headers)


def sized(data: bytes | None) -> bytes:
    """Return bytes after their length in 4 bytes; None is -1."""
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


class Reader:
    """Reads numbers and sized bytes one after the other. Raises `StreamsError` when bytes are missing."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def long(self) -> int:
        """Read 8 bytes."""
        return self._read(_LONG)

    def int(self) -> int:
        """Read 4 bytes."""
        return self._read(_INT)

    def _read(self, form: Struct) -> int:  # type: ignore[valid-type]  # the method above hides the type
        try:
            number: int = form.unpack_from(self.data, self.at)[0]
        except error as problem:
            raise StreamsError(f"Bytes are missing at position {self.at} of {len(self.data)}") from problem
        self.at += form.size
        return number

    def sized(self) -> bytes | None:
        """Read bytes after their length; None for -1."""
        return self.exactly(self.int())

    def exactly(self, length: int) -> bytes | None:  # type: ignore[valid-type]
        """Read so many bytes; None for a negative length."""
        if length < 0:
            return None
        found = self.data[self.at : self.at + length]
        if len(found) != length:
            raise StreamsError(f"Bytes are missing at position {self.at} of {len(self.data)}")
        self.at += length
        return found
