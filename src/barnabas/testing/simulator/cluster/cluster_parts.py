"""What the faults of a cluster see of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.testing.simulator.parts import Parts

if TYPE_CHECKING:
    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
    from barnabas.testing.simulator.cluster.control_planes import Plane
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
    from barnabas.testing.simulator.workloads.workload import Workload


class ClusterParts(Parts, Protocol):
    """The parts of a run with a cluster."""

    brokers: Sequence[SimulatedMember]
    plane: Plane
    workloads: Sequence[Workload]

    @property
    def nodes(self) -> Sequence[ClusterMachine]:
        """All machines."""
