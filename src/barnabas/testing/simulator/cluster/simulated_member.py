"""A broker of a simulated cluster: the real `ClusterMember` and `BrokerNode` on a machine."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from barnabas.broker.config import BrokerConfig
from barnabas.broker.log.checkpoint_files import META_PROPERTIES, read_meta_properties
from barnabas.broker.log.memory_filesystem import ProcessDiedError
from barnabas.broker.membership.broker_lifecycle import LifecycleState, registered_directories
from barnabas.broker.membership.cluster_member import ClusterMember
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.node import BrokerNode, Disk
from barnabas.errors import KafkaError, KafkaStorageError
from barnabas.testing.simulator.broker import HOST
from barnabas.testing.simulator.cluster.cluster_machine import DATA, ClusterMachine
from barnabas.testing.simulator.cluster.control_planes import hold_lifelines
from barnabas.testing.simulator.disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.broker.config import PeerListener
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.network.node_channel import NodeChannel
    from barnabas.broker.requester import Requester
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.cluster.control_planes import Plane
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World

PORT = 9092
#: How long a controlled shutdown may take before the broker ends without it, in seconds.
_LEAVING = 60.0


class SimulatedMember(ClusterMachine):
    """One machine with one broker of a cluster."""

    kind = "broker"

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        plane: Plane,
        settings: Mapping[str, object],
        directories: Sequence[str] = (DATA,),
    ) -> None:
        super().__init__(world, network, name, HOST)
        self._plane = plane
        self.directories = directories
        self.config_settings = {"listeners": f"PLAINTEXT://{name}:{PORT}", **plane.settings, **settings}
        self.number = int(name.removeprefix("broker"))
        #: Whether it may have lost since its last life what others count on.
        self.has_lost = False
        #: Whether that is all there was in a directory, which has another id in its next life.
        self.has_empty_directory = False
        #: Whether the directory that is lost will be there again with all it held.
        self.directory_comes_back = False
        self.node: BrokerNode | None = None
        self.member: ClusterMember | None = None
        self.state = LifecycleState.STARTING
        self._is_leaving = False

    # --- the start

    def start(self) -> None:
        """See `ClusterMachine`: read the metadata; the node is opened when that is done."""
        if self.is_running:
            return
        if self.has_lost and self._plane.keeps_out and not self._plane.is_out(self.number):
            self.world.after(0.3, self.start)
            return
        self.begin()
        self.state, self._is_leaving = LifecycleState.STARTING, False
        config = BrokerConfig(self.config_settings)
        control = self._plane.make_control(self, config, self._known_cluster_id())
        control.on_changed = self._go_on_soon
        self.member = ClusterMember(config, control, self._open_member_channel)
        hold_lifelines(self, control)
        self.world.note(self.name, f"life {self.lives} begins")
        self.call_soon(control.observe)
        self.booted()

    def _known_cluster_id(self) -> str | None:
        for directory in self.directories:
            if directory != self.disk.lost_directory:
                found = read_meta_properties(self.disk, f"{directory}/{META_PROPERTIES}")
                if found is not None:
                    return found.cluster_id
        return None

    def _open_member_channel(
        self, requester: Requester, client_id: str, timeout: float, listener: PeerListener
    ) -> NodeChannel:
        channel = self.open_channel(requester, client_id, timeout)
        channel.start()
        return channel

    def _go_on_soon(self) -> None:
        self.call_soon(self._go_on)

    def _go_on(self) -> None:
        member = self.member
        if member is None:
            return
        control = member.control
        if control.problem is not None:
            raise control.problem
        if self.node is None and control.is_caught_up:
            self._open_node(member)
        elif self._is_leaving and control.is_out:
            self._finish()

    def _open_node(self, member: ClusterMember) -> None:
        """Open the data directory, and have the cluster know (Membership, BrokerRunner)."""
        world, config = self.world, BrokerConfig(self.config_settings)
        store = member.control.make_store()
        node = BrokerNode(
            config, Disk(self.directories, self.disk, self._storage), store, self.random, self.warn, member
        )
        node.core.channel.report = self.warn
        try:
            node.start(self.instant)
        except KafkaStorageError as problem:
            if not self.disk.is_faulty:
                raise
            world.note(self.name, f"cannot start: {problem}")
            world.counts["starts that the disk refused"] += 1
            self._end(silently=False)
            self.disk.crash()
            world.after(0.5 + world.random.random(), self.start)
            return
        node.state.advertised["PLAINTEXT"] = (self.name, PORT)
        node.logs.note_broker_epoch(lambda: member.local_broker_epoch)
        self.node = node
        node.core.channel.instant = self.instant
        member.join(node, store, lambda: self.instant)
        self.core = node.core
        ids, previous_epoch = registered_directories(node.logs.directories)
        member.control.register({"PLAINTEXT": Endpoint(self.name, PORT)}, ids, previous_epoch, self._take_state)

    def _take_state(self, state: LifecycleState) -> None:
        self.state = state
        if state is LifecycleState.RUNNING:
            # Its registration has told that it may have lost something, or it was out before.
            self.has_lost = self.has_empty_directory = False
            self.world.note(self.name, "clients are sent here")
        self._go_on_soon()

    @property
    def is_in_service(self) -> bool:
        """Whether the controller has let it work."""
        return self.node is not None and self.state is LifecycleState.RUNNING

    # --- the end

    def stop(self) -> None:
        """Hand leaderships over and end, at the latest after a minute."""
        if self.member is None or self.node is None:
            self.crash("it was stopped before it had begun")
            return
        if self._is_leaving:
            return
        self.world.note(self.name, "is to stop")
        self._is_leaving = True
        life = self.lives

        def leave() -> None:
            if self.member is not None:
                self.member.control.leave()
                self._go_on()

        self.call_soon(leave)
        self.world.after(_LEAVING, self._give_up_leaving, life)

    def _give_up_leaving(self, life: int) -> None:
        if life == self.lives and self.is_running and self._is_leaving:
            self.world.counts["brokers that left without consent"] += 1
            self._finish()

    def _finish(self) -> None:
        node = self.node
        if node is None:
            return
        try:
            node.close(self.world.now_ms(self.process))
        except ProcessDiedError as death:
            self.died(f"while it stops, at {death}")
            return
        self.world.note(self.name, "stops")
        self.world.counts["clean stops"] += 1
        for end in self.on_clean_end:
            end()
        self._end(silently=False)
        self.disk.crash()
        self.world.after(0.1 + self.world.random.random() * 3, self.start)

    def forget(self) -> None:
        """See `ClusterMachine`."""
        self.node = self.member = None
        self.on_clean_end = []

    def replace_disk(self) -> None:
        """End the machine, whose disk is broken for good; it gets an empty one."""
        self.world.note(self.name, "loses its disk for ever")
        self.world.counts["disks lost"] += 1
        self.machine_is_up, self.has_empty_directory = False, True
        self._end(silently=True)
        self.disk.crash()
        self.disk = SimulatedDisk(self.world, self._died_beside_the_loop, f"disk {self.lives} of {self.name}")

    def log(self, name: TopicPartition) -> UnifiedLog | None:
        """Return the log of a replica that is in use."""
        found = None if self.node is None else self.node.state.replica_manager.used_partition(*name)
        return None if found is None else found.log

    def begin_move(self, name: TopicPartition) -> None:
        """Have the log of a replica, which is in use, brought to another directory."""
        log, node = self.log(name), self.node
        assert log is not None, "it is in use"
        assert node is not None, "it has the log"
        target = next(path for path in self.directories if not log.directory.startswith(f"{path}/"))

        def move() -> None:
            with suppress(KafkaError):
                node.state.replica_manager.move_log(name, target)

        self.call_soon(move)

    def is_moving(self, name: TopicPartition) -> bool:
        """Whether the log of a replica is on its way to another directory."""
        return self.node is not None and self.node.logs.future(name) is not None

    def lose_directory_of(self, name: TopicPartition) -> None:
        """Let the directory be gone that has the log of a replica, which is in use."""
        log = self.log(name)
        assert log is not None, "it is in use"
        self.disk.lost_directory = log.directory.rpartition("/")[0]
        self.world.counts["times of a lost directory"] += 1

    def replace_directory(self) -> None:
        """End the process, and have an empty disk stand where the one that is lost was."""
        directory = self.disk.lost_directory
        self.crash(f"{directory} gets another disk")
        self.world.counts["directories lost"] += 1
        self.has_empty_directory = True
        self.disk.wipe(directory)
        self.disk.lost_directory = ""

    def return_directory(self) -> None:
        """End the process, and have the directory that is lost be there again as it was."""
        self.crash(f"{self.disk.lost_directory} is there again")
        self.world.counts["directories that came back"] += 1
        self.disk.lost_directory = ""

    @property
    def has_faulty_disk(self) -> bool:
        """See `Machine`."""
        return self.disk.is_faulty or self.has_offline_logs

    @property
    def has_offline_logs(self) -> bool:
        """Whether a failure of the disk has taken logs out of service until the next start."""
        logs = self.node.logs if self.node is not None else None
        return logs is not None and (logs.has_offline or any(found.problem is not None for found in logs.directories))
