"""A record on its way to a topic, and its headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.client.arguments import INT32, INT64, as_integer, as_text
from barnabas.client.producer.arguments import header_pairs
from barnabas.errors import IllegalStateError, IllegalTypeError


class RecordHeader(NamedTuple):
    """One header: a name and bytes or None."""

    key: str
    value: bytes | None

    def __repr__(self) -> str:
        shown = "null" if self.value is None else str(list(self.value))
        return f"RecordHeader(key = {self.key}, value = {shown})"


class RecordHeaders:
    """A record's headers, in order; a name may occur more than once. `send()` makes them read-only."""

    __slots__ = ("_headers", "is_read_only")

    def __init__(self, headers: Iterable[tuple[str, bytes | None]] = ()) -> None:
        self._headers = [RecordHeader(*_checked(header)) for header in header_pairs(headers)]
        self.is_read_only = False

    def add(self, key: str, value: bytes | None) -> RecordHeaders:
        """Append a header; raises `IllegalStateError` once the record was sent."""
        self._check_writable()
        self._headers.append(RecordHeader(*_checked((key, value))))
        return self

    def remove(self, key: str) -> RecordHeaders:
        """Take away all headers of that name; raises `IllegalStateError` once the record was sent."""
        self._check_writable()
        self._headers = [header for header in self._headers if header.key != key]
        return self

    def last_header(self, key: str) -> RecordHeader | None:
        """Return the last header of that name, or None."""
        return next((header for header in reversed(self._headers) if header.key == key), None)

    def headers(self, key: str) -> list[RecordHeader]:
        """All headers of that name."""
        return [header for header in self._headers if header.key == key]

    def set_read_only(self) -> None:
        """Refuse changes from now on."""
        self.is_read_only = True

    def _check_writable(self) -> None:
        if self.is_read_only:
            raise IllegalStateError("The headers are read-only since the record was sent; make a new ProducerRecord")

    def __iter__(self) -> Iterator[RecordHeader]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, index: int) -> RecordHeader:
        return self._headers[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordHeaders) and self._headers == other._headers

    __hash__ = None  # type: ignore[assignment]  # headers can change, so they are no key

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self._headers))
        return f"RecordHeaders(headers = [{inside}], isReadOnly = {str(self.is_read_only).lower()})"


class ProducerRecord:
    """A record to send: topic, value, and optionally key, partition, timestamp (epoch milliseconds) and headers."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise IllegalTypeError(f"A topic is a str, not {type(topic).__name__}: {topic!r}")
        if timestamp_ms is not None:
            timestamp_ms = as_integer(timestamp_ms, "timestamp_ms", 0, INT64)
        if partition is not None:
            partition = as_integer(partition, "partition", 0, INT32)
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        self.timestamp_ms = timestamp_ms
        self.headers = headers if isinstance(headers, RecordHeaders) else RecordHeaders(headers or ())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerRecord):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # a record holds headers, which can change

    def __repr__(self) -> str:
        # Kafka's own form, with its null.
        partition, key, value, timestamp = (
            "null" if field is None else field for field in (self.partition, self.key, self.value, self.timestamp_ms)
        )
        return (
            f"ProducerRecord(topic={self.topic}, partition={partition}, headers={self.headers!r}, key={key}, "
            f"value={value}, timestamp={timestamp})"
        )


def freeze_headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers as the batch takes them; a `RecordHeaders` turns read-only."""
    if isinstance(headers, RecordHeaders):
        headers.set_read_only()
        return tuple((header.key, header.value) for header in headers)
    return tuple(_checked(header) for header in header_pairs(headers))


def _checked(header: Any) -> tuple[str, bytes | None]:
    try:
        key, value = header
    except (TypeError, ValueError):
        raise IllegalTypeError(f"headers: a header is a pair (str, bytes or None), not {header!r}") from None
    if not isinstance(key, str):
        raise IllegalTypeError(f"headers: a header's name is a str, not {type(key).__name__}: {key!r}")
    if not key.isascii():
        as_text(key, "headers: a header's name")
    if value is not None and type(value) is not bytes:
        if not isinstance(value, bytearray | memoryview):
            raise IllegalTypeError(
                f"headers: the value of header {key!r} is bytes or None, not {type(value).__name__}: {value!r}"
            )
        value = bytes(value)
    return key, value
