"""Clusters whose disks fill up and tear what they write, and whose controller elects replicas that are not in sync."""

from __future__ import annotations

from typing import Any

from barnabas.broker.metadata.partition_registration import RECOVERED, RECOVERING
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.replicated_cluster import FAULTS, ReplicatedCluster
from tests.support.replicated_controller import Oracles
from tests.support.replicated_node import Node
from tests.support.richer_cluster import RicherCluster


def tear_a_write(cluster: ReplicatedCluster, node: Node) -> None:
    """Let the process die in the middle of one of its next changes of the disk; `Node.do` meets that."""
    if node.alive:
        node.disk.die_after = cluster.world.random.randint(0, 12)


def fill_the_disk(cluster: ReplicatedCluster, node: Node) -> None:
    """Leave room for a few records, for a while."""
    random, disk = cluster.world.random, node.disk
    disk.capacity = disk._used() + random.choice((0, 50, 500, 4000))
    cluster.world.after(random.choice((0.3, 1.0, 3.0)), lambda: setattr(disk, "capacity", None))


class StormyCluster(RicherCluster):
    """A `RicherCluster` with torn writes and full disks beside its other faults. Its promises are the same."""

    faults = (*RicherCluster.faults, "torn", "torn", "full", "full")

    def more_faults(self, kind: str, node: Node) -> bool:
        """Let a fault of one's own happen; whether there is one of that name."""
        if kind == "torn":
            tear_a_write(self, node)
        elif kind == "full":
            fill_the_disk(self, node)
        else:
            return super().more_faults(kind, node)
        return True


class Forgiving(Oracles):
    """Holds nothing: what was acknowledged or read may be lost with an unclean election."""

    def acknowledge(self, offset: int, value: bytes) -> None:
        """Take it for what it is worth."""

    def read(self, records: bytes) -> int:
        """Return the last offset, and remember nothing."""
        found = super().read(records)
        self.seen.clear()
        return found

    def end(self, consumer: int, offset: int) -> None:
        """Let the end go back."""


class UncleanCluster(ReplicatedCluster):
    """One whose controller now and then elects a replica that is not in sync.

    What was acknowledged before may be lost. What is promised: in the end all replicas are in sync and the same, epochs
    never go back along the log, and the controller was told that the leader has recovered (KIP-704).
    """

    faults = (*FAULTS, "unclean", "unclean", "unclean")
    oracles_kind = Forgiving

    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.unclean_elections = 0
        super().__init__(seed, brokers)
        # What was acknowledged may be lost, and its offset be another record's.
        self.history.judge = lambda: None  # type: ignore[method-assign]

    def more_faults(self, kind: str, node: Node) -> bool:
        """Elect a replica that lives and is not in sync, in the place of a leader that has just been fenced."""
        if kind != "unclean":
            return False
        controller, partition = self.controller, self.controller.partitions[self.any_name()]
        found = partition.registration
        lost = [id for id in controller.epochs if id not in found.isr]
        if lost:
            leader = self.world.random.choice(lost)
            self.unclean_elections += 1
            epoch = found.leader_epoch + 1
            partition.change(
                found._replace(leader=leader, isr=(leader,), leader_epoch=epoch, leader_recovery_state=RECOVERING)
            )
            controller.publish()
        return True

    def check_copies(self, name: TopicPartition, offset: int) -> None:
        """Nothing: the leader that has acknowledged may be of a lost history."""

    def _is_settled(self, name: TopicPartition) -> bool:
        return super()._is_settled(name) and self.registration(name).leader_recovery_state == RECOVERED

    def check_partition(self, name: TopicPartition) -> None:
        """Whether everything is as it was promised."""
        super().check_partition(name)
        for node in self.replicas(name):
            epochs: list[Any] = [epoch for _, (epoch, _) in sorted(self.records_of(node, name).items())]
            assert epochs == sorted(epochs), f"epochs go back in the log of broker {node.id}"
