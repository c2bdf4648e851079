"""Windows in memory, sorted by start, then key: Kafka's InMemoryWindowStore. Each goes the moment it is too old."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

from barnabas.streams.serdes.reader import _INT
from barnabas.streams.serdes.window_keys import MAX_INT, MAX_LONG
from barnabas.streams.state.memory import MemoryMap
from barnabas.streams.state.skip_list_map import SkipListIterator, SkipListMap, drop_expired
from barnabas.streams.state.window_bytes import Entry, _empty


class InMemoryWindows:
    """A map for each start of a window; with duplicates, a sequence number follows the key."""

    def __init__(self, retention_ms: int, *, retain_duplicates: bool) -> None:
        self._retention_ms = retention_ms
        self._retain_duplicates = retain_duplicates
        self._starts: SkipListMap[int, MemoryMap] = SkipListMap()
        self._open: WeakSet[_OpenWindows] = WeakSet()
        self.observed_stream_time = -1

    def put(self, key: bytes, start: int, sequence: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the window is too old."""
        self._drop_expired()
        self.observed_stream_time = max(self.observed_stream_time, start)
        if start <= self.observed_stream_time - self._retention_ms:
            return False
        found = self._starts.get(start)
        if value is None:
            if found is not None and not self._retain_duplicates:
                found.delete(key)
                if not len(found):
                    self._starts.pop(start)
            return True
        if found is None:
            found = MemoryMap()
            self._starts.put(start, found)
        found.put(key + _INT.pack(sequence) if self._retain_duplicates else key, value)
        return True

    def get(self, key: bytes, start: int, sequence: int) -> bytes | None:
        """Return the value of a window, None for none."""
        self._drop_expired()
        if start <= self.observed_stream_time - self._retention_ms:
            return None
        found = self._starts.get(start)
        return None if found is None else found.get(key)

    def fetch(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Return the windows of a key that start from `first` to `last`."""
        return self.fetch_keys(key, key, first, last, reverse)

    def fetch_keys(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        """Return the windows of keys from `first_key` to `last_key`, None for no bound.

        What is put while they are read is seen, as in Kafka: see `SkipListIterator`.
        """
        self._drop_expired()
        first = max(first, self.observed_stream_time - self._retention_ms + 1)
        if last < first or _empty(first_key, last_key):
            return iter(())
        found = SkipListIterator(self._starts, first, last, reverse)
        opened = _OpenWindows(found, (first_key, last_key), reverse, self._retain_duplicates)
        self._open.add(opened)
        return opened

    def fetch_all(self, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Return the windows of all keys that start from `first` to `last`."""
        return self.fetch_keys(None, None, first, last, reverse)

    def all(self, reverse: bool) -> Iterator[Entry]:
        """Return all windows that are kept."""
        return self.fetch_keys(None, None, 0, MAX_LONG, reverse)

    def num_entries(self) -> int:
        """Return how many entries there are."""
        return sum(len(found) for found in self._starts.values())

    def _drop_expired(self) -> None:
        drop_expired(self._starts, self.observed_stream_time - self._retention_ms + 1, self._open)


class _OpenWindows:
    """Kafka's InMemoryWindowStoreIteratorWrapper; `time` is the start it is at: from there on nothing expires."""

    __slots__ = ("__weakref__", "_duplicates", "_entries", "_first", "_last", "_reverse", "_starts", "time")

    def __init__(
        self,
        starts: SkipListIterator[int, MemoryMap],
        keys: tuple[bytes | None, bytes | None],
        reverse: bool,
        duplicates: bool,
    ) -> None:
        self._starts = starts
        self._first, self._last = keys
        self._reverse = reverse
        self._duplicates = duplicates
        self.time = 0
        self._entries: Iterator[tuple[bytes, bytes]] | None = self._next_start()

    def __iter__(self) -> _OpenWindows:
        return self

    def __next__(self) -> Entry:
        while self._entries is not None:
            for data, value in self._entries:
                key = data[:-4] if self._duplicates else data
                if (self._first is None or key >= self._first) and (self._last is None or key <= self._last):
                    return key, self.time, value
            self._entries = self._next_start()
        raise StopIteration

    def _next_start(self) -> Iterator[tuple[bytes, bytes]] | None:
        found = next(self._starts, None)
        if found is None:
            return None
        self.time, kept = found
        first, last = self._first, self._last
        if first is not None and first == last and not self._duplicates:
            value = kept.get(first)
            return iter(()) if value is None else iter([(first, value)])
        if self._duplicates:
            first = None if first is None else first + _INT.pack(0)
            last = None if last is None else last + _INT.pack(MAX_INT)
        return SkipListIterator(kept, first, last, self._reverse)
