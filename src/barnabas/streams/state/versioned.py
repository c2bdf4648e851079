# cython: language_level=3, annotation_typing=False
"""Stores that keep a history of values (KIP-889): the latest value of a key, and segments with what was before.

A segment, chosen by the end of validity, holds for a key the versions that ended in it. Source: Kafka's
RocksDBVersionedStore and RocksDBVersionedStoreSegmentValueFormatter; bytes on disk are ours.
C types are in `versioned.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Iterable, Iterator
from typing import Any

from barnabas.streams.serdes.reader import Reader, sized
from barnabas.streams.serdes.window_keys import MAX_LONG
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.memory import Backend
from barnabas.streams.state.store import NOT_PUT, VALID_TO_UNDEFINED, ValueAndTimestamp, VersionedRecord

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import long_at, long_before
    from barnabas.streams.state.memory import OrderedBytes
    from barnabas.streams.state.segments import Segments
    from barnabas.streams.state.sorted_entries import SortedEntries
    from barnabas.streams.state.store import SerdeStore
    from barnabas.streams.state.value_format import timestamped


@cython.final
@cython.cclass
class SegmentValue:
    """The versions of a key in a segment: from the latest to the earliest, and when the latest ended.

    A tombstone is a version without value. One that stands alone has no length: it ends when it begins.
    """

    def __init__(self, next_timestamp: int, versions: list[tuple[int, bytes | None]]) -> None:
        self.next_timestamp = next_timestamp
        self.versions = versions

    def min_timestamp(self) -> int:
        """When the earliest version began, in milliseconds."""
        return self.versions[-1][0]

    def find(self, timestamp: int) -> tuple[int, int, int, bytes | None]:
        """Return index, begin, end and value of the version at a time that the segment covers."""
        end = self.next_timestamp
        for index, (begin, value) in enumerate(self.versions):
            if begin <= timestamp:
                return index, begin, end, value
            end = begin
        raise AssertionError("the time lies before the segment's earliest version")

    def insert_as_latest(self, begin: int, end: int, value: bytes | None) -> None:
        """Add a version after all others; what lay after its begin, after a failure, goes."""
        if begin < self.next_timestamp:
            self._truncate(begin)
        if self.next_timestamp != begin:
            self._push(self.next_timestamp, None)
        self._push(begin, value)
        self.next_timestamp = end

    def insert_as_earliest(self, timestamp: int, value: bytes | None) -> None:
        """Add a version before all others."""
        if self._is_degenerate():
            self.versions = [(timestamp, value)]
        else:
            self.versions.append((timestamp, value))

    def _push(self, begin: int, value: bytes | None) -> None:
        if self._is_degenerate():
            self.versions = [(begin, value)]
        else:
            self.versions.insert(0, (begin, value))
        self.next_timestamp = max(self.next_timestamp, begin + 1)

    def _is_degenerate(self) -> bool:
        return self.next_timestamp == self.min_timestamp()

    def _truncate(self, timestamp: int) -> None:
        if timestamp <= self.min_timestamp():
            self.versions = [(timestamp, None)]
        else:
            while self.versions[0][0] >= timestamp:
                self.versions.pop(0)
        self.next_timestamp = timestamp

    def to_bytes(self) -> bytes:
        """Write it."""
        parts = []
        for begin, value in self.versions:
            parts.append(long_before(begin, sized(value)))
        return long_before(self.next_timestamp, b"".join(parts))


def segment_value(data: bytes) -> SegmentValue:
    """Read what `to_bytes` wrote. Raises `StreamsError` when bytes are missing."""
    reader = Reader(data)
    next_timestamp = reader.long()
    versions = []
    while reader.at < len(data):
        versions.append((reader.long(), reader.sized()))
    return SegmentValue(next_timestamp, versions)


@cython.final
@cython.cclass
class VersionedBytes:
    """The bytes of a versioned store."""

    def __init__(self, name: str, history_retention_ms: int, segment_interval_ms: int, backend: Backend) -> None:
        self._retention_ms = min(history_retention_ms, MAX_LONG)
        self._latest = backend.open(f"{name}-latest")
        self._segments = Segments(name, history_retention_ms, segment_interval_ms, backend)
        self.observed_stream_time = -1
        self._gathering = backend.gathering(self._take)
        self._entries: SortedEntries | None = None
        self._has_gathered = False
        #: The least time of what is gathered, and the oldest segment that lives at its greatest.
        self._earliest = self._oldest = 0

    def load(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """Take a record of the changelog, as one of very many: what `put` does, but on disk key by key, later."""
        if self._gathering is None:
            self.put(key, value, timestamp)
            return
        if self.is_too_late(timestamp):
            return
        if timestamp > self.observed_stream_time:
            self._observe(timestamp)
        if not self._has_gathered or timestamp < self._earliest:
            self._earliest = timestamp
        if not self._has_gathered:
            self._has_gathered = True
            self._entries = self._gathering.entries
        entry = long_before(self.observed_stream_time, b"" if value is None else b"\x00" + value)
        entry = long_before(timestamp, entry)
        if not self._entries.add(key, entry):  # type: ignore[union-attr]  # it is there
            self._entries = self._gathering.grow(len(key) + len(entry))
            if not self._has_gathered:  # all others were taken to make room
                self._has_gathered = True
                self._earliest = timestamp
            self._entries.add(key, entry)

    def _observe(self, timestamp: int) -> None:
        """Take up a new time. What is gathered goes first if a segment expires, for others would not find it then."""
        oldest = self._segments.id_of(timestamp - self._retention_ms)
        if oldest != self._oldest:
            self._oldest = oldest
            if self._has_gathered and self._expires(oldest):
                self._settle()
        self.observed_stream_time = timestamp

    def _expires(self, oldest: int) -> bool:
        if self._segments.id_of(self._earliest) < oldest:
            return True  # a segment of that time might be made
        return any(number < oldest for number, _ in self._segments.all())

    def _settle(self) -> None:
        self._gathering.settle()  # type: ignore[union-attr]  # something was gathered

    def _take(self, entries: list[tuple[bytes, bytes]]) -> None:
        """Put what was gathered, each record at the time that the store had seen when it came."""
        self._has_gathered = False
        observed = self.observed_stream_time
        self._segments.drop_expired(observed)
        for key, entry in entries:
            self.observed_stream_time = long_at(entry, 8)
            self._put(key, entry[17:] if len(entry) > 16 else None, long_at(entry, 0))
        self.observed_stream_time = observed

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Keep a version; return when it ends, `VALID_TO_UNDEFINED` for the latest, `NOT_PUT` if it came too late."""
        if self._has_gathered:
            self._settle()
        if self.is_too_late(timestamp):
            return NOT_PUT
        if timestamp > self.observed_stream_time:
            self.observed_stream_time = timestamp
        self._segments.drop_expired(self.observed_stream_time)
        return self._put(key, value, timestamp)

    def _put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        latest = self._latest.get(key)
        found: int | None = None
        if latest is not None:
            found = long_at(latest, 0)
            if timestamp >= found:
                self._replace_latest(key, value, timestamp, found, latest[8:])
                return VALID_TO_UNDEFINED
        done, found = self._put_to_segments(key, value, timestamp, found)
        if not done:
            found = self._finish(key, value, timestamp, found)
        return VALID_TO_UNDEFINED if found is None else found

    def is_too_late(self, timestamp: int) -> bool:
        """Tell whether a version of that time is not kept any more."""
        return timestamp < self.observed_stream_time - self._retention_ms

    def get(self, key: bytes) -> tuple[bytes, int] | None:
        """Return the latest value and its timestamp."""
        if self._has_gathered:
            self._settle()
        latest = self._latest.get(key)
        return None if latest is None else (latest[8:], long_at(latest, 0))

    def get_as_of(self, key: bytes, as_of: int) -> tuple[bytes, int, int | None] | None:
        """Return value, begin and end (None: still valid) of the version at a time; None for none."""
        latest = self.get(key)
        if latest is not None and latest[1] <= as_of:
            return latest[0], latest[1], None
        if self.is_too_late(as_of):
            return None
        for _, segment in self._segments.between(as_of, MAX_LONG, reverse=True):
            held = self._held(segment, key)
            if held is None:
                continue
            if held.next_timestamp <= as_of:
                return None
            if held.min_timestamp() > as_of:
                continue
            _, begin, end, value = held.find(as_of)
            return None if value is None else (value, begin, end)
        return None

    def history(self, key: bytes, first: int, last: int) -> Iterator[tuple[bytes, int, int | None]]:
        """Yield value, begin and end of the versions that were valid between two times, the latest first."""
        latest = self.get(key)
        if latest is not None and latest[1] <= last:
            yield latest[0], latest[1], None
        if self.is_too_late(last):
            return
        for _, segment in self._segments.all(reverse=True):
            held = self._held(segment, key)
            if held is None:
                continue
            end = held.next_timestamp
            for begin, value in held.versions:
                if value is not None and begin <= last and end > first:
                    yield value, begin, end
                end = begin

    def _held(self, segment: OrderedBytes, key: bytes) -> SegmentValue | None:
        data = segment.get(key)
        return None if data is None else segment_value(data)

    def _live(self, timestamp: int) -> OrderedBytes | None:
        return self._segments.live(self._segments.id_of(timestamp), self.observed_stream_time)

    def _replace_latest(self, key: bytes, value: bytes | None, timestamp: int, old_timestamp: int, old: bytes) -> None:
        if timestamp > old_timestamp:
            self._add_as_latest(key, old, old_timestamp, timestamp)
        if value is None:
            self._latest.delete(key)
        else:
            self._latest.put(key, timestamped(value, timestamp))  # type: ignore[arg-type]  # it is not None

    def _add_as_latest(self, key: bytes, value: bytes | None, begin: int, end: int) -> None:
        segment = self._live(end)
        if segment is None:
            return
        held = self._held(segment, key)
        if held is None:
            segment.put(key, long_before(end, long_before(begin, sized(value))))
            return
        held.insert_as_latest(begin, end, value)
        segment.put(key, held.to_bytes())

    def _put_to_segments(
        self, key: bytes, value: bytes | None, timestamp: int, found: int | None
    ) -> tuple[bool, int | None]:
        for number, segment in self._segments.between(timestamp, MAX_LONG, reverse=True):
            held = self._held(segment, key)
            if held is None:
                continue
            if held.next_timestamp <= timestamp:
                return False, found
            if held.min_timestamp() <= timestamp:
                return True, self._put_between(number, segment, held, key, value, timestamp)
            if held.min_timestamp() < self.observed_stream_time - self._retention_ms:
                return True, NOT_PUT
            found = held.min_timestamp()
        return False, found

    def _put_between(
        self, number: int, segment: OrderedBytes, held: SegmentValue, key: bytes, value: bytes | None, timestamp: int
    ) -> int:
        index, begin, end, old = held.find(timestamp)
        older = self._segments.id_of(timestamp) != number
        if begin != timestamp and not older:
            held.versions.insert(index, (timestamp, value))
        else:
            if begin != timestamp:
                self._add_as_latest(key, old, begin, timestamp)
            held.versions[index] = (timestamp, value)
        segment.put(key, held.to_bytes())
        return end

    def _finish(self, key: bytes, value: bytes | None, timestamp: int, found: int | None) -> int | None:
        if found is None:
            return self._put_first(key, value, timestamp)
        segment = self._live(found)
        if segment is None:
            return NOT_PUT
        held = self._held(segment, key)
        if held is None:
            held = SegmentValue(found, [(timestamp, value)])
        elif held.next_timestamp <= timestamp:
            held.insert_as_latest(timestamp, found, value)
        else:
            held.insert_as_earliest(timestamp, value)
        segment.put(key, held.to_bytes())
        return found

    def _put_first(self, key: bytes, value: bytes | None, timestamp: int) -> int | None:
        if value is not None:
            self._latest.put(key, timestamped(value, timestamp))  # type: ignore[arg-type]  # it is not None
            return None
        segment = self._live(timestamp)
        if segment is None:
            return NOT_PUT
        held = self._held(segment, key)
        if held is None:
            held = SegmentValue(timestamp, [(timestamp, None)])
        elif held.next_timestamp == timestamp:
            return None
        else:
            held.insert_as_latest(held.next_timestamp, timestamp, None)
        segment.put(key, held.to_bytes())
        return None


@cython.cclass
class VersionedKeyValueStore(SerdeStore):
    """Keeps the values of a key with the times from which on they were valid."""

    def __init__(
        self,
        name: str,
        key_serde: Any,
        value_serde: Any,
        history_retention_ms: int,
        segment_interval_ms: int | None,
        backend: Backend,
        *,
        logged: bool = True,
    ) -> None:
        super().__init__(name, key_serde, value_serde, logged=logged)
        self.last_change_counts = False
        interval = segment_interval_ms or default_segment_interval_ms(history_retention_ms)
        self._versions = VersionedBytes(name, history_retention_ms, interval, backend)
        self.persistent = backend.persistent

    def times(self) -> dict[str, int]:
        """Return the greatest timestamp that was put."""
        return {"observed": self._versions.observed_stream_time}

    def restore_times(self, times: dict[str, int]) -> None:
        """Take what `times` returned."""
        self._versions.observed_stream_time = max(times["observed"], self._versions.observed_stream_time)

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Keep a version, None for a tombstone; return when it ends in milliseconds.

        `VALID_TO_UNDEFINED` means that it is the latest, `NOT_PUT` that it came too late.
        """
        data = self._key(key)
        raw = self._value(value)
        valid_to = self._versions.put(data, raw, timestamp)
        if valid_to == NOT_PUT and self._versions.is_too_late(timestamp):
            self.context.record_dropped()
        if self.logged:
            self._changes.append(ChangelogRecord(data, raw, timestamp, None))
        return valid_to

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        """Put a tombstone; return the version that was valid at that time."""
        old = self.get(key, timestamp)
        return None if self.put(key, None, timestamp) == NOT_PUT else old

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        """Return the latest version of a key, or the one that was valid at a time in milliseconds; None for none."""
        data = self._key(key)
        if as_of is None:
            latest = self._versions.get(data)
            return None if latest is None else VersionedRecord(self._read_value(latest[0]), latest[1])
        found = self._versions.get_as_of(data, as_of)
        return None if found is None else VersionedRecord(self._read_value(found[0]), found[1], found[2])

    def history(self, key: Any, time_from: int = 0, time_to: int = MAX_LONG) -> Iterator[VersionedRecord[Any]]:
        """Yield the versions that were valid between two times, the latest first (MultiVersionedKeyQuery)."""
        for value, begin, end in self._versions.history(self._key(key), time_from, time_to):
            yield VersionedRecord(self._read_value(value), begin, end)

    def get_with_timestamp(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp[Any] | None:
        """Return value and timestamp, which tables ask of a store of any kind."""
        found = self.get(key, as_of)
        return None if found is None else ValueAndTimestamp(found.value, found.timestamp)

    def put_with_timestamp(self, key: Any, value: Any, timestamp: int) -> int:
        """Keep a version, which tables ask of a store of any kind."""
        return self.put(key, value, timestamp)

    def restore(self, records: Iterable[ChangelogRecord]) -> None:
        """Take records of the changelog."""
        versions = self._versions
        for record in records:
            if record.timestamp is not None:
                versions.load(record.key, record.value, record.timestamp)


def default_segment_interval_ms(history_retention_ms: int) -> int:
    """Return how long a segment lasts: small ones for short histories, 3 to 24 for longer ones."""
    for limit, parts, least in ((60_000, 3, 2_000), (300_000, 5, 20_000), (3_600_000, 12, 60_000)):
        if history_retention_ms <= limit:
            return max(history_retention_ms // parts, least)
    return max(history_retention_ms // 24, 300_000)
