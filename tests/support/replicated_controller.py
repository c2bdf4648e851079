"""The scripted controller of a `ReplicatedCluster`, and the oracles that hold what its brokers have promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.replication.partition_state import LeaderAndIsr
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches

if TYPE_CHECKING:
    from tests.support.replicated_cluster import ReplicatedCluster
    from tests.support.replicated_node import Node

SESSION = 1.5
CONTROLLER = -1


class ScriptedPartition:
    """One partition as the controller has it: elected from the ISR, and changed by AlterPartition as Kafka's is."""

    def __init__(self, controller: Controller, replicas: tuple[int, ...]) -> None:
        self._controller = controller
        self.registration = PartitionRegistration(replicas, replicas, replicas[0], 0, 0)

    def fence(self, id: int) -> None:
        """Take a broker out of the ISR, but for the last member, and the leadership from it."""
        found = self.registration
        isr = tuple(member for member in found.isr if member != id) or found.isr
        leader = -1 if found.leader == id else found.leader
        if isr != found.isr or leader != found.leader:
            epoch = found.leader_epoch + (leader != found.leader)
            self.change(found._replace(isr=isr, leader=leader, leader_epoch=epoch))

    def elect(self) -> None:
        """Give a partition without a leader the first of the ISR that is alive."""
        found = self.registration
        if found.leader < 0:
            leader = next((member for member in found.isr if member in self._controller.epochs), -1)
            if leader >= 0:
                self.change(found._replace(leader=leader, leader_epoch=found.leader_epoch + 1))

    def move_leader(self) -> None:
        """An election of another leader, as the preferred one or by a reassignment."""
        found = self.registration
        able = [member for member in found.isr if member in self._controller.epochs]
        if able:
            leader = self._controller.world.random.choice(able)
            self.change(found._replace(leader=leader, leader_epoch=found.leader_epoch + 1))
            self._controller.publish()

    def reassign(self, target: tuple[int, ...]) -> None:
        """Begin to move the partition to other brokers (KIP-455); it ends when all of them are in sync."""
        found = self.registration
        adding = tuple(id for id in target if id not in found.replicas)
        removing = tuple(id for id in found.replicas if id not in target)
        self.change(found._replace(replicas=(*target, *removing), adding_replicas=adding, removing_replicas=removing))
        self._controller.publish()

    def _complete_reassignment(self) -> None:
        found = self.registration
        target = tuple(id for id in found.replicas if id not in found.removing_replicas)
        if not found.is_reassigning or not set(target) <= set(found.isr):
            return
        isr = tuple(id for id in found.isr if id in target)
        leader, epoch = found.leader, found.leader_epoch
        if leader not in target:
            leader, epoch = next((id for id in isr if id in self._controller.epochs), -1), epoch + 1
        if leader >= 0 or found.leader < 0:
            self.change(
                found._replace(
                    replicas=target, isr=isr, leader=leader, leader_epoch=epoch, adding_replicas=(),
                    removing_replicas=(),
                )
            )  # fmt: skip

    def change(self, registration: PartitionRegistration) -> None:
        """Take another state, in the next partition epoch."""
        self.registration = registration._replace(partition_epoch=self.registration.partition_epoch + 1)

    def alter(self, sender: int, proposed: LeaderAndIsr) -> PartitionRegistration | int:
        """Answer AlterPartition: the partition as it is now, or an error's code."""
        found, epochs = self.registration, self._controller.epochs
        if proposed.leader != found.leader or sender != found.leader:
            return errors.FencedLeaderEpochError.code
        if proposed.leader_epoch != found.leader_epoch:
            return errors.FencedLeaderEpochError.code
        if proposed.partition_epoch != found.partition_epoch:
            return errors.InvalidUpdateVersionError.code
        for member, epoch in proposed.isr:
            if member not in epochs or epoch not in (-1, epochs[member]):
                return errors.IneligibleReplicaError.code
        isr, recovery = tuple(member for member, _ in proposed.isr), proposed.leader_recovery_state
        self.change(found._replace(isr=isr, leader_recovery_state=recovery))
        answer = self.registration
        self._complete_reassignment()
        self._controller.publish()
        return answer


class Controller:
    """Scripted: knows who lives (after a while), and tells the brokers what their partitions are."""

    def __init__(self, cluster: ReplicatedCluster, replicas: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.partitions = {name: ScriptedPartition(self, members) for name, members in replicas.items()}
        self.version = 0
        self.epochs: dict[int, int] = {}
        self.next_epoch = 1
        self.heard: dict[int, float] = {}

    def register(self, node: Node) -> None:
        """A process begins: it has another broker epoch, and is in no ISR until it has caught up (KIP-966, unclean)."""
        node.broker_epoch, self.next_epoch = self.next_epoch, self.next_epoch + 1
        if node.life > 1:
            self.fence(node.id)
        self.epochs = {**self.epochs, node.id: node.broker_epoch}
        self.heard[node.id] = self.world.now
        self.elect()

    def fence(self, id: int) -> None:
        """Give up a broker."""
        self.epochs = {broker: epoch for broker, epoch in self.epochs.items() if broker != id}
        for partition in self.partitions.values():
            partition.fence(id)
        self.elect()

    def elect(self) -> None:
        """Elect leaders where there are none."""
        for partition in self.partitions.values():
            partition.elect()
        self.publish()

    def publish(self) -> None:
        """Tell all brokers what has changed."""
        self.version += 1
        for node in self.cluster.nodes.values():
            self.send_to(node)

    def send_to(self, node: Node) -> None:
        """Tell a broker how things are."""
        version, epochs, life = self.version, dict(self.epochs), node.life
        registrations = {name: partition.registration for name, partition in self.partitions.items()}
        self.world.send(
            CONTROLLER,
            node.id,
            lambda: node.do(lambda: node.take_metadata(version, registrations, epochs), life),
        )

    def look(self) -> None:
        """Fence whoever was not heard of, take back who is; metadata go out again, for they may have been lost."""
        world = self.world
        for node in self.cluster.nodes.values():
            reachable = (node.id, CONTROLLER) not in world.cut and (CONTROLLER, node.id) not in world.cut
            if node.alive and not node.paused and reachable:
                self.heard[node.id] = world.now
                if node.id not in self.epochs:
                    self.epochs = {**self.epochs, node.id: node.broker_epoch}
                    self.elect()
            elif node.id in self.epochs and world.now - self.heard[node.id] > SESSION:
                self.fence(node.id)
            self.send_to(node)


class Oracles:
    """What was promised to producers and seen by consumers."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.seen: dict[int, bytes] = {}
        self.ends: dict[int, int] = {}

    def acknowledge(self, offset: int, value: bytes) -> None:
        known = self.acknowledged.setdefault(offset, value)
        assert known == value, f"offset {offset} was acknowledged for {known!r} and for {value!r}"

    def read(self, records: bytes) -> int:
        last = -1
        for found in read_batches(records):
            for record in found:
                known = self.seen.setdefault(record.offset, record.value)
                assert known == record.value, f"offset {record.offset} was read as {known!r} and as {record.value!r}"
                last = record.offset
        return last

    def end(self, consumer: int, offset: int) -> None:
        before = self.ends.get(consumer, 0)
        assert offset >= before, f"the end that consumer {consumer} was told went back from {before} to {offset}"
        self.ends[consumer] = offset
