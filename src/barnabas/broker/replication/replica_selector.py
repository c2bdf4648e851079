"""From which replica a consumer had better read (KIP-392; RackAwareReplicaSelector)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.broker.metadata.metadata_cache import ClusterView
    from barnabas.broker.partition import Partition

#: The one value of `replica.selector.class` that is known, beside none.
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
#: In place of a replica: the leader itself.
LEADER: Final = -1


class RackAwareReplicaSelector:
    """Sends a consumer to a replica in its own rack; `listener` is that of the consumer, `rack` its `client.rack`."""

    __slots__ = ("_listener", "_rack", "_view")

    def __init__(self, view: ClusterView, listener: str, rack: str) -> None:
        self._view = view
        self._listener = listener
        self._rack = rack

    def select(self, partition: Partition, offset: int) -> int:
        """Return the broker that the leader of a partition sends a consumer of `offset` to, or `LEADER`.

        That is a follower in sync and in the consumer's rack that has the offset: the one that has most, and of equals
        the one that was caught up last. A leader in the rack serves the consumer itself.
        """
        in_sync = partition.in_sync
        if in_sync is None or not partition.is_leader:
            return LEADER
        near = {node.id for node in self._view.brokers(self._listener) if node.rack == self._rack}
        if not near or partition.leader_id in near:
            return LEADER
        found = [
            replica
            for broker_id, replica in in_sync.replicas.items()
            if broker_id in near
            and broker_id in in_sync.state.isr
            and replica.log_start_offset <= offset <= replica.log_end_offset
        ]
        if not found:
            return LEADER
        return max(found, key=lambda one: (one.log_end_offset, one.last_caught_up_ms, -one.broker_id)).broker_id
