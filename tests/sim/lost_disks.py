"""A cluster under a quorum in which a machine loses its disk without a word, and then the others are killed."""

from __future__ import annotations

from collections.abc import Callable, Collection

from barnabas.testing.simulator.cluster.cluster_faults import ClusterFaults, ClusterPlan
from barnabas.testing.simulator.cluster.cluster_scenario import QuorumScenario


class LostDisks(ClusterFaults):
    """The one fault: who has lost its disk may lead last, as far as the controller knows."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {"lost disk, then killed others": self._lose_disk_and_kill}

    def _lose_disk_and_kill(self) -> None:
        if not self._has_spare_copies():
            return
        random = self._random
        lost, *others = random.sample(list(self._parts.brokers), len(self._parts.brokers))
        lost.replace_disk()
        lost.has_lost = True
        self._world.after(random.uniform(0.5, 6), lost.start)
        # All at once: of two that die one after the other the second may have what the first lacks, nothing tells
        # the controller which it was once both are back, and it takes either (cluster.md, "What is next").
        at = random.uniform(0, 3)
        for other in others:
            self._world.after(at, self._kill, other)


class LostDisksPlan(ClusterPlan):
    """That alone, for half a minute."""

    GROUPS = (LostDisks,)

    def _choose(self, kinds: list[str]) -> Collection[str]:
        self.duration = 30.0
        return kinds


class LostDisksScenario(QuorumScenario):
    """Brokers die in every seed as above; nothing else goes wrong."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults = LostDisksPlan(self)
