"""A controller of a simulated cluster: the real `ControllerNode` and `RaftDriver` on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller.bootstrap_metadata import BootstrapMetadata
from barnabas.broker.kraft.controller_node import ControllerNode, NodeEnvironment
from barnabas.broker.kraft.controller_registration_manager import ControllerRegistrationManager
from barnabas.broker.kraft.formatter import Format, default_levels, format_directories
from barnabas.broker.kraft.quorum_storage import QuorumStorage
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.raft.raft_driver import RaftDriver
from barnabas.errors import KafkaStorageError
from barnabas.testing.simulator.cluster.cluster_machine import DATA, ClusterMachine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.kraft.broker_probes import Probe
    from barnabas.broker.network.node_channel import NodeChannel
    from barnabas.broker.raft.raft_driver import Destination
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World

PORT = 9093


class SimulatedController(ClusterMachine):
    """One machine with one controller."""

    kind = "controller"
    listener = "CONTROLLER"

    def __init__(self, world: World, network: Network, name: str, settings: Mapping[str, object]) -> None:
        super().__init__(world, network, name)
        self.config = BrokerConfig(
            {"process.roles": "controller", "listeners": f"CONTROLLER://{name}:{PORT}", **settings}
        )
        self.node: ControllerNode | None = None
        #: See `ClusterControlManager`.
        self.waits_for_sessions = False
        self._has_turn = False

    def format(self, cluster_id: str) -> None:
        """Prepare the disk of a new cluster."""
        wanted = Format(cluster_id, self.config.node_id, BootstrapMetadata.of_levels(default_levels()))
        format_directories(self.disk, wanted, [DATA], self.random.randbytes)

    def start(self) -> None:
        """See `ClusterMachine`."""
        if self.is_running:
            return
        self.begin()
        try:
            storage = QuorumStorage(self.config, DATA, self.disk, self.random.randbytes)
            environment = NodeEnvironment(lambda: self.instant, self.random, self._storage, self.warn)
            self._open(ControllerNode(self.config, storage, {"CONTROLLER": (self.name, PORT)}, environment))
        except KafkaStorageError as problem:
            if not self.disk.is_faulty:
                raise
            self.world.note(self.name, f"cannot start: {problem}")
            self._end(silently=False)
            self.disk.crash()
            self.world.after(0.5 + self.world.random.random(), self.start)
            return
        self.world.note(self.name, f"life {self.lives} begins")
        self.booted()

    def _open(self, node: ControllerNode) -> None:
        """Take part in the quorum, and answer requests (ControllerServer)."""
        self._has_turn = False
        node.core.channel.report = self.warn
        driver = RaftDriver(
            node.raft, self._open_raft_channel, self.call_at, lambda: self.instant, self._failed, node.storage
        )
        node.requests.ask_quorum, node.requests.forget = driver.handle_request, driver.forget
        node.requests.turn_soon = lambda: self._turn_soon(driver)
        node.probes.connect = lambda probe: self._probe(node, probe)
        node.controller.managers.cluster.waits_for_sessions = self.waits_for_sessions
        self.node, self.core = node, node.core
        driver.start()
        self._register(node)

    def _open_raft_channel(self, destination: Destination) -> NodeChannel:
        timeout = self.config.get_seconds("controller.quorum.request.timeout.ms")
        return self.open_channel(destination, f"raft-client-{self.config.node_id}", timeout)

    def _turn_soon(self, driver: RaftDriver) -> None:
        def turn() -> None:
            self._has_turn = False
            driver.turn()

        if not self._has_turn:
            self._has_turn = True
            self.call_soon(turn)

    def _register(self, node: ControllerNode) -> None:
        manager = ControllerRegistrationManager(
            self.config.node_id,
            self.random.randbytes(16),
            {"CONTROLLER": Endpoint(self.name, PORT)},
            lambda: node.leader,
            lambda: node.controller.committed_image,
            self.warn,
        )
        channel = self.open_channel(manager, f"{self.name}-registration", 2.0)
        channel.start()
        node.controller.on_committed.append(lambda committed, now: channel.wake() if manager.is_needed else None)

    def _probe(self, node: ControllerNode, probe: Probe) -> None:
        def told(is_open: bool, is_refused: bool) -> None:
            def take() -> None:
                is_silent = not (is_open or is_refused)
                node.probes.answered(
                    probe, is_open=is_open, is_refused=is_refused, is_silent=is_silent, now=self.world.now
                )

            if self.node is node:
                self.call_soon(take)

        self.network.probe(self.process, probe.host, told, probe.patience)

    def _failed(self, problem: Exception) -> None:
        if self.disk.is_faulty:
            # As a supervisor does that sees the process end.
            self.call_soon(lambda: self.died(f"by itself: {problem!r}"))
        else:
            self.world.violate(f"{self.name} has ended by itself: {problem!r}")

    @property
    def is_active(self) -> bool:
        """Whether it takes itself for the active controller."""
        return self.node is not None and self.node.controller.is_active

    def forget(self) -> None:
        """See `ClusterMachine`."""
        self.node = None
