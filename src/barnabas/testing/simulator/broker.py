"""The broker of a simulation: the real `BrokerNode` on a simulated disk; it dies, and comes back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.streams_group import StreamsGroup
from barnabas.broker.log.memory_filesystem import ProcessDiedError
from barnabas.broker.node import BrokerNode, Disk
from barnabas.errors import KafkaStorageError
from barnabas.testing.simulator.disk import SimulatedStore
from barnabas.testing.simulator.machine import Machine

if TYPE_CHECKING:
    from barnabas.broker.groups.consumer_group_member import ConsumerGroupMember
    from barnabas.broker.groups.streams_group_member import StreamsGroupMember
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World

DATA = "/data"
HOST, PORT = "broker", 9092


class SimulatedBroker(Machine):
    """One machine with one broker, which is a cluster by itself."""

    def __init__(self, world: World, network: Network, settings: dict[str, Any]) -> None:
        super().__init__(world, network, HOST)
        self.settings = settings
        self.store = SimulatedStore(self.disk, world)
        self.node: BrokerNode | None = None
        #: Whether it is the power that ends the process when the disk's `die_after` has come.
        self.dies_by_power = False
        #: After how many turns more that change the disk the process ends with its answers unsent, and whether cleanly.
        self.ends_unanswered: tuple[int, bool] | None = None
        #: What had reached the disk when the power was lost, by partition: the offset before which all is safe.
        self.power_losses: list[dict[TopicPartition, int]] = []

    # --- what workloads ask

    def era(self, partition: TopicPartition) -> object:
        """See `Servers`."""
        return self.lives

    def log(self, partition: TopicPartition) -> UnifiedLog:
        """See `Servers`."""
        assert self.node is not None
        found = self.node.logs.get_log(partition)
        assert found is not None
        return found

    def end(self, partition: TopicPartition) -> int | None:
        """See `Servers`."""
        if self.node is None:
            return None
        found = self.node.state.replica_manager.used_partition(*partition)
        return None if found is None else found.log.log_end_offset

    def topic_id(self, topic: str) -> bytes | None:
        """See `Servers`."""
        found = None if self.node is None else self.node.state.metadata.topic(topic)
        return None if found is None else found.id

    def start_again(self) -> None:
        """See `Servers`."""
        self.stop()
        self.start()

    # --- life

    @property
    def has_faulty_disk(self) -> bool:
        """Whether operations of its disk may fail at the moment, or have taken a log out of service."""
        return self.disk.is_faulty or self.has_offline_logs

    def start(self) -> None:
        """Start the process, recovering what the last one left; that may be its end, too."""
        if self.node is not None:
            return
        self.begin()
        world = self.world
        node = BrokerNode(
            BrokerConfig(self.settings),
            Disk([DATA], self.disk, self._storage),
            self.store,
            world.stream(f"broker {self.lives}"),
            self.warn,
        )
        try:
            node.start(self.instant)
        except ProcessDiedError as death:
            world.counts["crashes while starting"] += 1
            self.died(f"while it starts, at {death}")
            return
        except KafkaStorageError as problem:
            if not self.disk.is_faulty and not self.store.errors:
                raise
            # As an operator does who sees the error: it is tried again.
            world.counts["starts that the disk refused"] += 1
            world.note("broker", f"cannot start: {problem}")
            self.disk.crash()
            self.is_running = False
            world.after(0.5 + world.random.random(), self.start)
            return
        node.state.advertised["PLAINTEXT"] = (HOST, PORT)
        self.node, self.core = node, node.core
        world.note("broker", f"life {self.lives} begins")
        self.booted()

    @property
    def has_offline_logs(self) -> bool:
        """Whether a failure of the disk has taken logs out of service until the next start."""
        return self.node is not None and self.node.logs.has_offline

    def stop(self, *, silently: bool = False) -> None:
        """End in good order; `silently` the connections are not told, and what is on its way to clients is lost."""
        node, self.node = self.node, None
        if node is None:
            return
        self.world.note("broker", "stops")
        self.world.counts["clean stops"] += 1
        try:
            node.close(self.world.now_ms(self.process))
        except ProcessDiedError as death:
            self.world.counts["crashes while stopping"] += 1
            self.node = node
            self.died(f"while it stops, at {death}")
            return
        self.disk.crash()
        self.ended(silently=silently)

    def crash(self, why: str, *, silently: bool = False) -> None:
        """Kill the process; what it wrote stays with the system."""
        self.world.note("broker", f"is killed: {why}")
        self.world.counts["crashes"] += 1
        self.node = None
        self.disk.crash()
        self.ended(silently=silently)

    def died(self, how: str) -> None:
        """End at a change of the disk, and be started again soon."""
        if self.dies_by_power:
            self.world.note("broker", f"dies {how}")
            self.lose_power()
        else:
            self.crash(how)
        self.world.after(0.2 + self.world.random.random() * 3, self.start)

    def lose_power(self) -> None:
        """End the machine: of what was not flushed any part is gone."""
        world = self.world
        node, self.node = self.node, None
        safe: dict[TopicPartition, int] = {}
        if node is not None:
            safe = {log.topic_partition: log.recovery_point for log in node.logs.logs.values()}
        self.power_losses.append(safe)
        torn = self.disk.count_unflushed()
        world.note("broker", f"loses its power; {torn} files were not flushed")
        world.counts["power losses"] += 1
        world.counts["files torn by a power loss"] += torn
        self.disk.power_loss()
        self.machine_is_up = False
        self.ended(silently=True)

    # --- work

    def turned(self, *, changed: bool) -> bool:
        """See `Machine`."""
        if changed and self._ends_now():
            return False
        assert self.node is not None
        self._check_owners(self.node)
        return True

    def _ends_now(self) -> bool:
        """End with the answers of this turn unsent, if that is to be now."""
        if self.ends_unanswered is None:
            return False
        left, clean = self.ends_unanswered
        if left:
            self.ends_unanswered = left - 1, clean
            return False
        self.ends_unanswered = None
        self.world.counts["ends with answers on their way"] += 1
        if clean:
            self.stop(silently=True)
        else:
            self.crash("with its answers still on their way", silently=True)
        self.world.after(0.1 + self.world.random.random() * 2, self.start)
        return True

    def _check_owners(self, node: BrokerNode) -> None:
        """Demand that what a group gives to one member is no other's until that one has let go of it."""
        groups = node.loaded_groups
        if groups is None:
            return
        for group in groups.groups_of(ConsumerGroup):
            read = ((member.member_id, at) for member in group.members.values() for at in _read_by(member))
            self._check_held_once(group.group_id, read)
        for streams in groups.groups_of(StreamsGroup):
            tasks = ((member.member_id, task) for member in streams.members.values() for task in _worked_on_by(member))
            self._check_held_once(streams.group_id, tasks)

    def _check_held_once(self, group_id: str, held: Iterable[tuple[str, object]]) -> None:
        owners: dict[object, str] = {}
        for member_id, what in held:
            owner = owners.setdefault(what, member_id)
            if owner != member_id:
                self.world.violate(f"{what} of group {group_id} belongs to both {owner} and {member_id}")


def _read_by(member: ConsumerGroupMember) -> Iterator[tuple[bytes, int]]:
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, indexes in partitions.items():
            yield from ((topic_id, index) for index in indexes)


def _worked_on_by(member: StreamsGroupMember) -> Iterator[tuple[str, int]]:
    for tasks in (member.assigned, member.pending_revocation):
        for subtopology_id, numbers in tasks.active.items():
            yield from ((subtopology_id, number) for number in numbers)
