# cython: language_level=3, annotation_typing=False
"""Bytes in memory: dicts, with keys sorted when a range is asked for. C types are in `memory.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.streams.state.sorted_entries import SortedEntries

if not cython.compiled:
    from barnabas.streams.serdes.key_bytes import place

#: So many keys stand in one list of the index; with more than twice as many it becomes two.
_LENGTH = 256

#: So many entries are looked at first for the end of a range.
_FEW = 8


class BytesMap(Protocol):
    """Keys and values in the order of their bytes: what a backend holds for a store or one of its segments."""

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""

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

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        raise NotImplementedError

    def load(self, key: bytes, value: bytes | None) -> None:
        """Keep a value, or delete it with None, as one of very many that no caller looks for meanwhile."""
        if value is None:
            self.delete(key)
        else:
            self.put(key, value)

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


#: Takes entries that were gathered, in the order of their keys, those of one key as they came.
Taken = Callable[[list[tuple[bytes, bytes]]], None]


class Gathering(Protocol):
    """Where a store gathers what it is restored from, as looking keys up on disk is dear unless it is done in order."""

    entries: SortedEntries

    def grow(self, size: int) -> SortedEntries:
        """Return the entries with room for one of so many bytes, after those there are were taken if need be."""

    def settle(self) -> None:
        """Have the store take what is gathered."""


class Backend(Protocol):
    """Holds the maps of a task's stores by name."""

    persistent: bool

    def open(self, name: str) -> OrderedBytes:
        """Return the map of a name, a new one if there is none."""

    def drop(self, name: str) -> None:
        """Forget a map."""

    def names(self, prefix: str) -> list[str]:
        """Return the names of maps that begin with a prefix."""

    def gathering(self, taken: Taken) -> Gathering | None:
        """Return where a store gathers its changelog, and who takes it then; None where order does not matter."""


@cython.cclass
class MemoryMap(OrderedBytes):
    """A dict whose keys are sorted when a range is first asked for, and kept sorted from then on.

    They stand in short lists, one after the other, so that a new or deleted key moves the few beside it only.
    """

    def __init__(self) -> None:
        self._data: dict[bytes, bytes] = {}
        #: Empty until a range is asked for. The keys of a list are at least its bound, and less than the next one's.
        self._lists: list[list[bytes]] = []
        self._bounds: list[bytes] = []
        #: The list of the last range or new key, and from where to where it was: what follows is often beside it.
        self._near = self._low = self._high = 0

    def get(self, key: bytes) -> bytes | None:
        """Return a value, None for none."""
        return self._data.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Keep a value."""
        data = self._data
        if not self._lists:
            data[key] = value
            return
        size = len(data)
        if data.setdefault(key, value) is not value:
            data[key] = value
        elif len(data) != size:
            self._add(key)

    def delete(self, key: bytes) -> bytes | None:
        """Forget a key; return the value that it had."""
        value = self._data.pop(key, None)
        if value is not None and self._lists:
            self._remove(key)
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
        found = []
        for key in self._chosen(first, last, False):
            found.append((key, data[key]))
        return found

    def beside(self, key: bytes | None, reverse: bool, included: bool = False) -> bytes | None:
        """Return the first key after `key`, or the last before it: see `NavigableMap` of `skip_list_map`."""
        self._sort()
        lists = self._lists
        at = (len(lists) - 1 if reverse else 0) if key is None else self._list_of(key)
        keys = lists[at]
        if reverse:
            position = (len(keys) if key is None else place(keys, key, included, 0, len(keys))) - 1
            if position >= 0:
                return keys[position]
            return lists[at - 1][-1] if at > 0 else None
        position = 0 if key is None else place(keys, key, not included, 0, len(keys))
        if position < len(keys):
            return keys[position]
        return lists[at + 1][0] if at + 1 < len(lists) else None

    def _add(self, key: bytes) -> None:
        at = self._list_of(key)
        keys = self._lists[at]
        position = place(keys, key, False, self._low, self._high)
        keys.insert(position, key)
        if len(keys) > 2 * _LENGTH:
            self._lists.insert(at + 1, keys[_LENGTH:])
            self._bounds.insert(at + 1, keys[_LENGTH])
            del keys[_LENGTH:]
        else:
            self._high += 1

    def _remove(self, key: bytes) -> None:
        at = self._list_of(key)
        keys = self._lists[at]
        del keys[place(keys, key, False, self._low, self._high)]
        if not keys and len(self._lists) > 1:
            del self._lists[at], self._bounds[at]
            self._bounds[0] = b""

    def _list_of(self, key: bytes) -> int:
        at = place(self._bounds, key, True, self._near + 1, self._near + 1) - 1
        if at != self._near:
            self._near, self._low, self._high = at, 0, len(self._lists[at])
        return at

    def _sort(self) -> None:
        if not self._lists:
            keys = sorted(self._data)
            self._lists = [keys[at : at + _LENGTH] for at in range(0, len(keys), _LENGTH)] or [[]]
            self._bounds = [b"", *(keys[0] for keys in self._lists[1:])]

    def _chosen(self, first: bytes | None, last: bytes | None, open_end: bool) -> list[bytes]:
        self._sort()
        begin = 0 if first is None else self._list_of(first)
        end = len(self._lists) - 1 if last is None else place(self._bounds, last, True, begin + 1, begin + 1) - 1
        if begin == end:
            return self._between(begin, first, last, open_end)
        if begin > end:
            return []
        chosen = self._between(begin, first, None, open_end)
        for at in range(begin + 1, end):
            chosen += self._lists[at]
        chosen += self._between(end, None, last, open_end)
        return chosen

    def _between(self, at: int, first: bytes | None, last: bytes | None, open_end: bool) -> list[bytes]:
        keys = self._lists[at]
        begin = 0 if first is None else place(keys, first, False, 0, len(keys))
        end = len(keys) if last is None else place(keys, last, not open_end, begin, begin + _FEW)
        self._near, self._low, self._high = at, begin, end
        return keys[begin:end]

    def __len__(self) -> int:
        return len(self._data)


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

    def gathering(self, taken: Taken) -> None:
        """Return nothing: dicts do not care for order."""


def increment(prefix: bytes) -> bytes | None:
    """Return the first bytes after all that begin with `prefix`; None when there are none."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes((trimmed[-1] + 1,)) if trimmed else None
