# cython: language_level=3, annotation_typing=False
"""Bytes in memory: dicts, with keys sorted when a range is asked for. C types are in `memory.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Protocol

#: Beyond so many, and twice the root of all, new keys are merged into the index.
_FEW = 64


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


@cython.cclass
class OrderedBytes:
    """A map of a backend: does what a `BytesMap` does, and stores call it without the interpreter."""

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        raise NotImplementedError

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        raise NotImplementedError

    def put_all(self, entries: dict[bytes, bytes]) -> None:
        """Keep many values."""
        raise NotImplementedError

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        raise NotImplementedError

    def range(
        self, first: bytes | None, last: bytes | None, reverse: bool = False, open_end: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield entries from `first` to `last`, both included (`last` not if `open_end`), None for no bound."""
        raise NotImplementedError

    def entries(self, first: bytes, last: bytes) -> list[tuple[bytes, bytes]]:
        """Return the entries from `first` to `last`, both included, all at once: for ranges of few entries."""
        return list(self.range(first, last))

    def __len__(self) -> int:
        raise NotImplementedError


class Backend(Protocol):
    """Holds the maps of a task's stores by name."""

    persistent: bool

    def open(self, name: str) -> OrderedBytes:
        """Return the map of a name, a new one if there is none."""

    def drop(self, name: str) -> None:
        """Forget a map."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""


@cython.cclass
class MemoryMap(OrderedBytes):
    """A dict whose sorted keys are made when a range is first asked for, and kept up from then on.

    New keys wait, sorted, in a short list beside the long one, so that a new key does not move all behind it.
    """

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
                insort(self._new, key)
                if len(self._new) > _FEW and len(self._new) ** 2 > 4 * len(self._sorted):
                    self._sorted += self._new
                    self._sorted.sort()  # two runs: merged in one pass
                    self._new.clear()
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
        chosen = self._chosen(first, last, open_end)
        if reverse:
            chosen.reverse()
        return _entries(self._data, chosen)

    def entries(self, first: bytes, last: bytes) -> list[tuple[bytes, bytes]]:
        """Return the entries from `first` to `last`, both included, all at once."""
        data = self._data
        return [(key, data[key]) for key in self._chosen(first, last, False) if key in data]

    def _chosen(self, first: bytes | None, last: bytes | None, open_end: bool) -> list[bytes]:
        if self._sorted is None or 2 * len(self._dead) > len(self._sorted) + len(self._new):
            self._sorted = sorted(self._data)
            self._new.clear()
            self._dead.clear()
        chosen = _between(self._sorted, first, last, open_end)
        if self._new:
            chosen += _between(self._new, first, last, open_end)
            chosen.sort()
        return chosen

    def __len__(self) -> int:
        return len(self._data)


def _between(keys: list[bytes], first: bytes | None, last: bytes | None, open_end: bool) -> list[bytes]:
    begin = 0 if first is None else bisect_left(keys, first)
    if last is None:
        return keys[begin:]
    return keys[begin : bisect_left(keys, last) if open_end else bisect_right(keys, last)]


def _entries(data: dict[bytes, bytes], keys: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for key in keys:
        value = data.get(key)
        if value is not None:
            yield key, value


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
