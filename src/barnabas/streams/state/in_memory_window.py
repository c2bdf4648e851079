"""Windows in memory, sorted by start, then key: Kafka's InMemoryWindowStore. Each goes the moment it is too old."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from barnabas.streams.serdes.reader import _INT
from barnabas.streams.serdes.window_keys import MAX_INT, MAX_LONG
from barnabas.streams.state.memory import MemoryMap
from barnabas.streams.state.window_bytes import Entry, _empty


class InMemoryWindows:
    """A map for each start of a window; with duplicates, a sequence number follows the key."""

    def __init__(self, retention_ms: int, *, retain_duplicates: bool) -> None:
        self._retention_ms = retention_ms
        self._retain_duplicates = retain_duplicates
        self._maps: dict[int, MemoryMap] = {}
        self._starts: list[int] = []
        self.observed_stream_time = -1

    def put(self, key: bytes, start: int, sequence: int, value: bytes | None) -> bool:
        """Keep a value, or delete it with None; return False when the window is too old."""
        self._drop_expired()
        self.observed_stream_time = max(self.observed_stream_time, start)
        if start <= self.observed_stream_time - self._retention_ms:
            return False
        found = self._maps.get(start)
        if value is None:
            if found is not None and not self._retain_duplicates:
                found.delete(key)
            return True
        if found is None:
            found = self._maps[start] = MemoryMap()
            self._starts.insert(bisect_left(self._starts, start), start)
        found.put(key + _INT.pack(sequence) if self._retain_duplicates else key, value)
        return True

    def get(self, key: bytes, start: int, sequence: int) -> bytes | None:
        """Return the value of a window, None for none."""
        if start <= self.observed_stream_time - self._retention_ms:
            return None
        found = self._maps.get(start)
        return None if found is None else found.get(key)

    def fetch(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of a key that start from `first` to `last`."""
        return self.fetch_keys(key, key, first, last, reverse)

    def fetch_keys(
        self, first_key: bytes | None, last_key: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[Entry]:
        """Yield the windows of keys from `first_key` to `last_key`, None for no bound."""
        first = max(first, self.observed_stream_time - self._retention_ms + 1)
        if last < first or _empty(first_key, last_key):
            return iter(())
        starts = self._starts[bisect_left(self._starts, first) : bisect_right(self._starts, last)]
        if reverse:
            starts.reverse()
        return self._entries(starts, first_key, last_key, reverse)

    def _entries(
        self, starts: list[int], first_key: bytes | None, last_key: bytes | None, reverse: bool
    ) -> Iterator[Entry]:
        upper = last_key
        if self._retain_duplicates and last_key is not None:
            upper = last_key + _INT.pack(MAX_INT)
        for start in starts:
            found = self._maps.get(start)
            if found is None:
                continue
            for data, value in found.range(first_key, upper, reverse):
                key = data[:-4] if self._retain_duplicates else data
                if (first_key is None or key >= first_key) and (last_key is None or key <= last_key):
                    yield key, start, value

    def fetch_all(self, first: int, last: int, reverse: bool) -> Iterator[Entry]:
        """Yield the windows of all keys that start from `first` to `last`."""
        return self.fetch_keys(None, None, first, last, reverse)

    def all(self, reverse: bool) -> Iterator[Entry]:
        """Yield all windows that are kept."""
        return self.fetch_keys(None, None, 0, MAX_LONG, reverse)

    def num_entries(self) -> int:
        """Return how many entries there are."""
        return sum(len(found) for found in self._maps.values())

    def _drop_expired(self) -> None:
        oldest = self.observed_stream_time - self._retention_ms + 1
        while self._starts and self._starts[0] < oldest:
            del self._maps[self._starts.pop(0)]
