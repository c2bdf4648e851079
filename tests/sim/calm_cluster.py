"""A cluster in which nothing goes wrong."""

from __future__ import annotations

from barnabas.testing.simulator.cluster.cluster_scenario import ClusterScenario


class CalmCluster(ClusterScenario):
    """No faults at all."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.faults.kinds.clear()
