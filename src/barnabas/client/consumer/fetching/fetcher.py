"""Asks the brokers for data, ahead of the application."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.client.consumer.fetching.completed_fetch import CompletedFetch
from barnabas.client.consumer.fetching.fetch_metrics import FetchMetrics, FetchMetricsAggregator
from barnabas.client.consumer.fetching.fetch_plan import Asked, FetchPlan
from barnabas.client.consumer.fetching.fetch_request import fetch_request
from barnabas.client.consumer.fetching.fetch_session_handler import FetchRequestData, FetchSessionHandler
from barnabas.errors import NONE, KafkaError
from barnabas.network.log_context import client_logger
from barnabas.network.node import Node
from barnabas.protocol.kinds import IsolationLevel
from barnabas.protocol.thresholds import FETCH_TOPIC_IDS_FROM
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.fetching.fetch_config import FetchConfig
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.network.client_request import ClientResponse
    from barnabas.protocol.messages.fetch_response import FetchResponse, PartitionData

log = client_logger("barnabas.consumer")


def _ignore(_outcome: object) -> None: ...


class Fetcher:
    """Keeps one fetch on its way to every broker that leads a partition to read; answers wait in `completed_fetches`.

    Belongs to the application's thread. The next fetch to a broker goes out when the data of the last one begins to be
    handed out, and asks for what follows it: the broker and the network work while the application does. So a broker
    accounts for at most two responses, each at most `fetch.max.bytes`. (Apache Kafka sends it when all data of the
    broker is handed out.)
    """

    def __init__(
        self,
        client: ConsumerNetworkClient,
        metadata: ConsumerMetadata,
        subscriptions: SubscriptionState,
        config: FetchConfig,
        metrics: FetchMetrics,
        *,
        retry_backoff: float,
    ) -> None:
        self._retry_backoff = retry_backoff
        self._client = client
        self._metadata = metadata
        self._subscriptions = subscriptions
        self._config = config
        self._sessions: dict[int, FetchSessionHandler] = {}
        self._pending_nodes: set[int] = set()
        # Nodes with an answer that nothing has been handed out of yet: they get no further fetch.
        self._full_nodes: set[int] = set()
        self._plan = FetchPlan(metadata, subscriptions, config.max_partition_bytes)
        self._nothing_to_send: object = None
        self.completed_fetches: deque[CompletedFetch] = deque()
        self.metrics = metrics
        self._counted_assignment = 0
        # Counts the times that everything on its way was dropped: answers of before are ignored.
        self._beginnings = 0
        client.on_torn.append(self.begin_anew)

    def begin_anew(self) -> None:
        """Drop all data and all sessions, and fetch again from the positions."""
        self._beginnings += 1
        self._sessions = {}
        self._pending_nodes = set()
        self._full_nodes = set()
        self._plan = FetchPlan(self._metadata, self._subscriptions, self._config.max_partition_bytes)
        self._nothing_to_send = None
        self.completed_fetches.clear()

    # --- sending

    def send_fetches(self, now: float) -> int:
        """Prepare a fetch for every node that can take one; returns how many. `poll` transmits them."""
        requests = self.prepare_fetch_requests(now)
        for node, data, asked in requests:
            self._pending_nodes.add(node.id)
            self._client.send(node, fetch_request(data, self._config), now).add_listener(
                partial(self._on_fetched, node, asked, self._beginnings),
                partial(self._on_fetch_failed, node, self._beginnings),
            )
        return len(requests)

    def prepare_fetch_requests(self, now: float) -> list[tuple[Node, FetchRequestData, Asked]]:
        """Return the request for each node that can take one, of all partitions it leads that can be read."""
        self._subscriptions.preferred_read_replicas.expire(now)
        cluster = self._metadata.fetch()
        busy = self._pending_nodes | self._full_nodes
        # Handing records out changes none of these, so most calls end here, however many partitions there are.
        present = (self._subscriptions.version, cluster, busy)
        if present == self._nothing_to_send:
            return []
        self._plan.update(cluster, now)
        if self._plan.leaderless:
            self._metadata.request_update(reset_equivalent_backoff=False)
        is_final = not self._plan.leaderless and not self._plan.is_backing_off
        requests: list[tuple[Node, FetchRequestData, Asked]] = []
        for node_id, plan in self._plan.nodes.items():
            if self._client.is_unavailable(plan.node, now):
                is_final = False
            elif node_id not in busy:
                requests.append((plan.node, plan.request(self._session(node_id)), plan.asked))
        self._nothing_to_send = present if is_final and not requests else None
        return requests

    def _session(self, node_id: int) -> FetchSessionHandler:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSessionHandler(node_id)
        return session

    # --- answers

    def _on_fetched(self, node: Node, asked: Asked, beginnings: int, response: ClientResponse) -> None:
        if beginnings != self._beginnings:
            return
        self._pending_nodes.discard(node.id)
        session = self._session(node.id)
        message = response.message
        if not session.handle_response(message):
            return
        names = session.topic_names() if response.api_version >= FETCH_TOPIC_IDS_FROM else None
        self._count(response, names)
        aggregator = FetchMetricsAggregator(self.metrics)
        if message.node_endpoints:
            self._note_leaders(message, names)
        for topic in message.responses:
            name = topic.topic if names is None else names.get(topic.topic_id, "")
            for found in topic.partitions:
                self._handle_partition(node, TopicPartition(name, found.partition_index), asked, found, aggregator)

    def _count(self, response: ClientResponse, names: dict[bytes, str] | None) -> None:
        if self._counted_assignment != self._subscriptions.assignment_number and len(self._subscriptions):
            # Between two assignments of an eager rebalance nothing is assigned; what was counted is kept meanwhile.
            self._counted_assignment = self._subscriptions.assignment_number
            self.metrics.retain(self._subscriptions.assigned_partitions)
        size = 0
        for topic in response.message.responses:
            of_topic = sum(len(found.records or b"") for found in topic.partitions)
            name = topic.topic if names is None else names.get(topic.topic_id)
            if of_topic and name is not None:
                self.metrics.fetched_of(name, of_topic, response.received_at)
            size += of_topic
        self.metrics.on_fetched(response.latency, response.message.throttle_time_ms, size, response.received_at)

    def _handle_partition(
        self,
        node: Node,
        partition: TopicPartition,
        asked: Asked,
        found: PartitionData,
        aggregator: FetchMetricsAggregator,
    ) -> None:
        if partition not in asked:
            log.warning("Node %s sent data of %s, which was not asked for", node.id, partition)
            return
        self._subscriptions.update_log_offsets(
            partition, found.high_watermark, found.log_start_offset, found.last_stable_offset
        )
        offset, seek_id = asked[partition]
        last = self._plan.buffered(partition)
        is_stale = seek_id != self._subscriptions.seek_id(partition)
        if is_stale or (last is not None and last.seek_id == seek_id and last.end_offset != offset):
            log.debug("Data of %s from offset %s is not wanted any more", partition, offset)
            return
        if found.preferred_read_replica >= 0:
            until = self._client.now + self._metadata.max_age
            self._subscriptions.preferred_read_replicas.update(partition, found.preferred_read_replica, until)
        fetch = CompletedFetch(partition, asked[partition], found, self._config, node.id, aggregator)
        if fetch.has_data:
            self.completed_fetches.append(fetch)
            if anatomy.active is not None:
                names = self._client.client.client_id, node.id, *partition, offset, fetch.size_in_bytes
                anatomy.active.record(anatomy.events.FetchCompleted(*names))
            self._full_nodes.add(node.id)
            if found.error_code == NONE:
                aggregator.expect()
                self._plan.note_buffered(fetch)

    def _note_leaders(self, message: FetchResponse, names: dict[bytes, str] | None) -> None:
        """Learn the new leaders that the response names along with an error (KIP-951)."""
        leaders = {
            TopicPartition(topic.topic if names is None else names.get(topic.topic_id, ""), found.partition_index): (
                found.current_leader.leader_id,
                found.current_leader.leader_epoch,
            )
            for topic in message.responses
            for found in topic.partitions
            if found.error_code != NONE and found.current_leader.leader_id >= 0
        }
        nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
        for partition in self._metadata.update_partition_leadership(leaders, nodes):
            self._subscriptions.maybe_validate_position(partition, self._metadata.leader_and_epoch(partition))

    def _on_fetch_failed(self, node: Node, beginnings: int, error: KafkaError) -> None:
        if beginnings != self._beginnings:
            return
        log.info("A fetch from node %s failed: %s", node.id, error)
        self._pending_nodes.discard(node.id)
        session = self._session(node.id)
        for partition in session.partitions:
            self._subscriptions.preferred_read_replicas.clear(partition)
        session.handle_error()
        self._metadata.request_update(reset_equivalent_backoff=False)

    def back_off(self, partition: TopicPartition) -> None:
        """Ask nothing more of a partition for retry.backoff.ms."""
        self._plan.back_off(partition, self._client.now + self._retry_backoff)

    @property
    def is_backing_off(self) -> bool:
        """Whether some partition waits to be asked again."""
        return self._plan.is_backing_off

    # --- the buffer

    def began(self, fetch: CompletedFetch) -> None:
        """Look at this answer's data for the first time: its node may be asked for more."""
        self._full_nodes.discard(fetch.node_id)

    def on_fetch_end(self, fetch: CompletedFetch, now: float) -> None:
        """Forget this answer: all its data is handed out, or dropped."""
        fetch.drain()
        if anatomy.active is not None:
            names = self._client.client.client_id, *fetch.partition, fetch.fetch_offset, fetch.next_offset
            anatomy.active.record(anatomy.events.FetchDrained(*names))
        if fetch.response.error_code == NONE:
            fetch.aggregator.on_partition_end(fetch.partition.topic, fetch.handed_out, now)
        self._plan.forget_buffered(fetch)

    def note_distances(self, partition: TopicPartition, now: float) -> None:
        """Count how far the position is from the ends of the log, now that it has changed."""
        lag = self._subscriptions.partition_lag(
            partition, read_committed=self._config.isolation_level == IsolationLevel.READ_COMMITTED
        )
        self.metrics.moved_on(partition, lag, self._subscriptions.partition_lead(partition), now)

    def close_sessions(self, now: float) -> None:
        """Tell the brokers that the sessions are over, without waiting for the answers."""
        for node_id, session in self._sessions.items():
            node = self._metadata.fetch().node(node_id)
            data = session.build_final()
            if node is not None and data is not None and not self._client.is_unavailable(node, now):
                request = fetch_request(data, self._config._replace(max_wait_ms=0, min_bytes=0))
                self._client.send(node, request, now).add_listener(_ignore, _ignore)
        self._sessions.clear()
