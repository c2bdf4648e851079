# cython: language_level=3, annotation_typing=False
"""Where and when a record came from, as the engine passes it along and as buffers keep it.

C types are in `record_context.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

from barnabas.streams.errors import StreamsError

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import int_bytes, with_numbers
    from barnabas.streams.serdes.reader import sized

if TYPE_CHECKING:
    from barnabas.streams.serdes.reader import Reader
    from barnabas.streams.serdes.serde import Headers


@cython.no_gc
@cython.freelist(32)
@cython.cclass
class RecordContext:
    """Timestamp in milliseconds, offset, partition, topic and headers of the record that is being processed.

    `raw_key` and `raw_value` are the bytes that were read, for a dead-letter queue; None when they are gone.
    """

    if not cython.compiled:
        __slots__ = ("header_list", "offset", "partition", "raw_key", "raw_value", "timestamp", "topic")

    def __init__(
        self,
        timestamp: int,
        offset: int,
        partition: int,
        topic: str | None,
        headers: Headers | None,
        raw_key: bytes | None = None,
        raw_value: bytes | None = None,
    ) -> None:
        self.timestamp = timestamp
        self.offset = offset
        self.partition = partition
        self.topic = topic
        self.header_list: Headers | None = headers or None
        self.raw_key = raw_key
        self.raw_value = raw_value

    def _own_headers(self) -> Headers:
        """Return `headers`, for callers in C."""
        if self.header_list is None:
            self.header_list = []
        return self.header_list

    @property
    def headers(self) -> Headers:
        """Names and values, in order; the list is the context's own."""
        return self._own_headers()

    def memory_size(self) -> int:
        """Return Kafka's estimate of the bytes that it takes, by which suppress measures its buffer."""
        size = 20 + _units(self.topic or "")
        for name, value in self.header_list or ():
            size += _units(name) + len(value or b"")
        return size

    def to_bytes(self) -> bytes:
        """Write it as changelogs of buffers hold it. Raises `StreamsError` without a topic, as in a punctuation."""
        if self.topic is None:
            raise StreamsError("A record without a topic, from a punctuation, cannot be kept in a buffer")
        topic = self.topic.encode()
        headers = self.header_list or ()
        parts = [with_numbers(b"", self.timestamp, self.offset, 8), int_bytes(len(topic)), topic]
        parts += [int_bytes(self.partition), int_bytes(len(headers))]
        for name, value in headers:
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


def _units(text: str) -> int:
    """Return how many units a text has in UTF-16, in which Java measures it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


@cython.cclass
class ContextHolder:
    """Who knows the record that is being processed: stores ask it without the interpreter."""

    def __init__(self) -> None:
        #: None between records.
        self.record_context: RecordContext | None = None


def record_context(
    timestamp: int,
    offset: int,
    partition: int,
    topic: str | None,
    headers: Headers | None,
    raw_key: bytes | None = None,
    raw_value: bytes | None = None,
) -> RecordContext:
    """Return a context, for callers in C."""
    made = RecordContext.__new__(RecordContext)
    made.timestamp = timestamp
    made.offset = offset
    made.partition = partition
    made.topic = topic
    made.header_list = headers
    made.raw_key = raw_key
    made.raw_value = raw_value
    return made
