"""A broker's coordinator on virtual time."""

from __future__ import annotations

from typing import Protocol

from barnabas.broker.instant import Instant

EPOCH_MS = 1_700_000_000_000


class Coordinator(Protocol):
    """What is common to the coordinators of groups and of transactions."""

    @property
    def loading(self) -> object: ...

    def next_deadline(self) -> float: ...

    def tick(self, at: Instant) -> object: ...


class CoordinatorHarness:
    """Lets time pass for the coordinator that `start` makes."""

    coordinator: Coordinator
    now = 1000.0

    def start(self) -> None:
        raise NotImplementedError

    def restart(self, wait_until_loaded: bool = True) -> None:
        """A new coordinator on the same records."""
        self.start()
        while wait_until_loaded and self.coordinator.loading:
            self.coordinator.tick(self.at)

    @property
    def at(self) -> Instant:
        return Instant(self.now, self.now_ms)

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + round(self.now * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due, when it is due."""
        end = self.now + seconds
        while (deadline := self.coordinator.next_deadline()) <= end:
            self.now = max(self.now, deadline)
            self.coordinator.tick(self.at)
        self.now = end
