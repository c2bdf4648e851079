# cython: language_level=3, annotation_typing=False
"""Records as they come in and go out: bytes, with where from and where to. C types are in `record.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.streams.serdes.serde import Headers
    from barnabas.streams.state.changelog_record import ChangelogRecord


@cython.no_gc
@cython.freelist(64)
@cython.cclass
class InputRecord:
    """A record of a topic: bytes of key and value, timestamp in milliseconds."""

    if not cython.compiled:
        __slots__ = ("header_list", "key", "offset", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.header_list: Headers | None = headers

    def _own_headers(self) -> Headers:
        """Return `headers`, for callers in C."""
        if self.header_list is None:
            self.header_list = []
        return self.header_list

    @property
    def headers(self) -> Headers:
        """Names and values, in order; the list is the record's own."""
        return self._own_headers()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.topic, self.partition, self.offset, self.timestamp, self.key, self.value, self.headers))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, InputRecord) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"InputRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


@cython.no_gc
@cython.freelist(64)
@cython.cclass
class OutputRecord:
    """A record to be written. A partition of None is left to the default partitioner, a timestamp of None to the clock.

    `partition` is the task's own for changelogs. `origin` is where the engine made it, if that is kept: the node's
    name, the `RecordContext`, and the `InputRecord` that was processed last.
    """

    if not cython.compiled:
        __slots__ = ("header_list", "key", "origin", "partition", "timestamp", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None,
        headers: Headers | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key = key
        self.value = value
        self.timestamp = timestamp
        #: A tuple where several records share them.
        self.header_list: Sequence[tuple[str, bytes | None]] | None = headers
        self.origin: Any = None

    @property
    def headers(self) -> Headers:
        """Names and values, in order; the list is the record's own."""
        if type(self.header_list) is not list:
            self.header_list = list(self.header_list or ())
        return self.header_list

    def __iter__(self) -> Iterator[Any]:
        return iter((self.topic, self.partition, self.key, self.value, self.timestamp, self.headers))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, OutputRecord) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"OutputRecord(topic={self.topic!r}, partition={self.partition}, key={self.key!r}, value={self.value!r}, "
            f"timestamp={self.timestamp}, headers={self.headers!r})"
        )


@cython.freelist(16)
@cython.cclass
class StampedRecord:
    """A record with deserialized key and value; `timestamp` is the one that the extractor gave it."""

    if not cython.compiled:
        __slots__ = ("key", "raw", "timestamp", "value")

    def __init__(self, raw: InputRecord, key: Any, value: Any) -> None:
        self.raw = raw
        self.key = key
        self.value = value
        self.timestamp = raw.timestamp

    @property
    def topic(self) -> str:
        """The topic that it was read from."""
        return self.raw.topic

    @property
    def partition(self) -> int:
        """The partition that it was read from."""
        return self.raw.partition

    @property
    def offset(self) -> int:
        """Its offset there."""
        return self.raw.offset

    @property
    def headers(self) -> Headers:
        """Its headers."""
        return self.raw.headers

    def __repr__(self) -> str:
        return (
            f"StampedRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )


def input_records(
    topics: list[str],
    partitions: list[int],
    offsets: list[int],
    times: list[int],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[Headers] | None,
) -> list[InputRecord]:
    """Return the records of columns of one length; headers of None are none for each."""
    found = []
    for at in range(len(topics)):
        made = InputRecord.__new__(InputRecord)
        made.topic = topics[at]
        made.partition = partitions[at]
        made.offset = offsets[at]
        made.timestamp = times[at]
        made.key = keys[at]
        made.value = values[at]
        made.header_list = None if headers is None else headers[at]
        found.append(made)
    return found


def output_columns(
    records: list[OutputRecord],
) -> tuple[list[Any], list[Any], list[Any], list[Any], list[Any], list[Any]]:
    """Return topics, partitions, keys, values, times and headers (None for none) of records."""
    topics, partitions, keys, values, times, headers = [], [], [], [], [], []
    for record in records:
        topics.append(record.topic)
        partitions.append(record.partition)
        keys.append(record.key)
        values.append(record.value)
        times.append(record.timestamp)
        headers.append(record.header_list)
    return topics, partitions, keys, values, times, headers


def input_record(
    topic: str,
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None,
) -> InputRecord:
    """Return a record of a topic, for callers in C."""
    made = InputRecord.__new__(InputRecord)
    made.topic = topic
    made.partition = partition
    made.offset = offset
    made.timestamp = timestamp
    made.key = key
    made.value = value
    made.header_list = headers
    return made


def output_record(
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    timestamp: int | None,
    headers: Sequence[tuple[str, bytes | None]] | None,
) -> OutputRecord:
    """Return a record to be written, for callers in C."""
    made = OutputRecord.__new__(OutputRecord)
    made.topic = topic
    made.partition = partition
    made.key = key
    made.value = value
    made.timestamp = timestamp
    made.header_list = headers
    return made


def append_changes(sent: list[OutputRecord], topic: str, partition: int, changes: list[ChangelogRecord]) -> None:
    """Append what a store has changed as records of its changelog topic."""
    for change in changes:
        headers = change.header_list or None  # an empty list would be kept, and the collector walk through it
        sent.append(output_record(topic, partition, change.key, change.value, change.timestamp, headers))


def stamped_record(raw: InputRecord, key: Any, value: Any) -> StampedRecord:
    """Return a record with the timestamp that it came with, for callers in C."""
    made = StampedRecord.__new__(StampedRecord)
    made.raw = raw
    made.key = key
    made.value = value
    made.timestamp = raw.timestamp
    return made
