"""What goes wrong with the nodes of a cluster, and between them."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.testing.simulator.cluster.cluster_audit import what_is_missing
from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
from barnabas.testing.simulator.cluster.cluster_parts import ClusterParts
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
from barnabas.testing.simulator.faults.client_faults import ClientFaults
from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.faults.network_faults import NetworkFaults
from barnabas.testing.simulator.faults.plan import Plan


class ClusterFaults(FaultGroup[ClusterParts]):
    """What goes wrong with the nodes of a cluster, and between them."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "kill broker": self._kill_broker,
            "stop broker": self._stop_broker,
            "pause broker": self._pause_broker,
            "broker dies writing": self._die_writing,
            "broker without power": self._take_power,
            "lost disk": self._lose_disk,
            "bad disk": self._spoil_disk,
            "slow disk": self._slow_disk,
            "kill controller": self._kill_controller,
            "pause controller": self._pause_controller,
            "controller without power": self._take_controllers_power,
            "cut nodes": self._cut_nodes,
            "isolate": self._isolate,
            "kill two": self._kill_two,
        }

    # --- brokers

    def _broker(self) -> SimulatedMember:
        return self._random.choice(self._parts.brokers)

    def _kill(self, node: ClusterMachine) -> None:
        if node.is_running:
            node.crash("by the operator")
            self._world.after(self._random.choice((0.1, 1.0, 5.0)) * self._random.random(), node.start)

    def _kill_broker(self) -> None:
        self._kill(self._broker())

    def _kill_two(self) -> None:
        for broker in self._random.sample(list(self._parts.brokers), 2):
            self._kill(broker)

    def _stop_broker(self) -> None:
        broker = self._broker()
        if broker.is_in_service:
            broker.stop()

    def _pause(self, node: ClusterMachine) -> None:
        seconds = self._random.choice((0.3, 2.0, 6.0, 12.0))
        node.process.frozen_until = self._world.now + seconds
        self._noted(f"{node.name} is paused for {seconds} s")
        self._world.counts[f"{node.kind}s paused"] += 1

    def _pause_broker(self) -> None:
        self._pause(self._broker())

    def _die_writing(self) -> None:
        broker = self._broker()
        if broker.is_in_service and broker.disk.die_after is None:
            broker.disk.die_after = self._random.randint(0, 40)
            self._noted(f"{broker.name} will die after {broker.disk.die_after} changes of its disk")

    # --- one copy at a time

    def _has_spare_copies(self) -> bool:
        """Whether each partition has all its replicas, so that the next copy to be lost is the only one."""
        return not self._parts.network.has_faulty_disk and not what_is_missing_of_copies(self._parts)

    def _take_power(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.lose_power()
            self._world.after(self._random.uniform(0.5, 6), broker.start)

    def _lose_disk(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.replace_disk()
            self._world.after(self._random.uniform(0.5, 6), broker.start)

    def _spoil_disk(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.disk.errors = self._random.choice((0.05, 0.3, 1.0))
            self._noted(f"operations of the disk of {broker.name} fail: {broker.disk.errors:.0%}")
            self._world.counts["times of a bad disk"] += 1
            self._world.after(self._random.uniform(0.2, 4), self._mend_disk, broker)

    def _mend_disk(self, node: ClusterMachine) -> None:
        node.disk.errors = node.disk.slowness = 0.0

    def _slow_disk(self) -> None:
        node = self._random.choice(self._parts.nodes)
        node.disk.slowness = self._random.choice((0.001, 0.02, 0.2))
        self._noted(f"the disk of {node.name} takes up to {node.disk.slowness} s")
        self._world.counts["times of a slow disk"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._mend_disk, node)

    # --- controllers

    def _controller(self) -> ClusterMachine:
        """Return the active one mostly: its end is what matters."""
        active = [one for one in self._parts.controllers if one.is_active]
        return self._random.choice(active if active and self._random.random() < 0.7 else self._parts.controllers)

    def _kill_controller(self) -> None:
        self._kill(self._controller())

    def _pause_controller(self) -> None:
        self._pause(self._controller())

    def _take_controllers_power(self) -> None:
        node = self._controller()
        if node.is_running:
            node.lose_power()
            self._world.after(self._random.uniform(0.5, 6), node.start)

    # --- between nodes

    def _cut_nodes(self) -> None:
        one, other = self._random.sample(list(self._parts.nodes), 2)
        seconds, both = self._random.uniform(0.5, 12), self._random.random() < 0.7
        self._noted(f"nothing gets from {one.name} to {other.name}{' or back' if both else ''} for {seconds:.1f} s")
        self._world.counts["links cut"] += 1
        self._parts.network.partition(one.process, other.process, seconds, both=both)

    def _isolate(self) -> None:
        one = self._random.choice(self._parts.nodes)
        seconds = self._random.uniform(1, 14)
        self._noted(f"{one.name} is cut off from all other nodes for {seconds:.1f} s")
        self._world.counts[f"{one.kind}s isolated"] += 1
        for other in self._parts.nodes:
            if other is not one:
                self._parts.network.partition(one.process, other.process, seconds)

    def heal(self) -> None:
        """See `FaultGroup`."""
        for node in self._parts.nodes:
            node.process.clock_offset_ms = 0
            node.disk.die_after = None
            self._mend_disk(node)


def what_is_missing_of_copies(parts: ClusterParts) -> str:
    """Say why no copy may be lost now; nothing when each partition has all its replicas in sync."""
    return what_is_missing(parts.image, parts.brokers, only_isr=True)


class ClusterPlan(Plan[ClusterParts]):
    """The faults of a run with a cluster."""

    GROUPS = (NetworkFaults, ClusterFaults, ClientFaults)
    THEMES = (
        ("kill broker", "pause broker", "cut nodes"),
        ("kill broker", "kill controller"),
        ("kill two", "broker dies writing"),
        ("broker without power", "stop broker"),
        ("lost disk", "kill broker"),
        ("isolate", "bad network", "block"),
        ("isolate", "pause broker", "kill broker"),
        ("cut nodes", "kill client", "zombie"),
        ("bad disk", "slow disk"),
        ("pause controller", "kill controller", "controller without power", "stop broker"),
    )

    def repair(self) -> None:
        """See `Plan`."""
        self._parts.network.heal()
        for node in self._parts.nodes:
            if isinstance(node, SimulatedMember) and node.has_offline_logs:
                self._world.note("faults", f"the operator sees logs of {node.name} that are offline, and restarts it")
                node.crash("by the operator")
            node.start()
