"""What goes wrong with the nodes of a cluster, and between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER
from barnabas.testing.simulator.cluster.cluster_audit import what_is_missing
from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
from barnabas.testing.simulator.cluster.cluster_parts import ClusterParts
from barnabas.testing.simulator.cluster.directed_faults import DirectedFaults, DirectedZooKeeperFaults, OfSteps
from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember
from barnabas.testing.simulator.faults.client_faults import ClientFaults
from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.faults.network_faults import NetworkFaults
from barnabas.testing.simulator.faults.plan import Plan
from barnabas.testing.simulator.workloads.recreated_topic import RecreatedTopic
from barnabas.testing.simulator.world import Process

#: How often a directory that is lost comes back as it was.
_COMES_BACK = 0.5


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
            "full disk": self._fill_disk,
            "lost directory": self._lose_directory,
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
        dying = any(broker.disk.die_after is not None for broker in self._parts.brokers)
        return not dying and not self._parts.network.has_faulty_disk and not what_is_missing_of_copies(self._parts)

    def _take_power(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.lose_power()
            self._come_back(broker)

    def _lose_disk(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.replace_disk()
            self._come_back(broker)

    def _come_back(self, broker: SimulatedMember) -> None:
        broker.has_lost = True
        self._world.after(self._random.uniform(0.5, 6), broker.start)

    def _lose_directory(self) -> None:
        """Let one of several directories be gone: the broker goes on with the others, until the operator comes.

        He may have the very disk run again, with all that it held.
        """
        broker = self._broker()
        if len(broker.directories) > 1 and broker.is_in_service and self._has_spare_copies():
            broker.disk.lost_directory = self._random.choice(list(broker.directories))
            self._noted(f"{broker.name} loses {broker.disk.lost_directory}")
            self._world.counts["times of a lost directory"] += 1
            away, random = self._random.uniform(1, 8), self._world.stream(f"directory lost at {self._world.now}")
            broker.directory_comes_back = random.random() < _COMES_BACK
            self._world.after(away + broker.directory_comes_back * random.uniform(0, 8), self._mend_directory, broker)

    def _mend_directory(self, broker: SimulatedMember) -> None:
        if not broker.disk.lost_directory:
            return
        if broker.directory_comes_back:
            broker.return_directory()
            self._world.after(self._random.uniform(0.5, 6), broker.start)
        else:
            broker.replace_directory()
            self._come_back(broker)

    def _fill_disk(self) -> None:
        node: ClusterMachine = self._controller() if self._random.random() < 0.2 else self._broker()
        if not isinstance(node, SimulatedMember) or self._has_spare_copies():
            node.disk.leave_room(self._random.choice((0, 500, 20_000)))
            self._noted(f"the disk of {node.name} is full")
            self._world.counts["times of a full disk"] += 1
            self._world.after(self._random.uniform(0.3, 5), self._mend_disk, node)

    def _spoil_disk(self) -> None:
        if self._has_spare_copies():
            broker = self._broker()
            broker.disk.errors = self._random.choice((0.05, 0.3, 1.0))
            self._noted(f"operations of the disk of {broker.name} fail: {broker.disk.errors:.0%}")
            self._world.counts["times of a bad disk"] += 1
            self._world.after(self._random.uniform(0.2, 4), self._mend_disk, broker)

    def _mend_disk(self, node: ClusterMachine) -> None:
        node.disk.errors = node.disk.slowness = 0.0
        node.disk.capacity = None

    def _slow_disk(self) -> None:
        node = self._random.choice(self._parts.nodes)
        node.disk.slowness = self._random.choice((0.001, 0.02, 0.2))
        self._noted(f"the disk of {node.name} takes up to {node.disk.slowness} s")
        self._world.counts["times of a slow disk"] += 1
        self._world.after(self._random.uniform(0.5, 5), self._mend_disk, node)

    # --- controllers

    def _controller(self) -> ClusterMachine:
        """Return the active one mostly: its end is what matters."""
        parts = self._parts
        active, all_of_them = parts.plane.active(parts.brokers), parts.plane.controllers or parts.brokers
        return self._random.choice(active if active and self._random.random() < 0.7 else all_of_them)

    def _kill_controller(self) -> None:
        self._kill(self._controller())

    def _pause_controller(self) -> None:
        self._pause(self._controller())

    def _take_controllers_power(self) -> None:
        node = self._controller()
        if isinstance(node, SimulatedMember):
            # Where a broker is the controller, what it has is a copy.
            self._kill(node)
        elif node.is_running:
            node.lose_power()
            self._world.after(self._random.uniform(0.5, 6), node.start)

    # --- between nodes

    def _places(self) -> list[Process]:
        """Return what links can be cut from."""
        return [*self._parts.plane.places, *(broker.process for broker in self._parts.brokers)]

    def _cut_nodes(self) -> None:
        one, other = self._random.sample(self._places(), 2)
        seconds, both = self._random.uniform(0.5, 12), self._random.random() < 0.7
        self._noted(f"nothing gets from {one.name} to {other.name}{' or back' if both else ''} for {seconds:.1f} s")
        self._world.counts["links cut"] += 1
        self._parts.network.partition(one, other, seconds, both=both)

    def _isolate(self) -> None:
        one = self._random.choice(self._places())
        seconds = self._random.uniform(1, 14)
        self._noted(f"{one.name} is cut off from all other nodes for {seconds:.1f} s")
        self._world.counts["nodes isolated"] += 1
        for other in self._places():
            if other is not one:
                self._parts.network.partition(one, other, seconds)

    def heal(self) -> None:
        """See `FaultGroup`."""
        for node in self._parts.nodes:
            node.process.clock_offset_ms = 0
            node.disk.die_after = None
            self._mend_disk(node)
            if isinstance(node, SimulatedMember):
                self._mend_directory(node)


class LostDisks(ClusterFaults, OfSteps):
    """A machine loses what it had without a word, and then the others are killed: it may be the last that has led."""

    KIND = "lost disk and then killed others"

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {self.KIND: self._lose_and_kill}

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

    KIND = "lost disk and then the others in turn"

    def _moments(self, count: int) -> Sequence[float]:
        return [self._random.uniform(0, 3) for _ in range(count)]


class LostPowerInTurn(LostDisksInTurn):
    """The machine is reset: what was not flushed is gone, and the directory is the one that it had."""

    KIND = "lost power and then the others in turn"

    def _lose(self, broker: SimulatedMember) -> None:
        broker.lose_power()


def what_is_missing_of_copies(parts: ClusterParts) -> str:
    """Say why no copy may be lost now; nothing when each partition has all its replicas in sync."""
    return what_is_missing(parts.plane.partitions, parts.brokers, only_isr=True)


class ZooKeeperFaults(FaultGroup[ClusterParts]):
    """What goes wrong with sessions."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {"expire session": self._expire, "expire controller": self._expire_controller}

    def _expire(self) -> None:
        zookeeper = self._parts.plane.zookeeper
        assert zookeeper is not None, "these faults are ZooKeeper's"
        if zookeeper.model.sessions:
            zookeeper.expire(self._random.choice(list(zookeeper.model.sessions)))

    def _expire_controller(self) -> None:
        """End the session of the controller, which lives on."""
        zookeeper = self._parts.plane.zookeeper
        assert zookeeper is not None, "these faults are ZooKeeper's"
        found = zookeeper.model.nodes.get(CONTROLLER)
        if found is not None:
            zookeeper.expire(found.owner)


class ClusterPlan(Plan[ClusterParts]):
    """The faults of a run with a cluster."""

    OF_BOTH_PLANES: ClassVar[tuple[type[FaultGroup[Any]], ...]] = (
        NetworkFaults,
        ClusterFaults,
        ClientFaults,
        DirectedFaults,
    )
    GROUPS = (*OF_BOTH_PLANES, LostDisksInTurn, LostPowerInTurn)
    THEMES: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("kill broker", "pause broker", "cut nodes"),
        ("kill broker", "kill controller"),
        ("kill two", "broker dies writing"),
        ("broker without power", "stop broker"),
        ("lost disk", "kill broker"),
        ("isolate", "bad network", "block"),
        ("isolate", "pause broker", "kill broker"),
        ("cut nodes", "kill client", "zombie"),
        ("bad disk", "slow disk"),
        ("lost directory", "full disk", "kill broker"),
        ("pause controller", "kill controller", "controller without power", "stop broker"),
    )

    #: Words of the names of kinds that take a copy of a partition, or what was not flushed of it.
    _TAKE_COPIES = ("disk", "power", "directory", "reset")

    @property
    def takes_copies(self) -> bool:
        """Whether a partition may lose one of its copies."""
        return any(word in kind for kind in self.kinds for word in self._TAKE_COPIES)

    #: Kinds of several steps, each theme in so many of the seeds; they are not drawn with the others.
    DIRECTED: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("leader dies as another joins", "kill broker"),
        ("all in sync die", "kill controller"),
        ("disk and power",),
        ("reset as it joins", "kill broker"),
        ("dies at a request",),
        ("bad network", "kill broker"),
    )
    DIRECTED_SHARE = 0.25

    #: Under a quorum, with directories to lose: half of the seeds with a topic that is created again, few others.
    BESIDE_A_LOST_DIRECTORY = ("topic made anew beside a lost directory",)
    FROM_A_LOST_DIRECTORY = ("directory lost as a log leaves it", "kill broker")
    FROM_SHARE = 0.05
    #: Under a quorum, whose controller compares the ends of logs where none in sync is left; in so many of the seeds.
    WITHOUT_A_WORD = (LostPowerInTurn.KIND, LostDisksInTurn.KIND)
    WITHOUT_A_WORD_SHARE = 0.04

    def _choose(self, kinds: list[str]) -> Collection[str]:
        is_quorum = self._parts.plane.zookeeper is None
        if is_quorum and self._world.stream("lost without a word").random() < self.WITHOUT_A_WORD_SHARE:
            return self.WITHOUT_A_WORD
        if is_quorum and len(self._parts.brokers[0].directories) > 1:
            drawn = self._world.stream("a lost directory").random()
            if drawn < self.FROM_SHARE:
                return self.FROM_A_LOST_DIRECTORY
            # ZooKeeper's controller deletes no topic with a replica away.
            if drawn < 0.5 and any(isinstance(found, RecreatedTopic) for found in self._parts.workloads):
                return self.BESIDE_A_LOST_DIRECTORY
        directed = self._world.stream("directed faults")
        if directed.random() < self.DIRECTED_SHARE:
            return directed.choice(self.DIRECTED)
        steps = {kind for group in self._groups if isinstance(group, OfSteps) for kind in group.kinds()}
        return super()._choose([kind for kind in kinds if kind not in steps])

    def may_strike(self) -> bool:
        """Whether another fault may come: none while a copy is lost that the cluster still counts on, and keeps.

        Where two more brokers end before that, a third one leads that has lost what was not flushed: nothing has told
        the controller, in Apache Kafka neither. With an empty directory it does not lead, under a quorum.
        """
        plane = self._parts.plane
        kept = (one for one in self._parts.brokers if one.has_lost and (plane.keeps_out or not one.has_empty_directory))
        return all(plane.is_out(broker.number) for broker in kept)

    def heal(self) -> None:
        """See `Plan`; who is paused is waited for: one that still takes itself for the leader would be read."""
        super().heal()
        longest = max(node.process.frozen_until for node in self._parts.nodes)
        if longest > self._world.now:
            self._world.sleep(longest - self._world.now)

    def repair(self) -> None:
        """See `Plan`."""
        self._parts.network.heal()
        for node in self._parts.nodes:
            if isinstance(node, SimulatedMember) and node.has_offline_logs:
                self._world.note("faults", f"the operator sees logs of {node.name} that are offline, and restarts it")
                node.crash("by the operator")
            node.start()


class ZooKeeperPlan(ClusterPlan):
    """The faults of a run with a cluster under ZooKeeper."""

    GROUPS = (*ClusterPlan.OF_BOTH_PLANES, ZooKeeperFaults, DirectedZooKeeperFaults)
    DIRECTED = (("controller is deposed", "kill broker"), *ClusterPlan.DIRECTED)
    THEMES = (
        *ClusterPlan.THEMES,
        ("expire session", "kill broker"),
        ("expire controller", "pause controller", "cut nodes"),
        ("expire controller", "expire session", "isolate"),
    )
