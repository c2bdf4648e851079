"""Caches of window and session stores.

Which entries a lookup passes decides which are evicted next, so that a lookup passes here those that Kafka's passes.
Source: Kafka's CachingWindowStore, TimeOrderedCachingWindowStore, CachingSessionStore and their key schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple

from barnabas.streams.serdes.window_keys import (
    MAX_INT,
    MAX_LONG,
    session_key,
    split_session_key,
    split_window_key,
    window_key,
)
from barnabas.streams.state.caching import StoreCache, copied, merged
from barnabas.streams.state.record_cache import DirtyEntry, RecordCache
from barnabas.streams.state.window_bytes import TimeOrderedWindowSegments, upper_range

_SEGMENT = Struct(">q")
_WINDOW_SUFFIX = Struct(">qi")
_SESSION_SUFFIX = Struct(">qq")
_INT = Struct(">i")

#: The interval of the segments of a store in memory.
IN_MEMORY_INTERVAL_MS = 1

#: Key, start of the window in milliseconds, value.
Window = tuple[bytes, int, bytes]
#: Key, start and end of the session in milliseconds, value.
Session = tuple[bytes, int, int, bytes]
#: Key in the cache and value, None where it is deleted.
Cached = tuple[bytes, "bytes | None"]
#: From a key of the cache to one's last key, None for no bound.
Range = tuple["bytes | None", "bytes | None"]


class Lookup(NamedTuple):
    """Which windows or sessions are asked for: of keys, None for no bound, in a span of time in milliseconds.

    Of windows it bounds the start, of sessions `first` the end and `last` the start. `of_one` key: asked by that key,
    not by two that are the same; `of_all`: asked without keys.
    """

    first_key: bytes | None
    last_key: bytes | None
    first: int
    last: int
    reverse: bool
    of_one: bool = False
    of_all: bool = False

    def has(self, key: bytes) -> bool:
        """Tell whether a key is asked for."""
        return (self.first_key is None or key >= self.first_key) and (self.last_key is None or key <= self.last_key)

    @property
    def same(self) -> bytes | None:
        """The one key that is asked for, None when there are several."""
        return self.first_key if self.first_key == self.last_key else None


class _SegmentedCache(StoreCache):
    """The cache of a store in segments of time: keys begin with the segment's number, so that orders agree.

    A store in memory has segments of a millisecond, and its cache is looked through as a whole.
    """

    def __init__(self, store: Any, shared: RecordCache, segment_interval_ms: int) -> None:
        self._in_segments = segment_interval_ms > IN_MEMORY_INTERVAL_MS
        super().__init__(store, shared, 8 if self._in_segments else 0)
        self._interval_ms = segment_interval_ms

    def _cache_key(self, key: bytes, time: int) -> bytes:
        return _SEGMENT.pack(time // self._interval_ms) + key

    def _segments(self, first: int, last: int, reverse: bool) -> Iterator[tuple[bytes, int, int]]:
        """Yield prefix, first and last millisecond of the segments from one time to another, as the caller goes on.

        The first is there in any case, as in Kafka: what comes into it later is not seen.
        """
        lowest, highest = max(0, first) // self._interval_ms, max(0, last) // self._interval_ms
        number = highest if reverse else lowest
        while True:
            yield _SEGMENT.pack(number), number * self._interval_ms, (number + 1) * self._interval_ms - 1
            there = (_SEGMENT.unpack(prefix)[0] for prefix in self._cache.prefixes(reverse))
            found = next((each for each in there if (each < number if reverse else each > number)), None)
            if found is None or not lowest <= found <= highest:
                return
            number = found

    def _passed(self, ranges: Iterator[Range], reverse: bool) -> Iterator[Cached]:
        """Yield what the cache has in some ranges: in the first as of now, in others when their turn comes."""
        lower, upper = next(ranges)
        later = (entry for lower, upper in ranges for entry in self._cache.range(lower, upper, reverse))
        return chain(self._cache.range(lower, upper, reverse), later)


class WindowCache(_SegmentedCache):
    """The cache of a window store without duplicates, whose windows are in the order of their keys."""

    def __init__(self, store: Any, shared: RecordCache, segment_interval_ms: int) -> None:
        super().__init__(store, shared, segment_interval_ms)
        self._observed_start = -1

    def put(self, key: bytes, start: int, value: bytes | None) -> None:
        """Keep the value of a window; None deletes."""
        self._keep(self._key_of(key, start), value)
        self._observed_start = max(self._observed_start, start)

    def get(self, key: bytes, start: int) -> bytes | None:
        """Return the value of a window, None for none."""
        entry = self._cache.get(self._key_of(key, start))
        return self._store.get_behind(key, start) if entry is None else entry.value

    def windows(self, behind: Iterator[Window], asked: Lookup) -> Iterator[Window]:
        """Yield the windows of the store behind, and those of the cache that are asked for."""
        return merged(
            self._asked(asked),
            behind,
            lambda entry: self._key_of(entry[0], entry[1]),
            lambda key, value: (*self.split(key), value),
            asked.reverse,
        )

    def split(self, key: bytes) -> tuple[bytes, int]:
        """Return the key and the start of the window of a key in the cache."""
        found, start, _ = split_window_key(key[8:])
        return found, start

    def _key_of(self, key: bytes, start: int) -> bytes:
        return self._cache_key(window_key(key, start, 0), start)

    def _asked(self, asked: Lookup) -> Iterator[Cached]:
        return self._chosen(self._passed(self._ranges(asked), asked.reverse), asked)

    def _chosen(self, passed: Iterator[Cached], asked: Lookup) -> Iterator[Cached]:
        for key, value in passed:
            found, start = self.split(key)
            if asked.has(found) and asked.first <= start <= asked.last:
                yield key, value

    def _segments_of(self, asked: Lookup) -> Iterator[tuple[bytes, int, int]]:
        last = min(asked.last, self._observed_start) if asked.reverse else asked.last
        return self._segments(asked.first, last, asked.reverse)

    def _ranges(self, asked: Lookup) -> Iterator[Range]:
        if asked.of_all:
            return iter([(None, None)])
        return self._ranges_by_segment(asked) if self._in_segments else iter([self._whole_range(asked)])

    def _whole_range(self, asked: Lookup) -> Range:
        last = _WINDOW_SUFFIX.pack(asked.last, MAX_INT)
        if asked.of_one and asked.first_key is not None:
            first = max(0, asked.first)
            lower = self._cache_key(window_key(asked.first_key, first, 0), first)
            return lower, self._cache_key(asked.first_key + last, asked.last)
        return (
            None if asked.first_key is None else self._cache_key(window_key(asked.first_key, 0, 0), 0),
            None if asked.last_key is None else self._cache_key(upper_range(asked.last_key, last), asked.last),
        )

    def _ranges_by_segment(self, asked: Lookup) -> Iterator[tuple[bytes, bytes]]:
        for prefix, begin, end in self._segments_of(asked):
            if asked.same is not None:
                first = begin if asked.reverse else max(asked.first, begin)
                upper = window_key(asked.same, min(asked.last, end), MAX_INT)
                yield prefix + window_key(asked.same, first, 0), prefix + upper
                continue
            last = _WINDOW_SUFFIX.pack(asked.last, MAX_INT)
            lower = prefix if asked.first_key is None else prefix + window_key(asked.first_key, 0, 0)
            next_segment = _SEGMENT.pack(_SEGMENT.unpack(prefix)[0] + 1)
            yield lower, next_segment if asked.last_key is None else prefix + upper_range(asked.last_key, last)

    def _behind(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.get_behind(*self.split(key))
        return value

    def _write(self, key: bytes, value: bytes | None) -> None:
        found, start = self.split(key)
        self._store.put_behind(found, value, start)


def _by_time(key: bytes, start: int, sequence: int) -> bytes:
    return b"".join((b"\x00", _SEGMENT.pack(start), key, _INT.pack(sequence)))


class TimeOrderedWindowCache(WindowCache):
    """The cache of a window store whose windows are in the order of their start."""

    def split(self, key: bytes) -> tuple[bytes, int]:
        """Return the key and the start of the window of a key in the cache."""
        return key[17:-4], _SEGMENT.unpack_from(key, 9)[0]

    def _key_of(self, key: bytes, start: int) -> bytes:
        return self._cache_key(_by_time(key, start, 0), start)

    def _chosen(self, passed: Iterator[Cached], asked: Lookup) -> Iterator[Cached]:
        for key, value in passed:
            found, start = self.split(key)
            if start < asked.first if asked.reverse else start > asked.last:
                return
            if asked.has(found) and asked.first <= start <= asked.last:
                yield key, value

    def _ranges(self, asked: Lookup) -> Iterator[Range]:
        for prefix, begin, end in self._segments_of(asked):
            first = begin if asked.reverse else max(asked.first, begin)
            if asked.same is not None:
                lower = _by_time(asked.same, first, 0)
                yield prefix + lower, prefix + _by_time(asked.same, min(asked.last, end), MAX_INT)
                continue
            upper = b"\x01" if asked.last_key is None else _by_time(b"\xff" * len(asked.last_key), asked.last, MAX_INT)
            yield prefix + b"\x00" + _SEGMENT.pack(first) + (asked.first_key or b""), prefix + upper


class IndexedWindowCache(TimeOrderedWindowCache):
    """The cache of a window store by start that has an index by key: the index is cached too, its values empty."""

    def put(self, key: bytes, start: int, value: bytes | None) -> None:
        """Keep the value of a window; None deletes."""
        context = copied(self._store.context.record_context, "", None)
        super().put(key, start, value)
        self._cache.put(self._cache_key(b"\x01" + window_key(key, start, 0), start), b"", context)

    def _asked(self, asked: Lookup) -> Iterator[Cached]:
        if asked.of_all:
            return super()._asked(asked)
        return self._by_index(self._passed(self._index_ranges(asked), asked.reverse), asked)

    def _by_index(self, passed: Iterator[Cached], asked: Lookup) -> Iterator[Cached]:
        for index_key, _ in passed:
            found, start, _ = split_window_key(index_key[9:])
            key = self._key_of(found, start)
            entry = self._cache.get(key)
            if entry is not None and asked.has(found) and asked.first <= start <= asked.last:
                yield key, entry.value

    def windows(self, behind: Iterator[Window], asked: Lookup) -> Iterator[Window]:
        """Yield the windows of the store behind, and those of the cache that are asked for."""
        if asked.of_all:
            return super().windows(behind, asked)

        def by_key(key: bytes, start: int) -> bytes:
            return self._cache_key(window_key(key, start, 0), start)

        cached = ((by_key(*self.split(key)), value) for key, value in self._asked(asked))
        return merged(
            cached,
            behind,
            lambda entry: by_key(entry[0], entry[1]),
            lambda key, value: (*split_window_key(key[8:])[:2], value),
            asked.reverse,
        )

    def _index_ranges(self, asked: Lookup) -> Iterator[Range]:
        for lower, upper in self._ranges_by_segment(asked):
            prefix = lower[:8]
            upper_key = b"\x02" if len(upper) == len(prefix) else b"\x01" + upper[8:]
            yield prefix + b"\x01" + lower[8:], prefix + upper_key

    def _flushed(self, entries: list[DirtyEntry]) -> None:
        super()._flushed(self._of_windows(entries))

    def _of_windows(self, entries: list[DirtyEntry]) -> list[DirtyEntry]:
        """Return an entry for each window, for it and its index may both have been changed or evicted."""
        done: set[bytes] = set()
        found: list[DirtyEntry] = []
        for key, value, context in entries:
            if key[8] == 0:
                base, entry = key, (key, value, context)
            else:
                base = self._key_of(*split_window_key(key[9:])[:2])
                cached = None if base in done else self._cache.get(base)
                if cached is None or cached.context is None:
                    continue
                entry = base, cached.value, cached.context
            if base not in done:
                done.add(base)
                found.append(entry)
        return found


class SessionCache(_SegmentedCache):
    """The cache of a session store."""

    def __init__(self, store: Any, shared: RecordCache, segment_interval_ms: int) -> None:
        super().__init__(store, shared, segment_interval_ms)
        self._observed_end = -1

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Keep the value of a session; None deletes."""
        self._keep(self._cache_key(session_key(key, start, end), end), value)
        self._observed_end = max(self._observed_end, end)

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""
        entry = self._cache.get(self._cache_key(session_key(key, start, end), end))
        return self._store.get_behind(key, start, end) if entry is None else entry.value

    def sessions(self, behind: Iterator[Session], asked: Lookup) -> Iterator[Session]:
        """Yield the sessions of the store behind, and those of the cache that are asked for."""

        def store_key(entry: Session) -> bytes:
            return self._cache_key(session_key(entry[0], entry[1], entry[2]), entry[2])

        def made(key: bytes, value: bytes) -> Session:
            return *split_session_key(key[8:]), value

        return merged(self._asked(asked), behind, store_key, made, asked.reverse)

    def _asked(self, asked: Lookup) -> Iterator[Cached]:
        return self._chosen(self._passed(self._ranges(asked), asked.reverse), asked)

    def _chosen(self, passed: Iterator[Cached], asked: Lookup) -> Iterator[Cached]:
        for key, value in passed:
            found, start, end = split_session_key(key[8:])
            if asked.has(found) and end >= asked.first and start <= asked.last:
                yield key, value

    def _ranges(self, asked: Lookup) -> Iterator[Range]:
        key = asked.first_key if asked.of_one else None
        if key is not None and self._in_segments:
            return self._ranges_by_segment(key, asked)
        if key is not None:
            first = max(0, asked.first)
            lower = self._cache_key(session_key(key, 0, first), first)
            return iter([(lower, self._cache_key(session_key(key, asked.last, MAX_LONG), MAX_LONG))])
        suffix = _SESSION_SUFFIX.pack(MAX_LONG, asked.last)
        lower_bound = None if asked.first_key is None else self._cache_key(session_key(asked.first_key, 0, 0), 0)
        upper_bound = None if asked.last_key is None else self._cache_key(upper_range(asked.last_key, suffix), MAX_LONG)
        return iter([(lower_bound, upper_bound)])

    def _ranges_by_segment(self, key: bytes, asked: Lookup) -> Iterator[Range]:
        for prefix, begin, end in self._segments(
            asked.first, self._observed_end if asked.reverse else MAX_LONG, asked.reverse
        ):
            first = begin if asked.reverse else max(asked.first, begin)
            upper = session_key(key, min(asked.last, end), end)
            yield prefix + session_key(key, 0, first), prefix + upper

    def _behind(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.get_behind(*split_session_key(key[8:]))
        return value

    def _write(self, key: bytes, value: bytes | None) -> None:
        found, start, end = split_session_key(key[8:])
        self._store.put_behind(found, start, end, value)


def window_cache(store: Any, shared: RecordCache, segment_interval_ms: int, windows: Any) -> WindowCache:
    """Return the cache of a store that keeps its windows in `windows`."""
    kind = WindowCache
    if isinstance(windows, TimeOrderedWindowSegments):
        kind = IndexedWindowCache if windows.indexed else TimeOrderedWindowCache
    return kind(store, shared, segment_interval_ms)
