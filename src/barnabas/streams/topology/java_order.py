"""The order in which Java's collections list names: Kafka's description of a topology shows it.

Kafka keeps a node's neighbours in a TreeSet whose comparator looks at sizes that still grow while nodes are put in, in
the order of a HashMap. To print the same, both are followed here: `java.util.HashMap` and `java.util.TreeMap`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_INITIAL_CAPACITY = 16


def hash_order(names: Iterable[str]) -> list[str]:
    """Return distinct names as a HashMap with them as keys lists them, when they were put in this order."""
    distinct = list(dict.fromkeys(names))
    capacity = _INITIAL_CAPACITY
    while len(distinct) > capacity * 3 // 4:
        capacity *= 2
    buckets: dict[int, list[str]] = {}
    for name in distinct:
        buckets.setdefault(_spread(name) & (capacity - 1), []).append(name)
    return [name for index in sorted(buckets) for name in buckets[index]]


def _spread(name: str) -> int:
    value = 0
    units = name.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value ^ value >> 16


class _Entry(Generic[T]):
    __slots__ = ("left", "parent", "red", "right", "value")

    def __init__(self, value: T, parent: _Entry[T] | None) -> None:
        self.value = value
        self.parent = parent
        self.left: _Entry[T] | None = None
        self.right: _Entry[T] | None = None
        self.red = True


class TreeSet(Generic[T]):
    """A red-black tree that puts a value where the comparator, as it is at that moment, leads."""

    def __init__(self, compare: Callable[[T, T], int]) -> None:
        self._compare = compare
        self._root: _Entry[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return self._walk(self._root)

    def _walk(self, entry: _Entry[T] | None) -> Iterator[T]:
        if entry is not None:
            yield from self._walk(entry.left)
            yield entry.value
            yield from self._walk(entry.right)

    def add(self, value: T) -> None:
        """Put a value in, unless one that compares equal is met on the way."""
        parent, at, order = None, self._root, 0
        while at is not None:
            parent = at
            order = self._compare(value, at.value)
            if order == 0:
                return
            at = at.left if order < 0 else at.right
        entry = _Entry(value, parent)
        if parent is None:
            self._root = entry
        elif order < 0:
            parent.left = entry
        else:
            parent.right = entry
        self._balance(entry)

    def _balance(self, entry: _Entry[T]) -> None:
        while (parent := entry.parent) is not None and parent.red and (above := parent.parent) is not None:
            on_left = parent is above.left
            uncle = above.right if on_left else above.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                above.red = True
                entry = above
                continue
            if entry is (parent.right if on_left else parent.left):
                self._rotate(parent, left=on_left)
                entry, parent = parent, entry
            parent.red, above.red = False, True
            self._rotate(above, left=not on_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, entry: _Entry[T], *, left: bool) -> None:
        child = entry.right if left else entry.left
        if child is None:
            return
        inner = child.left if left else child.right
        if left:
            entry.right, child.left = inner, entry
        else:
            entry.left, child.right = inner, entry
        if inner is not None:
            inner.parent = entry
        child.parent = entry.parent
        if entry.parent is None:
            self._root = child
        elif entry.parent.left is entry:
            entry.parent.left = child
        else:
            entry.parent.right = child
        entry.parent = child
