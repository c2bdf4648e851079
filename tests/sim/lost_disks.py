"""A cluster under a quorum in which a machine loses what it had without a word, and then the others are killed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from barnabas.testing.simulator.cluster.cluster_faults import ClusterFaults, ClusterPlan
from barnabas.testing.simulator.cluster.cluster_scenario import QuorumScenario
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember


class LostDisks(ClusterFaults):
    """The one fault: who has lost its disk may lead last, as far as the controller knows."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {"lost disk, then killed others": self._lose_and_kill}

    def _lose_and_kill(self) -> None:
        if not self._has_spare_copies():
            return
        random = self._random
        lost, *others = random.sample(list(self._parts.brokers), len(self._parts.brokers))
        self._lose(lost)
        lost.has_lost = True
        self._world.after(random.uniform(0.5, 6), lost.start)
        for at, other in zip(self._moments(len(others)), others, strict=True):
            self._world.after(at, self._kill, other)

    def _lose(self, broker: SimulatedMember) -> None:
        broker.replace_disk()

    def _moments(self, count: int) -> Sequence[float]:
        """Return when each of the others is killed: all at once."""
        return [self._random.uniform(0, 3)] * count


class LostDisksInTurn(LostDisks):
    """The others die one after the other: the second may have what the first lacks, and none is eligible."""

    def _moments(self, count: int) -> Sequence[float]:
        return [self._random.uniform(0, 3) for _ in range(count)]


class LostPowerInTurn(LostDisksInTurn):
    """The machine is reset: what was not flushed is gone, and the directory is the one that it had."""

    def _lose(self, broker: SimulatedMember) -> None:
        broker.lose_power()


class LostDisksPlan(ClusterPlan):
    """That alone, for half a minute."""

    GROUPS = (LostDisks,)

    def _choose(self, kinds: list[str]) -> Collection[str]:
        self.duration = 30.0
        return kinds


class LostDisksInTurnPlan(LostDisksPlan):
    """See `LostDisksInTurn`."""

    GROUPS = (LostDisksInTurn,)


class LostPowerInTurnPlan(LostDisksPlan):
    """See `LostPowerInTurn`."""

    GROUPS = (LostPowerInTurn,)


class LostDisksScenario(QuorumScenario):
    """Brokers die in every seed as above; nothing else goes wrong."""

    plan: type[LostDisksPlan] = LostDisksPlan

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults = self.plan(self)


class LostDisksInTurnScenario(LostDisksScenario):
    """See `LostDisksInTurn`."""

    plan = LostDisksInTurnPlan


class LostPowerInTurnScenario(LostDisksScenario):
    """See `LostPowerInTurn`."""

    plan = LostPowerInTurnPlan
