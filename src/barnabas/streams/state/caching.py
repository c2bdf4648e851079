"""Stores behind a cache: an update is sent on, written and logged at the next commit, or when its entry is evicted.

Source: Kafka's CachingKeyValueStore and MergedSortedCacheStoreIterators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.serdes.serde import Headers
from barnabas.streams.state.record_cache import DirtyEntry, RecordCache

Entry = TypeVar("Entry")

#: Called with key, new and old value as they are kept, and the context of the record.
Listener = Callable[[bytes, "bytes | None", "bytes | None", RecordContext], None]


class StoreCache:
    """What the caches of all kinds of stores have in common. A subclass says how to read and write what is behind."""

    def __init__(self, store: Any, shared: RecordCache, prefix: int = 0) -> None:
        self._store = store
        self._cache = shared.named(store.name, self._flushed, prefix)
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
        self._cache.put(key, value, copied(found, found.topic, found.header_list))

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
        cached = self._cache.range(first, last, reverse, open_end)
        behind = self._store.range_behind(first, last, reverse, open_end)
        return merged(cached, behind, lambda entry: entry[0], lambda key, value: (key, value), reverse)

    def _behind(self, key: bytes) -> bytes | None:
        found: bytes | None = self._store.get_behind(key)
        return found

    def _write(self, key: bytes, value: bytes | None) -> None:
        self._store.put_behind(key, value)


def copied(found: RecordContext, topic: str | None, headers: Headers | None) -> RecordContext:
    """Return a context of its own, for the task's changes with the next record."""
    return RecordContext(found.timestamp, found.offset, found.partition, topic, headers, found.raw_key, found.raw_value)


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
