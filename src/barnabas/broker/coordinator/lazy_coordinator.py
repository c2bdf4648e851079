"""A coordinator that is not there until a request needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from barnabas.broker.instant import Instant


class Coordinator(Protocol):
    """A service of the core that ends with the broker."""

    def tick(self, at: Instant) -> None:
        """Do what is due."""

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""

    def close(self) -> None:
        """Answer all parked requests; no request is served any more."""


AnyCoordinator = TypeVar("AnyCoordinator", bound=Coordinator)


class LazyCoordinator(Generic[AnyCoordinator]):
    """A coordinator as a service of the core, made when a request first needs it.

    Loading its code takes as long as starting the rest of the broker, and many brokers never see a group or a
    transaction. Where there are some from before, it is made a moment after the start, so that they are loaded before
    the first request asks.
    """

    __slots__ = ("_coordinator", "_factory", "_start_at")

    def __init__(self, factory: Callable[[], AnyCoordinator], start_at: float):
        self._factory = factory
        self._start_at = start_at
        self._coordinator: AnyCoordinator | None = None

    def make(self) -> AnyCoordinator:
        """Return the coordinator."""
        if self._coordinator is None:
            self._coordinator = self._factory()
        return self._coordinator

    @property
    def made(self) -> AnyCoordinator | None:
        """The coordinator if it was needed already."""
        return self._coordinator

    def next_deadline(self) -> float:
        """When the coordinator has something to do, or is to be made."""
        return self._start_at if self._coordinator is None else self._coordinator.next_deadline()

    def tick(self, at: Instant) -> None:
        """Let the coordinator do what is due."""
        self.make().tick(at)

    def close(self) -> None:
        """Close the coordinator, if it was made."""
        if self._coordinator is not None:
            self._coordinator.close()
