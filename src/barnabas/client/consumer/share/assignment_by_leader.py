"""Which broker is to be asked for what: the assigned partitions by their leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.subscription_state import SubscriptionState


class AssignmentByLeader:
    """Knows the leaders of what is assigned. With `one_at_a_time` one of them is asked for records, each in its turn.

    Belongs to the `ShareConsumeRequestManager`.
    """

    def __init__(self, metadata: ConsumerMetadata, subscriptions: SubscriptionState, *, one_at_a_time: bool) -> None:
        self.metadata = metadata
        self._subscriptions = subscriptions
        self._one_at_a_time = one_at_a_time
        # As of an assignment and a snapshot of the metadata.
        self._known: tuple[object, dict[int, list[TopicIdPartition]]] = (None, {})
        self._asked: int | None = None
        self._asked_last = -1

    def by_leader(self) -> dict[int, list[TopicIdPartition]]:
        """Return the partitions by the id of their leader; for those without one new metadata is asked for."""
        cluster = self.metadata.fetch()
        present = (self._subscriptions.assignment_number, cluster)
        if self._known[0] == present:
            return self._known[1]
        found: dict[int, list[TopicIdPartition]] = {}
        is_whole = True
        for topic, number in sorted(self._subscriptions.assigned_partitions):
            leader = self.metadata.leader_and_epoch(TopicPartition(topic, number)).leader_id
            topic_id = cluster.topic_id(topic)
            if leader < 0 or topic_id is None:
                self.metadata.request_update(reset_equivalent_backoff=False)
                is_whole = False
            else:
                found.setdefault(leader, []).append(TopicIdPartition(topic_id, topic, number))
        self._known = (present if is_whole else None, found)
        return found

    def has(self, partition: TopicIdPartition) -> bool:
        """Whether the partition is assigned."""
        return self._subscriptions.is_assigned(partition.topic_partition)

    def has_moved(self, partition: TopicIdPartition, node_id: int) -> bool:
        """Whether another node is known to lead the partition."""
        return self.metadata.leader_and_epoch(partition.topic_partition).leader_id not in (-1, node_id)

    def may_ask(self, node_id: int) -> bool:
        """Whether this node is to be asked for records now."""
        if not self._one_at_a_time:
            return True
        if self._asked is None:
            nodes = sorted(self._known[1])
            self._asked = self._asked_last = next((node for node in nodes if node > self._asked_last), nodes[0])
        return self._asked == node_id

    def answered(self, node_id: int) -> None:
        """Note that the node answered, or never will: the next one has its turn."""
        if self._asked == node_id:
            self._asked = None

    def begin_anew(self) -> None:
        """Note that nothing is asked of any node."""
        self._asked = None
