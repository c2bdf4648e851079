"""What workloads ask of the brokers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.partition import Partition
    from barnabas.testing.simulator.cluster.control_planes import Plane
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember


class ClusterServers:
    """Implements `Servers`: a partition is served by the broker that leads it."""

    def __init__(self, plane: Plane, brokers: Sequence[SimulatedMember]) -> None:
        self._plane = plane
        self._brokers = brokers

    @property
    def lives(self) -> int:
        """See `Servers`."""
        return sum(broker.lives for broker in self._brokers)

    def era(self, partition: TopicPartition) -> object:
        """See `Servers`: leader epoch, broker and its process; None where another one leads than is decided, or two."""
        decided = dict(self._plane.partitions or ()).get(partition)
        leading = [broker for broker, found in self._used(partition) if found.is_leader]
        if decided is None or [decided.leader] != [broker.number for broker in leading]:
            return None
        return decided.leader_epoch, decided.leader, leading[0].lives

    def log(self, partition: TopicPartition) -> UnifiedLog:
        """See `Servers`."""
        return next(found.log for _, found in self._used(partition) if found.is_leader)

    def end(self, partition: TopicPartition) -> int | None:
        """See `Servers`."""
        return None if self.era(partition) is None else self.log(partition).log_end_offset

    def topic_id(self, topic: str) -> bytes | None:
        """See `Servers`: what is decided, when each broker that runs has heard of it, or has nothing of that name."""
        decided = self._plane.topic_id(topic)
        members = [broker.member for broker in self._brokers if broker.member is not None]
        heard = {member.control.image.topic_ids.get(topic) for member in members}
        used = {found.topic_id for _, found in self._used(TopicPartition(topic, 0))}
        return decided if heard | used <= {decided, None} else None

    def start_again(self) -> None:
        """See `Servers`."""

    def _used(self, partition: TopicPartition) -> list[tuple[SimulatedMember, Partition]]:
        nodes = [(broker, broker.node) for broker in self._brokers if broker.node is not None]
        used = [(broker, node.state.replica_manager.used_partition(*partition)) for broker, node in nodes]
        return [(broker, found) for broker, found in used if found is not None]
