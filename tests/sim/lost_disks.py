"""A cluster under a quorum in which a machine loses what it had without a word, and then the others are killed."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.testing.simulator.cluster.cluster_faults import ClusterPlan, LostDisks, LostDisksInTurn, LostPowerInTurn
from barnabas.testing.simulator.cluster.cluster_scenario import QuorumScenario


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
