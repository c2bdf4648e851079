"""What goes wrong, and when."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Generic

from barnabas.testing.simulator.faults.broker_faults import BrokerFaults
from barnabas.testing.simulator.faults.client_faults import ClientFaults
from barnabas.testing.simulator.faults.disk_faults import DiskFaults
from barnabas.testing.simulator.faults.group import FaultGroup, P
from barnabas.testing.simulator.faults.network_faults import NetworkFaults
from barnabas.testing.simulator.parts import BrokerParts


class Plan(Generic[P]):
    """Draws for each run which kinds of faults there are and how many, and brings them about until `heal`."""

    GROUPS: ClassVar[tuple[type[FaultGroup[Any]], ...]]
    #: Kinds that do most harm together, and rarely meet where each is chosen by itself.
    THEMES: ClassVar[tuple[tuple[str, ...], ...]]
    #: The only kinds that there are, where they were asked for.
    only: ClassVar[Collection[str]] = ()

    def __init__(self, parts: P) -> None:
        self._parts = parts
        self._world = parts.world
        self._random = parts.world.stream("faults")
        self.duration = self._random.uniform(8, 25)
        self.is_over = False
        self._groups = [group(parts, self._random) for group in self.GROUPS]
        kinds = {name: strike for group in self._groups for name, strike in group.kinds().items()}
        if unknown := [name for name in self.only if name not in kinds]:
            raise ValueError(f"no such kinds of faults here: {', '.join(unknown)}; there are: {', '.join(kinds)}")
        self.kinds = {name: kinds[name] for name in self.only or self._choose(list(kinds))}
        for group in self._groups:
            group.chosen = self.kinds
        #: Whether the power fails while there are acknowledged records that are not on the disk.
        self.loses_unflushed = self._loses_unflushed()
        if self.loses_unflushed:
            parts.ledger.loses_unflushed = True

    def _choose(self, kinds: list[str]) -> Collection[str]:
        random = self._random
        if random.random() < 0.4:
            return random.choice(self.THEMES)
        return self._choose_theme() or [name for name in kinds if random.random() < 0.3]

    def _choose_theme(self) -> Collection[str]:
        """Return kinds that show most in this run; none where no such is to be seen."""
        return ()

    def _loses_unflushed(self) -> bool:
        return False

    def begin(self) -> None:
        """Let the first one come."""
        self._world.note("faults", f"to come: {', '.join(self.kinds) or 'none'}")
        self._parts.network.splits = self._random.random() < 0.3
        if self.kinds:
            self._plan()

    def _plan(self) -> None:
        self._world.after(self._random.expovariate(1 / 1.7), self._strike)

    def _strike(self) -> None:
        if self.is_over:
            return
        if self.may_strike():
            self.kinds[self._random.choice(list(self.kinds))]()
        self._plan()

    def may_strike(self) -> bool:
        """Whether another fault may come now."""
        return True

    def heal(self) -> None:
        """Let all faults be over, and everything run again; who is gone for good stays away."""
        self.is_over = True
        for group in self._groups:
            group.heal()
        self.repair()

    def repair(self) -> None:
        """Start what is down."""
        raise NotImplementedError


class Faults(Plan[BrokerParts]):
    """The faults of a run with one broker."""

    GROUPS = (NetworkFaults, BrokerFaults, DiskFaults, ClientFaults)
    THEMES = (
        ("stop", "power", "die", "crash"),
        ("zombie", "freeze client", "kill client"),
        ("partition", "block", "outrun member", "kill client"),
        ("bad log", "kill client", "freeze client"),
        ("lose client", "hang member", "freeze broker"),
        ("reboot", "stop", "block"),
        ("bad disk", "bad metadata", "slow disk", "full disk"),
    )

    def _choose_theme(self) -> Collection[str]:
        # Where not every record is flushed, what a process or a machine leaves behind shows most.
        if not self._parts.flushes and self._random.random() < 0.2:
            return self.THEMES[0]
        return ()

    def _loses_unflushed(self) -> bool:
        return "power" in self.kinds and not self._parts.flushes

    def repair(self) -> None:
        """Start the broker if it is down, and again if a failure of the disk has taken logs out of service."""
        broker = self._parts.broker
        if broker.has_offline_logs:
            self._world.note("faults", "the operator sees logs that are offline, and starts the broker again")
            broker.stop()
        broker.start()
