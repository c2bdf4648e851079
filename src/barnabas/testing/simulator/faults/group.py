"""What all kinds of faults have in common."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.testing.simulator.parts import Parts

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Application

P = TypeVar("P", bound=Parts)


class FaultGroup(Generic[P]):
    """Faults of one part of the world: each kind brings one fault about when it is called."""

    def __init__(self, parts: P, random: Random) -> None:
        self._parts = parts
        self._world = parts.world
        self._random = random
        #: The kinds that this run has, of all groups.
        self.chosen: dict[str, Callable[[], None]] = {}

    def kinds(self) -> dict[str, Callable[[], None]]:
        """Name every kind, and what brings it about."""
        raise NotImplementedError

    def heal(self) -> None:
        """Let all faults of the group be over."""

    def _noted(self, what: str) -> None:
        self._world.note("faults", what)

    def _application(self) -> Application:
        return self._random.choice(self._parts.applications)

    def _cut_off(self, application: Application, seconds: float) -> None:
        process = application.process
        self._noted(f"{process.name} is cut off for {seconds:.1f} s")
        self._world.counts["clients cut off"] += 1
        network = self._parts.network
        network.partition(process, network.any_machine(self._random).process, seconds)
