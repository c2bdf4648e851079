"""Storage that works when the test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.core_broker import CoreBroker


class SlowStorage:
    """Work that is done when the test says so."""

    def __init__(self) -> None:
        self.in_flight: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.in_flight.append((work, done))

    def step(self) -> None:
        """Let the disk be done with the oldest of its work."""
        work, done = self.in_flight.popleft()
        work()
        done()

    def drain(self) -> None:
        while self.in_flight:
            self.step()


def finish(broker: CoreBroker, storage: SlowStorage, steps: int = -1) -> None:
    """Let the disk work off so many pieces of its work, or all."""
    while storage.in_flight and steps:
        storage.step()
        steps -= 1
        broker.node.core.settle(broker.instant)


def work_off(broker: CoreBroker, storage: SlowStorage) -> None:
    """Let the disk work off what one piece of work after the other asks of it."""
    for _ in range(3):
        broker.advance(0)
        finish(broker, storage)
    broker.advance(0)
