"""Stores behind a cache: an update is sent on, written and logged at the next commit, or when its entry is evicted.

Source: Kafka's CachingKeyValueStore, CachingWindowStore, CachingSessionStore and MergedSortedCacheStoreIterators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, TypeVar

from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.serdes.window_keys import session_key, split_session_key, split_window_key, window_key
from barnabas.streams.state.record_cache import DirtyEntry, NamedCache, RecordCache

Entry = TypeVar("Entry")

#: Called with key, new and old value as they are kept, and the context of the record.
Listener = Callable[[bytes, "bytes | None", "bytes | None", RecordContext], None]

_SEGMENT = Struct(">q")


class StoreCache:
    """What the caches of all kinds of stores have in common. A subclass says how to read and write what is behind."""

    def __init__(self, store: Any, shared: RecordCache) -> None:
        self._store = store
        self._cache = NamedCache(shared, self._flushed)
        self._listener: Listener | None = None
        self._send_old_values = False

    def set_flush_listener(self, listener: Listener, send_old_values: bool) -> None:
        """Say who is told of changes when they are flushed."""
        self._listener = listener
        self._send_old_values = send_old_values

    def flush(self) -> None:
        """Write what was changed, and tell the listener."""
        self._cache.flush()

    def _keep(self, key: bytes, value: bytes | None) -> None:
        found = self._store.context.record_context
        context = RecordContext(
            found.timestamp, found.offset, found.partition, found.topic, found.headers, found.raw_key, found.raw_value
        )
        self._cache.put(key, value, context)

    def _flushed(self, entries: list[DirtyEntry]) -> None:
        task = self._store.context
        for key, new, context in entries:
            old = None
            if self._listener is not None:
                old = self._behind(key) if new is None or self._send_old_values else None
                if new is None and old is None:
                    continue  # it came and went between two commits
            current = task.record_context
            task.record_context = context
            try:
                self._write(key, new)
                if self._listener is not None:
                    self._listener(key, new, old if self._send_old_values else None, context)
            finally:
                task.record_context = current

    def _behind(self, key: bytes) -> bytes | None:
        """Return what the store behind has."""
        raise NotImplementedError

    def _write(self, key: bytes, value: bytes | None) -> None:
        """Write to the store behind."""
        raise NotImplementedError


class KeyValueCache(StoreCache):
    """The cache of a key-value store."""

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none; one that was read is kept."""
        entry = self._cache.get(key)
        if entry is not None:
            return entry.value
        value = self._behind(key)
        if value is not None:
            self._cache.put(key, value, None)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        """Keep a value; None deletes."""
        self._keep(key, value)

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries from one key to another, those of the cache in place of the store's."""
        keys = [
            key
            for key in self._cache.sorted_keys()
            if (first is None or key >= first) and (last is None or key < last or (key == last and not open_end))
        ]
        cached = self._cache.entries(keys[::-1] if reverse else keys)
        behind = self._store.range_behind(first, last, reverse, open_end)
        return merged(cached, behind, lambda entry: entry[0], lambda key, value: (key, value), reverse)

    def _behind(self, key: bytes) -> bytes | None:
        found: bytes | None = self._store.get_behind(key)
        return found

    def _write(self, key: bytes, value: bytes | None) -> None:
        self._store.put_behind(key, value)


class _SegmentedCache(StoreCache):
    """The cache of a store in segments of time: keys begin with the segment's number, so that orders agree."""

    def __init__(self, store: Any, shared: RecordCache, segment_interval_ms: int) -> None:
        super().__init__(store, shared)
        self._interval_ms = segment_interval_ms

    def _cache_key(self, key: bytes, time: int) -> bytes:
        return _SEGMENT.pack(time // self._interval_ms) + key


#: Key, start of the window in milliseconds, value.
Window = tuple[bytes, int, bytes]


class WindowCache(_SegmentedCache):
    """The cache of a window store without duplicates, in the order of that store: by key, or by time first."""

    def __init__(self, store: Any, shared: RecordCache, segment_interval_ms: int, time_ordered: bool) -> None:
        super().__init__(store, shared, segment_interval_ms)
        self._time_ordered = time_ordered

    def put(self, key: bytes, start: int, value: bytes | None) -> None:
        """Keep the value of a window; None deletes."""
        self._keep(self._key_of(key, start), value)

    def get(self, key: bytes, start: int) -> bytes | None:
        """Return the value of a window, None for none."""
        entry = self._cache.get(self._key_of(key, start))
        return self._store.get_behind(key, start) if entry is None else entry.value

    def windows(
        self, behind: Iterator[Window], accept: Callable[[bytes, int], bool], reverse: bool
    ) -> Iterator[Window]:
        """Yield the windows of the store behind, and those of the cache that are asked for."""
        keys = [key for key in self._cache.sorted_keys() if accept(*self.split(key))]
        cached = self._cache.entries(keys[::-1] if reverse else keys)
        return merged(
            cached,
            behind,
            lambda entry: self._key_of(entry[0], entry[1]),
            lambda key, value: (*self.split(key), value),
            reverse,
        )

    def split(self, key: bytes) -> tuple[bytes, int]:
        """Return the key and the start of the window of a key in the cache."""
        if self._time_ordered:
            return key[17:-4], _SEGMENT.unpack_from(key, 9)[0]
        found, start, _ = split_window_key(key[8:])
        return found, start

    def _key_of(self, key: bytes, start: int) -> bytes:
        if self._time_ordered:
            return self._cache_key(b"".join((b"\x00", _SEGMENT.pack(start), key, bytes(4))), start)
        return self._cache_key(window_key(key, start, 0), start)

    def _behind(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.get_behind(*self.split(key))
        return value

    def _write(self, key: bytes, value: bytes | None) -> None:
        found, start = self.split(key)
        self._store.put_behind(found, value, start)


#: Key, start and end of the session in milliseconds, value.
Session = tuple[bytes, int, int, bytes]


class SessionCache(_SegmentedCache):
    """The cache of a session store."""

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        """Keep the value of a session; None deletes."""
        self._keep(self._cache_key(session_key(key, start, end), end), value)

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        """Return the value of a session, None for none."""
        entry = self._cache.get(self._cache_key(session_key(key, start, end), end))
        return self._store.get_behind(key, start, end) if entry is None else entry.value

    def sessions(
        self, behind: Iterator[Session], accept: Callable[[bytes, int, int], bool], reverse: bool
    ) -> Iterator[Session]:
        """Yield the sessions of the store behind, and those of the cache that are asked for."""
        keys = [key for key in self._cache.sorted_keys() if accept(*split_session_key(key[8:]))]

        def store_key(entry: Session) -> bytes:
            return self._cache_key(session_key(entry[0], entry[1], entry[2]), entry[2])

        def made(key: bytes, value: bytes) -> Session:
            return *split_session_key(key[8:]), value

        cached = self._cache.entries(keys[::-1] if reverse else keys)
        return merged(cached, behind, store_key, made, reverse)

    def _behind(self, key: bytes) -> bytes | None:
        value: bytes | None = self._store.get_behind(*split_session_key(key[8:]))
        return value

    def _write(self, key: bytes, value: bytes | None) -> None:
        found, start, end = split_session_key(key[8:])
        self._store.put_behind(found, start, end, value)


def merged(
    cached: Iterator[tuple[bytes, bytes | None]],
    behind: Iterator[Entry],
    behind_key: Callable[[Entry], bytes],
    made: Callable[[bytes, bytes], Entry],
    reverse: bool,
) -> Iterator[Entry]:
    """Yield the entries of both in order of their keys; of the same key the cache's, none where that is deleted."""
    ours, theirs = next(cached, None), next(behind, None)
    while ours is not None or theirs is not None:
        if ours is None:
            side = 1
        elif theirs is None:
            side = -1
        else:
            one, other = ours[0], behind_key(theirs)
            side = 0 if one == other else (-1 if (one < other) != reverse else 1)
        if side == 1:
            yield theirs  # type: ignore[misc]  # it is there when its turn comes
        elif ours[1] is not None:  # type: ignore[index]  # as above
            yield made(ours[0], ours[1])  # type: ignore[index]  # as above
        if side <= 0:
            ours = next(cached, None)
        if side >= 0:
            theirs = next(behind, None)
