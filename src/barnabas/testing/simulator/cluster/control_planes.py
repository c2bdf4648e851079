"""What a simulated cluster is held together by: a quorum of controllers, or ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from barnabas.broker.membership.kraft_control import KRaftControl
from barnabas.network.node import Node
from barnabas.testing.simulator.cluster import simulated_controller
from barnabas.testing.simulator.cluster.cluster_partitions import partitions_of
from barnabas.testing.simulator.cluster.simulated_controller import SimulatedController
from barnabas.testing.simulator.cluster.simulated_lifelines import SimulatedLifelines
from barnabas.testing.simulator.cluster.simulated_zookeeper import SimulatedSession, SimulatedZooKeeper
from barnabas.testing.simulator.cluster.watched_control import WatchedControl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.membership.control_plane import ControlPlane
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.testing.simulator.cluster.cluster_machine import ClusterMachine
    from barnabas.testing.simulator.cluster.cluster_partitions import Partitions
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import Process, World

CLUSTER_ID = "simulated-cluster-0000"
_FIRST_CONTROLLER = 101


class Plane(Protocol):
    """Where brokers of a simulated cluster get their roles from."""

    #: Settings of every broker, and which of them gives its id.
    settings: dict[str, Any]
    id_setting: str
    #: Whether groups may have another protocol than the classic one.
    has_group_protocols: bool
    #: What it is, where it is ZooKeeper.
    zookeeper: SimulatedZooKeeper | None
    #: Machines of its own.
    controllers: Sequence[SimulatedController]

    @property
    def places(self) -> Sequence[Process]:
        """What links can be cut from, beside brokers."""

    @property
    def partitions(self) -> Partitions | None:
        """All partitions as they are decided; None while that is not known."""

    def topic_id(self, name: str) -> bytes | None:
        """Return the id of a topic as it is decided; None while that is not known, and where there is none."""

    def boot(self) -> None:
        """Begin."""

    def make_control(self, member: ClusterMachine, config: BrokerConfig, cluster_id: str | None) -> ControlPlane:
        """Return a broker's part of it, for one life."""

    def active(self, brokers: Sequence[ClusterMachine]) -> list[ClusterMachine]:
        """Return the machines that take themselves for the active controller."""

    #: Whether a broker that has lost what it had is started only when it is out: else it tells by its registration, and
    #: does not lead with an empty directory even where it led last.
    keeps_out: bool

    def is_out(self, broker: int) -> bool:
        """Whether no election falls on a broker any more."""


class QuorumPlane:
    """One or three controllers, on machines of their own."""

    id_setting, has_group_protocols, keeps_out = "node.id", True, False
    zookeeper: SimulatedZooKeeper | None = None

    def __init__(
        self, world: World, network: Network, controllers: int, settings: dict[str, Any], of_topics: dict[str, Any]
    ) -> None:
        names = {_FIRST_CONTROLLER + n: f"controller{n + 1}" for n in range(controllers)}
        voters = ",".join(f"{one}@{name}:{simulated_controller.PORT}" for one, name in names.items())
        quorum = {"controller.quorum.voters": voters, "controller.listener.names": "CONTROLLER"}
        #: Brokers have the defaults too, by which they create topics that are asked for.
        self.settings: dict[str, Any] = {"process.roles": "broker", **quorum, **of_topics}
        self.controllers: Sequence[SimulatedController] = [
            SimulatedController(world, network, name, {"node.id": one, **quorum, **settings, **of_topics})
            for one, name in names.items()
        ]

    @property
    def places(self) -> Sequence[Process]:
        """See `Plane`."""
        return [one.process for one in self.controllers]

    @property
    def partitions(self) -> Partitions | None:
        """See `Plane`."""
        image = self._image
        return None if image is None else list(partitions_of(image))

    def topic_id(self, name: str) -> bytes | None:
        """See `Plane`."""
        image = self._image
        return None if image is None else image.topic_ids.get(name)

    @property
    def _image(self) -> MetadataImage | None:
        """What the active controller has committed; None where none, or several take themselves for it.

        One that is paused since another was elected does not know what that has committed: others know of its epoch.
        """
        running = [one.node for one in self.controllers if one.node is not None]
        newest = max((node.raft.leader_and_epoch.epoch for node in running), default=-1)
        active = [node for node in running if node.controller.is_active and node.raft.leader_and_epoch.epoch == newest]
        return active[0].controller.committed_image if len(active) == 1 else None

    def boot(self) -> None:
        """See `Plane`."""
        for controller in self.controllers:
            controller.format(CLUSTER_ID)
            controller.start()

    def make_control(self, member: ClusterMachine, config: BrokerConfig, cluster_id: str | None) -> ControlPlane:
        """See `Plane`."""
        controllers = [Node(-2 - index, host, port) for index, (host, port) in enumerate(config.controllers)]
        return KRaftControl(config, controllers, member.random, member.warn, cluster_id)

    def active(self, brokers: Sequence[ClusterMachine]) -> list[ClusterMachine]:
        """See `Plane`."""
        return [one for one in self.controllers if one.is_active]

    def is_out(self, broker: int) -> bool:
        """See `Plane`."""
        partitions = self.partitions
        return partitions is not None and all(broker not in found.isr for _, found in partitions)


class ZooKeeperPlane:
    """ZooKeeper, and the broker that is elected."""

    id_setting, has_group_protocols, keeps_out = "broker.id", False, True

    def __init__(self, network: Network, settings: dict[str, Any]) -> None:
        self._zookeeper = SimulatedZooKeeper(network)
        self.zookeeper: SimulatedZooKeeper | None = self._zookeeper
        self.settings: dict[str, Any] = {
            "zookeeper.connect": "zookeeper:2181",
            "inter.broker.protocol.version": "3.9",
            **settings,
        }
        self.controllers: Sequence[SimulatedController] = []

    @property
    def places(self) -> Sequence[Process]:
        """See `Plane`."""
        return [self._zookeeper.process]

    @property
    def partitions(self) -> Partitions | None:
        """See `Plane`."""
        return list(self._zookeeper.partitions())

    def topic_id(self, name: str) -> bytes | None:
        """See `Plane`: one that is to be deleted is none any more."""
        return None if name in self._zookeeper.topics_to_delete() else self._zookeeper.topic_id(name)

    def boot(self) -> None:
        """See `Plane`."""

    def make_control(self, member: ClusterMachine, config: BrokerConfig, cluster_id: str | None) -> ControlPlane:
        """See `Plane`."""
        session = SimulatedSession(self._zookeeper, member, config.get_int("zookeeper.session.timeout.ms") / 1000)
        member.on_clean_end.append(session.close)
        world, process = member.world, member.process
        return WatchedControl(config, session, member.random, member.warn, lambda: world.now_ms(process), cluster_id)

    def active(self, brokers: Sequence[ClusterMachine]) -> list[ClusterMachine]:
        """See `Plane`."""
        elected = self._zookeeper.controller_id
        return [] if elected is None else [brokers[elected - 1]]

    def is_out(self, broker: int) -> bool:
        """See `Plane`: of a topic that is being deleted none is elected, and its end waits for the broker."""
        going = self._zookeeper.topics_to_delete()
        return all(broker not in found.isr for name, found in self._zookeeper.partitions() if name.topic not in going)


def hold_lifelines(member: ClusterMachine, control: ControlPlane) -> None:
    """Hold the connections by which a controller under ZooKeeper sees the end of brokers; none under a quorum."""
    if isinstance(control, WatchedControl):
        SimulatedLifelines(member, control.lifelines)
