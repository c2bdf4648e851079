"""Sorted maps whose iterators see what changes: of Java's ConcurrentSkipListMap, below Kafka's stores in memory.

An iterator holds the entry that it gives next, as it was when the one before was given; all later ones it looks up
then. So it shows entries that were put meanwhile, and the one it holds although that was deleted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class NavigableMap(Protocol[K, V_co]):
    """What a `SkipListIterator` needs of a map."""

    def get(self, key: K) -> V_co | None:
        """Return a value, None for none."""

    def beside(self, key: K | None, reverse: bool, included: bool = False) -> K | None:
        """Return the first key after `key` (the last before it if `reverse`; from the end for None), None for none.

        `included`: or `key` itself, when it is there.
        """


class SkipListMap(Generic[K, V]):
    """A dict whose keys are sorted when an iterator first asks for their order, and kept sorted from then on."""

    __slots__ = ("_data", "_keys")

    def __init__(self) -> None:
        self._data: dict[K, V] = {}
        self._keys: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[K]:
        return iter(self._data)

    def get(self, key: K) -> V | None:
        """Return a value, None for none."""
        return self._data.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        if self._keys is not None and key not in self._data:
            self._keys.insert(bisect_left(self._keys, key), key)
        self._data[key] = value

    def pop(self, key: K) -> V | None:
        """Forget a key; return the value that it had."""
        value = self._data.pop(key, None)
        if value is not None and self._keys is not None:
            del self._keys[bisect_left(self._keys, key)]
        return value

    def values(self) -> Iterator[V]:
        """Yield all values, in no order."""
        return iter(self._data.values())

    def beside(self, key: K | None, reverse: bool, included: bool = False) -> K | None:
        """Return the first key after `key`, or the last before it: see `NavigableMap`."""
        keys = self._keys
        if keys is None:
            keys = self._keys = sorted(self._data)
        if key is None:
            at = len(keys) - 1 if reverse else 0
        elif reverse:
            at = (bisect_right if included else bisect_left)(keys, key) - 1
        else:
            at = (bisect_left if included else bisect_right)(keys, key)
        return keys[at] if 0 <= at < len(keys) else None


class AtTime(Protocol):
    """An iterator that is open; `time` is where it is."""

    @property
    def time(self) -> int:
        """From there on nothing expires."""


def drop_expired(kept: SkipListMap[int, V], live: int, opened: Iterable[AtTime]) -> list[tuple[int, V]]:
    """Take out what lies before the time `live`, and before all iterators that are open; return it, by time."""
    dropped: list[tuple[int, V]] = []
    oldest = kept.beside(None, False)
    if oldest is None or oldest >= live:
        return dropped
    live = min((live, *(each.time for each in opened)))
    while oldest is not None and oldest < live:
        value = kept.pop(oldest)
        if value is not None:
            dropped.append((oldest, value))
        oldest = kept.beside(None, False)
    return dropped


class SkipListIterator(Generic[K, V]):
    """Entries from `first` to `last`, both included, None for no bound."""

    __slots__ = ("_end", "_kept", "_reverse", "ahead")

    def __init__(self, kept: NavigableMap[K, V], first: K | None, last: K | None, reverse: bool = False) -> None:
        self._kept = kept
        self._reverse = reverse
        self._end: Any = first if reverse else last
        #: The entry that is given next, None at the end; changes of the map do not reach it.
        self.ahead: tuple[K, V] | None = None
        self.go_on(last if reverse else first, included=True)

    def __iter__(self) -> SkipListIterator[K, V]:
        return self

    def __next__(self) -> tuple[K, V]:
        found = self.ahead
        if found is None:
            raise StopIteration
        self.go_on(found[0])
        return found

    def go_on(self, key: K | None, included: bool = False) -> None:
        """Look up the entry beside a key, which is given next."""
        self.ahead = None
        found = self._kept.beside(key, self._reverse, included)
        if found is None or (self._end is not None and (found < self._end if self._reverse else found > self._end)):
            return
        value = self._kept.get(found)
        if value is not None:
            self.ahead = found, value

    def to_the_end(self) -> K | None:
        """Pass all that is left; return the last key, None for none."""
        self.ahead = None
        return self._kept.beside(self._end, not self._reverse, included=True)
