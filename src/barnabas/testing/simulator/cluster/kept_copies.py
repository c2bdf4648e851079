"""What a replica knew to be committed is in its log in every later life, as long as the disk that had it is there.

A broker that puts the wrong log aside, or makes one anew, has it back from the others a moment later: only a second
fault in that moment would show that a copy was gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.testing.simulator.cluster.cluster_partitions import Partitions
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember


class _Known(NamedTuple):
    """What a replica knew: so much was committed, and where that lay."""

    partition: Partition
    life: int
    high_watermark: int


class KeptCopies:
    """Remembers how far each replica of a broker's was committed, by partition and topic id.

    Of `unclean` topics committed records may be cut. A life whose disk refuses operations says nothing: what a log has
    lost by that is known when it is opened anew.
    """

    def __init__(self, broker: SimulatedMember, unclean: Collection[str]) -> None:
        self._broker = broker
        self._unclean = unclean
        self._known: dict[tuple[TopicPartition, bytes], _Known] = {}
        self._spoilt_life = -1

    def look(self, decided: Partitions | None) -> Iterator[str]:
        """Yield what is gone; `decided` is what the controller has of the partitions."""
        broker = self._broker
        if not broker.machine_is_up or broker.has_lost or broker.has_empty_directory:
            self._known.clear()
            return
        if broker.disk.refuses:
            self._spoilt_life = broker.lives
        self._forget_lost()
        self._forget_moved(decided)
        if broker.node is None:
            return
        if self._spoilt_life == broker.lives:
            self._known.clear()
            return
        yield from self._compare(broker.node.state.replica_manager.partitions())

    def _forget_lost(self) -> None:
        for key, known in list(self._known.items()):
            if self._is_lost(known.partition):
                del self._known[key]

    def _is_lost(self, partition: Partition) -> bool:
        lost = self._broker.disk.lost_directory
        return bool(lost) and partition.log.directory.startswith(f"{lost}/")

    def _forget_moved(self, decided: Partitions | None) -> None:
        """Drop what is of replicas that are not this broker's any more: their logs are deleted."""
        if decided is None:
            return
        replicas = {name: registration.replicas for name, registration in decided}
        for name, topic_id in list(self._known):
            if self._broker.number not in replicas.get(name, ()):
                del self._known[name, topic_id]

    def _compare(self, partitions: Iterable[Partition]) -> Iterator[str]:
        life = self._broker.lives
        for partition in partitions:
            name, log = TopicPartition(partition.topic, partition.index), partition.log
            known = self._known.pop((name, partition.topic_id), None)
            if name.topic in self._unclean or self._is_lost(partition):
                continue
            # In one life another `Partition` is a replica that was moved away, and came back.
            is_same = known is not None and (known.life != life or known.partition is partition)
            if known is not None and is_same and log.log_end_offset < known.high_watermark:
                yield (
                    f"{self._broker.name} has {name} up to {log.log_end_offset}, and knew in its life {known.life} "
                    f"that {known.high_watermark} were committed"
                )
            self._known[name, partition.topic_id] = _Known(partition, life, log.high_watermark)
