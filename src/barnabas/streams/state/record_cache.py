"""A task's cache of records: what its stores share of `statestore.cache.max.bytes`, the least recently used goes first.

Sizes are Kafka's estimates, so that the same entries are evicted. Source: Kafka's ThreadCache, NamedCache and
LRUCacheEntry. Kafka shares a cache among the tasks of a thread; here each task has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.memory import MemoryMap

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

    def named(self, store: str, flushed: Callable[[list[DirtyEntry]], None], prefix: int = 0) -> NamedCache:
        """Return the part of a store; see `NamedCache`."""
        return NamedCache(self, flushed, prefix)


class NamedCache:
    """The entries of one store. `flushed` is given those that were changed, in the order of their last change.

    Keys are put in order when a range is first asked for, those with the same first `prefix` bytes together.
    """

    def __init__(self, shared: RecordCache, flushed: Callable[[list[DirtyEntry]], None], prefix: int = 0) -> None:
        self._shared = shared
        self._flushed = flushed
        self._prefix = prefix
        #: By prefix: the keys in order, as those of a map without values.
        self._index: dict[bytes, MemoryMap] | None = None
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
        if before is None and self._index is not None:
            self._add_to(self._index, key)
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
        if self._index is not None:
            keys = self._index[key[: self._prefix]]
            keys.delete(key)
            if not len(keys):
                del self._index[key[: self._prefix]]
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

    def prefixes(self, reverse: bool = False) -> list[bytes]:
        """Return the prefixes of the keys there are, in order."""
        return sorted(self._keys(), reverse=reverse)

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield keys and values from `first` to `last`, both included (`last` not if `open_end`), None for no bound.

        The keys are those of now, deleted entries among them; those evicted meanwhile are left out. Each becomes the
        most recently used when its turn comes, whether or not the caller wants it: so does Kafka's.
        """
        keys, length = self._keys(), self._prefix
        chosen = [
            keys[prefix].range(first, last, reverse, open_end)
            for prefix in self.prefixes(reverse)
            if (first is None or prefix >= first[:length]) and (last is None or prefix <= last[:length])
        ]
        return self._entries_of(chosen)

    def _entries_of(self, chosen: list[Iterator[tuple[bytes, bytes]]]) -> Iterator[tuple[bytes, bytes | None]]:
        for keys in chosen:
            for key, _ in keys:
                entry = self.get(key)
                if entry is not None:
                    yield key, entry.value

    def _keys(self) -> dict[bytes, MemoryMap]:
        if self._index is None:
            self._index = {}
            for key in self._entries:
                self._add_to(self._index, key)
        return self._index

    def _add_to(self, index: dict[bytes, MemoryMap], key: bytes) -> None:
        prefix = key[: self._prefix]
        keys = index.get(prefix)
        if keys is None:
            keys = index[prefix] = MemoryMap()
        keys.put(key, b"")
