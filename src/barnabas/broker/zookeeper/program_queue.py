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
        self._current: Callable[[], None] | None = None

    def run(self, make: Callable[[], Program[T]], done: Callable[[T | KafkaError], None]) -> None:
        """Carry a program out when its turn comes, and only then ask for it; see `operations.run`."""

        def finished(result: T | KafkaError) -> None:
            try:
                done(result)
            finally:
                if self._current is begin:
                    self.begin_anew()

        def program() -> Program[T]:
            return (yield from make())

        def begin() -> None:
            run(self._session, program(), finished)

        self._waiting.append(begin)
        if self._current is None:
            self.begin_anew()

    def begin_anew(self) -> None:
        """Go on with the next program; none is waited for, as after a fault that may have kept one from its end."""
        self._current = self._waiting.popleft() if self._waiting else None
        if self._current is not None:
            self._current()
