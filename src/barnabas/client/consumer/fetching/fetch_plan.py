"""What is to be asked of which broker, kept up to date partition by partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.client.consumer.fetching.fetch_session_handler import FetchPartitionData
from barnabas.network.node import Node
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.fetching.completed_fetch import CompletedFetch
    from barnabas.client.consumer.fetching.fetch_session_handler import FetchRequestData, FetchSessionHandler
    from barnabas.client.consumer.subscription_state import SubscriptionState

# Partition to the offset that was asked for, and the `seek_id` of that moment.
Asked = dict[TopicPartition, tuple[int, int]]


class NodePlan:
    """What one broker is to be asked for, and what has changed since it was asked last."""

    __slots__ = ("asked", "changed", "node", "partitions", "seek_ids")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.partitions: dict[TopicPartition, FetchPartitionData] = {}
        self.seek_ids: dict[TopicPartition, int] = {}
        #: What the last request asked for.
        self.asked: Asked = {}
        #: In order; None before the first request: everything.
        self.changed: dict[TopicPartition, None] | None = None

    def put(self, partition: TopicPartition, data: FetchPartitionData, seek_id: int) -> None:
        """Ask for this from now on, after everything else."""
        self.partitions.pop(partition, None)
        self.partitions[partition] = data
        self.seek_ids[partition] = seek_id
        self._note(partition)

    def remove(self, partition: TopicPartition) -> None:
        """Ask for it no more."""
        del self.partitions[partition]
        del self.seek_ids[partition]
        self._note(partition)

    def _note(self, partition: TopicPartition) -> None:
        if self.changed is not None:
            self.changed[partition] = None

    def request(self, session: FetchSessionHandler) -> FetchRequestData:
        """Return the next request, with what changed since the last one."""
        changed: Iterable[TopicPartition] = self.partitions if self.changed is None else self.changed
        for partition in changed:
            data = self.partitions.get(partition)
            if data is None:
                self.asked.pop(partition, None)
            else:
                self.asked[partition] = (data.fetch_offset, self.seek_ids[partition])
        request = session.build(self.partitions, self.changed)
        self.changed = {}
        return request


class FetchPlan:
    """The brokers to be asked, each with its `NodePlan`. Belongs to the `Fetcher`.

    Looking at all partitions takes new metadata or a new assignment. Otherwise only those are looked at that delivered
    data, were paused or sought in, or wait after an error, so that a fetch costs the same with any assignment.
    """

    def __init__(self, metadata: ConsumerMetadata, subscriptions: SubscriptionState, max_partition_bytes: int) -> None:
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._max_partition_bytes = max_partition_bytes
        self.nodes: dict[int, NodePlan] = {}
        #: Partitions to be read whose leader is unknown.
        self.leaderless: set[TopicPartition] = set()
        self._node_of: dict[TopicPartition, NodePlan] = {}
        self._touched: dict[TopicPartition, None] = {}
        self._made_for: tuple[Cluster, int, int] | None = None
        # The last answer that is buffered of a partition: the next fetch goes on where it ends.
        self._last_buffered: dict[TopicPartition, CompletedFetch] = {}
        # Partitions whose last fetch went wrong, and when to ask again: without a wait an error would make poll spin.
        self._retry_at: dict[TopicPartition, float] = {}

    # --- what happens to single partitions

    def buffered(self, partition: TopicPartition) -> CompletedFetch | None:
        """Return the last answer that waits to be handed out."""
        return self._last_buffered.get(partition)

    def note_buffered(self, fetch: CompletedFetch) -> None:
        """Go on after this answer."""
        self._last_buffered[fetch.partition] = fetch
        self._touched[fetch.partition] = None

    def forget_buffered(self, fetch: CompletedFetch) -> None:
        """Go on from the position: what was buffered is handed out or dropped."""
        if self._last_buffered.get(fetch.partition) is fetch:
            del self._last_buffered[fetch.partition]
            self._touched[fetch.partition] = None

    def back_off(self, partition: TopicPartition, until: float) -> None:
        """Do not ask for it before that time."""
        self._retry_at[partition] = until
        self._touched[partition] = None

    @property
    def is_backing_off(self) -> bool:
        """Whether some partition waits to be asked for again."""
        return bool(self._retry_at)

    # --- the plan

    def update(self, cluster: Cluster, now: float) -> None:
        """Take in what has changed."""
        subscriptions = self._subscriptions
        if self._retry_at:
            for partition in [partition for partition, at in self._retry_at.items() if at <= now]:
                del self._retry_at[partition]
                self._touched[partition] = None
        changed = subscriptions.take_changed()
        made_for = (cluster, self._metadata.seen_epochs, subscriptions.assignment_number)
        # Sorted, as positions become known in any order: what is read first is not to depend on that.
        touched = sorted(self._touched | changed)
        self._touched = {}
        if made_for != self._made_for:
            self._made_for = made_for
            self.nodes, self.leaderless, self._node_of = {}, set(), {}
            touched = subscriptions.partitions_in_order()
        for partition in touched:
            self._place(partition, cluster)

    def _place(self, partition: TopicPartition, cluster: Cluster) -> None:
        before = self._node_of.pop(partition, None)
        self.leaderless.discard(partition)
        found = self._subscriptions.fetchable(partition)
        plan = None if found is None else self._plan_for(partition, cluster)
        if before is not None and before is not plan:
            before.remove(partition)
            if not before.partitions:
                del self.nodes[before.node.id]
        if found is None or plan is None:
            return
        position, seek_id = found
        last = self._last_buffered.get(partition)
        offset = last.end_offset if last is not None and last.seek_id == seek_id else position.offset
        epoch = self._metadata.current_leader(partition).epoch
        topic_id = cluster.topic_id(partition.topic) or ZERO_UUID
        plan.put(partition, FetchPartitionData(topic_id, offset, self._max_partition_bytes, epoch), seek_id)
        self._node_of[partition] = plan

    def _plan_for(self, partition: TopicPartition, cluster: Cluster) -> NodePlan | None:
        leader = self._metadata.current_leader(partition).leader
        if leader is None:
            self.leaderless.add(partition)
            return None
        if partition in self._retry_at:
            return None
        node = self._read_replica(partition, leader, cluster)
        plan = self.nodes.get(node.id)
        if plan is None:
            plan = self.nodes[node.id] = NodePlan(node)
        return plan

    def _read_replica(self, partition: TopicPartition, leader: Node, cluster: Cluster) -> Node:
        """Return the replica that the leader recommends (KIP-392), or the leader if there is none or it is offline."""
        node_id = self._subscriptions.preferred_read_replicas.get(partition)
        if node_id is None:
            return leader
        node, info = cluster.node(node_id), cluster.partition(partition)
        if node is not None and info is not None and node_id not in info.offline_replicas:
            return node
        self._subscriptions.preferred_read_replicas.clear(partition)
        self._metadata.request_update(reset_equivalent_backoff=False)
        return leader
