"""A task's cache of records: what its stores share of `statestore.cache.max.bytes`, the least recently used goes first.

Sizes are Kafka's estimates, so that the same entries are evicted. Source: Kafka's ThreadCache, NamedCache and
LRUCacheEntry. Kafka shares a cache among the tasks of a thread; here each task has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.streams.serdes.record_context import RecordContext

#: Of an entry beside key, value and context: whether it is dirty, and three references.
_OVERHEAD = 1 + 3 * 8
#: The size of the context of an entry that was only read.
_NO_CONTEXT = 20


class CacheEntry:
    """A value (None: deleted), and the context of the record that it came with; None when it was only read."""

    __slots__ = ("context", "dirty", "size", "value")

    def __init__(self, key: bytes, value: bytes | None, context: RecordContext | None) -> None:
        self.value = value
        self.context = context
        self.dirty = context is not None
        about = _NO_CONTEXT if context is None else context.memory_size()
        self.size = len(key) + _OVERHEAD + (0 if value is None else len(value)) + about


#: A key, its new value (None: deleted), and the context of the record that it came with.
DirtyEntry = tuple[bytes, "bytes | None", RecordContext]


class RecordCache:
    """How many bytes the stores of a task may hold back together.

    `size` is Kafka's sum: while entries are evicted, what listeners put into the same store's cache counts twice.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size = 0


class NamedCache:
    """The entries of one store. `flushed` is given those that were changed, in the order of their last change."""

    def __init__(self, shared: RecordCache, flushed: Callable[[list[DirtyEntry]], None]) -> None:
        self._shared = shared
        self._flushed = flushed
        #: The least recently used first.
        self._entries: dict[bytes, CacheEntry] = {}
        self._dirty: dict[bytes, None] = {}
        self._size = 0

    def get(self, key: bytes) -> CacheEntry | None:
        """Return an entry, which becomes the most recently used; None for none."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._entries[key] = entry
        return entry

    def put(self, key: bytes, value: bytes | None, context: RecordContext | None) -> None:
        """Keep a value, with a context if it was changed; evict what is too much."""
        before = self._entries.pop(key, None)
        entry = CacheEntry(key, value, context)
        self._entries[key] = entry
        grown = entry.size - (0 if before is None else before.size)
        self._size += grown
        self._shared.size += grown
        if entry.dirty:
            self._dirty.pop(key, None)
            self._dirty[key] = None
        # What is evicted may change other stores, so that nothing is left here to evict although there is too much.
        while self._shared.size > self._shared.max_bytes and self._entries:
            size = self._size
            self._evict()
            self._shared.size += self._size - size

    def _evict(self) -> None:
        key = next(iter(self._entries))
        entry = self._forget(key)
        if entry.dirty:
            self._dirty.pop(key, None)
            self._flush([(key, entry.value, entry.context)])  # type: ignore[list-item]  # dirty ones have a context

    def _forget(self, key: bytes) -> CacheEntry:
        entry = self._entries.pop(key)
        self._size -= entry.size
        return entry

    def flush(self) -> None:
        """Hand over all that was changed since the last time."""
        if self._dirty:
            size = self._size
            self._flush([])
            self._shared.size += self._size - size

    def _flush(self, found: list[DirtyEntry]) -> None:
        deleted = []
        for key in self._dirty:
            entry = self._entries[key]
            found.append((key, entry.value, entry.context))  # type: ignore[arg-type]  # dirty ones have a context
            entry.dirty = False
            if entry.value is None:
                deleted.append(key)
        self._dirty.clear()  # before: what follows may change entries again
        self._flushed(found)
        for key in deleted:
            if key in self._entries:
                self._forget(key)
                self._dirty.pop(key, None)

    def sorted_keys(self) -> list[bytes]:
        """Return all keys in order, those of deleted entries among them."""
        return sorted(self._entries)

    def entries(self, keys: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the values of keys that are still here; each becomes the most recently used."""
        for key in keys:
            entry = self.get(key)
            if entry is not None:
                yield key, entry.value
