"""Bytes in memory: dicts, with keys sorted when a range is asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Protocol

#: Up to so many new keys are put into the index one by one; more are appended and sorted with it.
_FEW = 16


class BytesMap(Protocol):
    """Keys and values in the order of their bytes: what a backend holds for a store or one of its segments."""

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""

    def put_all(self, entries: dict[bytes, bytes]) -> None:
        """Keep many values."""

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries from `first` to `last`, both included (`last` not if `open_end`), None for no bound."""

    def __len__(self) -> int:
        """Return how many entries there are."""


class Backend(Protocol):
    """Holds the maps of a task's stores by name."""

    persistent: bool

    def open(self, name: str) -> BytesMap:
        """Return the map of a name, a new one if there is none."""

    def drop(self, name: str) -> None:
        """Forget a map."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""


class MemoryMap:
    """A dict whose sorted keys are made when a range is first asked for, and kept up from then on."""

    __slots__ = ("_data", "_dead", "_new", "_sorted")

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        self._sorted: list[bytes] | None = None
        self._new: list[bytes] = []
        self._dead: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        return self._data.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        if self._sorted is not None and key not in self._data:
            if key in self._dead:
                self._dead.remove(key)
            else:
                self._new.append(key)
        self._data[key] = value

    def put_all(self, entries: dict[bytes, bytes]) -> None:
        """Keep many values."""
        if self._sorted is None:
            self._data.update(entries)
        else:
            for key, value in entries.items():
                self.put(key, value)

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        value = self._data.pop(key, None)
        if value is not None and self._sorted is not None:
            self._dead.add(key)
        return value

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries in order; those deleted after the call are left out."""
        keys = self._keys()
        begin = 0 if first is None else bisect_left(keys, first)
        if last is None:
            end = len(keys)
        else:
            end = bisect_left(keys, last) if open_end else bisect_right(keys, last)
        chosen = keys[begin:end]
        if reverse:
            chosen.reverse()
        return self._entries(chosen)

    def _entries(self, keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
        get = self._data.get
        for key in keys:
            value = get(key)
            if value is not None:
                yield key, value

    def _keys(self) -> list[bytes]:
        keys = self._sorted
        if keys is None or 2 * len(self._dead) > len(keys):
            keys = self._sorted = sorted(self._data)
            self._new.clear()
            self._dead.clear()
        elif self._new:
            if len(self._new) <= _FEW:
                for key in self._new:
                    insort(keys, key)
            else:
                keys += self._new
                keys.sort()
            self._new.clear()
        return keys

    def __len__(self) -> int:
        return len(self._data)


class MemoryBackend:
    """Maps in memory."""

    persistent = False

    def __init__(self) -> None:
        self._maps: dict[str, MemoryMap] = {}

    def open(self, name: str) -> MemoryMap:
        """Return the map of a name, a new one if there is none."""
        found = self._maps.get(name)
        if found is None:
            found = self._maps[name] = MemoryMap()
        return found

    def drop(self, name: str) -> None:
        """Forget a map."""
        self._maps.pop(name, None)

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""
        return [name for name in self._maps if name.startswith(prefix)]


def increment(prefix: bytes) -> bytes | None:
    """Return the first bytes after all that begin with `prefix`; None when there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
