"""Programs over znodes, one after the other: an earlier one that ends late does not undo what a later one has found."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.zookeeper.operations import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.operations import Operations, Program
    from barnabas.errors import KafkaError

T = TypeVar("T")


class ProgramQueue:
    """Begins a program when what came of the last one was taken in.

    A program reads in several steps, so of two that overlap the later one may end first. No order of taking in would be
    right then: each may have read some znodes before the other did, and others after it.
    """

    def __init__(self, session: Operations) -> None:
        self._session = session
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def run(self, make: Callable[[], Program[T]], done: Callable[[T | KafkaError], None]) -> None:
        """Carry a program out when its turn comes, and only then ask for it; see `operations.run`."""

        def finished(result: T | KafkaError) -> None:
            try:
                done(result)
            finally:
                self._is_busy = False
                self._begin_next()

        def program() -> Program[T]:
            return (yield from make())

        self._waiting.append(lambda: run(self._session, program(), finished))
        self._begin_next()

    def _begin_next(self) -> None:
        if not self._is_busy and self._waiting:
            self._is_busy = True
            self._waiting.popleft()()
