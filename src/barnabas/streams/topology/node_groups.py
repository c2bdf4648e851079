"""Which nodes belong together: those that are joined by an edge or share a store are one sub-topology."""

from __future__ import annotations

from collections.abc import Iterable


class NodeGroups:
    """Union of names, as Kafka's QuickUnion: the groups are numbered by their first node."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def add(self, name: str) -> None:
        """Begin a group of one."""
        self._parent[name] = name

    def root(self, name: str) -> str:
        """Return the name that stands for a group."""
        current = name
        while (parent := self._parent[current]) != current:
            self._parent[current] = self._parent[parent]
            current = parent
        return current

    def unite(self, name: str, others: Iterable[str]) -> None:
        """Make one group of the groups of several names."""
        for other in others:
            first, second = self.root(name), self.root(other)
            if first != second:
                self._parent[first] = second

    def numbered(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Return the groups by number, each with its names in the order given."""
        by_root: dict[str, list[str]] = {}
        for name in names:
            by_root.setdefault(self.root(name), []).append(name)
        return dict(enumerate(by_root.values()))
