"""Changes that are told to all brokers by numbered znodes in a folder (ZkNodeChangeNotificationListener of 3.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from barnabas.broker.zookeeper.operations import Children, Create, Delete, Get, Program, check, expect, found_or_none
from barnabas.broker.zookeeper.znodes import MalformedZnodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    #: Is told of what Kafka does not write.
    Report = Callable[[MalformedZnodeError], object]

K = TypeVar("K")

#: The number of the last announcement where there was none.
NONE = -1
#: So many stay for brokers that have not read them; Apache Kafka deletes what is older than 15 minutes.
KEPT = 1000


class Announcements(NamedTuple, Generic[K]):
    """The announcements in a folder, whose names begin with `prefix`.

    `decode(path, data)` returns what has changed. Raises `MalformedZnodeError`.
    """

    folder: str
    prefix: str
    decode: Callable[[str, bytes | None], K]

    def watch(self) -> Program[int]:
        """Return the number of the last one. What is announced from now on is told."""
        (names,) = yield [Children(self.folder, watch=True)]
        return self._last(expect(names, list))

    def read(self, after: int, report: Report) -> Program[tuple[list[K], int]]:
        """Return what was announced after a number, each once, and the number of the last; old ones are deleted.

        `report` is told of what announces nothing. What is deleted has been read before: should this reading come to
        nothing, none is missed.
        """
        (listed,) = yield [Children(self.folder, watch=True)]
        names = sorted(expect(listed, list), key=lambda name: (self._number(name), name))
        new = [f"{self.folder}/{name}" for name in names if self._number(name) > after]
        results = yield [Get(path) for path in new]
        changed: dict[K, None] = {}
        for path, result in zip(new, results, strict=True):
            znode = found_or_none(result)
            try:
                if znode is not None:
                    changed[self.decode(path, znode.data)] = None
            except MalformedZnodeError as problem:
                report(problem)
        yield [Delete(f"{self.folder}/{name}") for name in names[:-KEPT] if self._number(name) <= after]
        return list(changed), max(after, self._last(names))

    def announce(self, changes: Iterable[bytes]) -> Program[None]:
        """Announce changes, one after the other."""
        for data in changes:
            (made,) = yield [Create(f"{self.folder}/{self.prefix}", data, sequential=True)]
            check(made)

    def _number(self, name: str) -> int:
        digits = name.removeprefix(self.prefix)
        return int(digits) if digits != name and digits.isdigit() else NONE

    def _last(self, names: Iterable[str]) -> int:
        return max(map(self._number, names), default=NONE)
