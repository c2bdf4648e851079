"""`Metadata`: what is known of the cluster, how old it is, and when it must be asked for again."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from barnabas.client.cluster import Cluster, PartitionInfo, TopicInfo
from barnabas.errors import (
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationError,
    UnknownServerError,
    for_code,
)
from barnabas.network.client_request import RequestBuilder
from barnabas.network.exponential_backoff import ExponentialBackoff, RandomSource
from barnabas.network.log_context import client_logger
from barnabas.network.node import Node
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.metadata_response import MetadataResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.config.client_config import ClientConfig
    from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponseTopic

log = client_logger("barnabas.metadata")

#: What answers the question for the cluster: brokers by Metadata, controllers by DescribeCluster.
MetadataAnswer: TypeAlias = "MetadataResponse | DescribeClusterResponse"

# Before this version a response may carry leader epochs that are older than they seem (KAFKA-9212).
_FIRST_VERSION_WITH_RELIABLE_EPOCHS = 9


class LeaderAndEpoch(NamedTuple):
    """Who leads a partition, as far as known, and since which epoch (-1 when not known)."""

    leader: Node | None
    epoch: int


class MetadataQuery(NamedTuple):
    """A metadata request to send, and what `update` must be told with its response."""

    message: MetadataRequest | RequestBuilder
    request_version: int
    is_partial: bool


class MetadataRefresh(NamedTuple):
    """How often the cluster is asked for: after a backoff that grows up to its maximum, and at the greatest age."""

    backoff: float
    backoff_max: float
    max_age: float
    random: RandomSource

    @classmethod
    def of(cls, config: ClientConfig, random: RandomSource) -> MetadataRefresh:
        """Return it as a client's settings say."""
        return cls(
            config.get_seconds("retry.backoff.ms"),
            config.get_seconds("retry.backoff.max.ms"),
            config.get_seconds("metadata.max.age.ms"),
            random,
        )


class Metadata:
    """Kafka's Metadata. Thread-safe: the application's thread asks, the thread that polls updates.

    `fetch()` gives the present snapshot without a lock. What the client is interested in is decided by the two hooks
    that subclasses override, `topics_of_interest` and `retain_topic`; here it is everything.

    Durations are seconds, `now` is monotonic.
    """

    def __init__(self, refresh: MetadataRefresh) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._backoff = ExponentialBackoff(refresh.backoff, refresh.backoff_max, refresh.random)
        self._max_age = refresh.max_age
        self._cluster = Cluster()
        self._bootstrap_nodes: list[Node] = []
        self._update_version = 0
        self._request_version = 0
        self._needs_full_update = False
        self._needs_partial_update = False
        self._last_refresh = -math.inf
        self._last_successful_refresh = -math.inf
        self._attempts = 0
        self._attempt_backoff = 0.0
        # Responses in a row that brought nothing new: something asks again and again, so it must ask more slowly.
        self._equivalent_responses = 0
        self._equivalent_backoff = 0.0
        self._last_seen_epochs: dict[TopicPartition, int] = {}
        #: How often an epoch was seen that is newer than the snapshot's: leaders are unknown then until the next one.
        self.seen_epochs = 0
        self._fatal_error: KafkaError | None = None
        self._invalid_topics: frozenset[str] = frozenset()
        self._unauthorized_topics: frozenset[str] = frozenset()
        self._listeners: list[Callable[[Cluster], None]] = []
        self._is_closed = False

    # What the client is interested in.

    def topics_of_interest(self, *, only_new: bool) -> Collection[str] | None:
        """Return the topics to ask for: None for all. With `only_new`, those that were added since the last request."""
        return None

    def topic_ids_of_interest(self) -> Collection[bytes]:
        """Return the topics to ask for by their ids, where there are none to ask for by name."""
        return ()

    def retain_topic(self, topic: str, is_internal: bool, now: float) -> bool:
        """Whether a topic in a response is to be kept."""
        return True

    @property
    def allow_auto_topic_creation(self) -> bool:
        """Whether asking for a topic may create it."""
        return True

    # Asking.

    def fetch(self) -> Cluster:
        """Return the present snapshot."""
        return self._cluster

    @property
    def max_age(self) -> float:
        """`metadata.max.age.ms`, in seconds."""
        return self._max_age

    def age(self, now: float) -> float:
        """Return the seconds since the last response that was taken; infinite before the first."""
        return now - self._last_successful_refresh

    @property
    def update_version(self) -> int:
        """Grows with every response; what `await_update` takes."""
        return self._update_version

    def request_update(self, *, reset_equivalent_backoff: bool = True) -> int:
        """Ask for fresh metadata of all topics of interest; return the present `update_version`.

        `reset_equivalent_backoff=False` when the reason is that the metadata seems to be wrong: then it is asked for
        more and more slowly as long as the answers bring nothing new.
        """
        with self._changed:
            self._needs_full_update = True
            if reset_equivalent_backoff:
                self._equivalent_responses = 0
            return self._update_version

    def request_update_for_new_topics(self) -> int:
        """Ask at once for the metadata of new topics only; return the present `update_version`."""
        with self._changed:
            self._last_refresh = -math.inf
            self._needs_partial_update = True
            self._equivalent_responses = 0
            self._request_version += 1
            return self._update_version

    @property
    def update_requested(self) -> bool:
        """Whether fresh metadata was asked for and has not come yet."""
        return self._needs_full_update or self._needs_partial_update

    def time_to_next_update(self, now: float) -> float:
        """Seconds until a request should be sent.

        When one is asked for or the metadata is `metadata.max.age.ms` old, but not before the backoff is over.
        """
        with self._lock:
            until_due = self._last_successful_refresh + self._max_age - now
            if until_due <= 0:
                # Asked for because of its age, not because it seems wrong.
                self._equivalent_responses = 0
            elif self._needs_full_update or self._needs_partial_update:
                until_due = 0.0
            backoff = self._attempt_backoff
            if self._equivalent_responses:
                backoff = max(backoff, self._equivalent_backoff)
            return max(until_due, self._last_refresh + backoff - now, 0.0)

    def new_query(self, now: float) -> MetadataQuery:
        """Return the request to send now; a partial one when only new topics are needed."""
        with self._changed:
            is_partial = not self._needs_full_update and self._last_successful_refresh + self._max_age > now
            if is_partial:
                topics = self.topics_of_interest(only_new=True)
                if topics:
                    return MetadataQuery(self._request_for(topics), self._request_version, True)
            return MetadataQuery(
                self._request_for(self.topics_of_interest(only_new=False)), self._request_version, False
            )

    def _request_for(self, topics: Collection[str] | None) -> MetadataRequest:
        topic_ids = () if topics is None or topics else self.topic_ids_of_interest()
        if topic_ids:
            by_id = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
            return MetadataRequest(topics=by_id, allow_auto_topic_creation=False)
        return MetadataRequest(
            topics=None if topics is None else [MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=self.allow_auto_topic_creation,
        )

    # Waiting.

    def await_update(self, last_version: int, timeout: float) -> None:
        """Block until the version is higher than `last_version`.

        Raises `KafkaTimeoutError`: that took longer than `timeout` seconds. Raises `KafkaError` when the error
        that makes updates impossible, such as a failed authentication. Raises `IllegalStateError`: closed
        meanwhile.

        """
        with self._changed:
            is_in_time = self._changed.wait_for(lambda: self.is_wait_over(last_version), max(timeout, 0.0))
            self.raise_fatal_error()
            if self._is_closed:
                raise IllegalStateError("the client was closed while it waited for metadata")
            if not is_in_time:
                raise KafkaTimeoutError(
                    f"no metadata came within {timeout:.3f} s; are the bootstrap servers reachable?"
                )

    def is_wait_over(self, last_version: int) -> bool:
        """Whether `await_update` would return, or raise, without waiting."""
        return self._update_version > last_version or self._is_closed or self._fatal_error is not None

    # Updating, by the thread that polls.

    def bootstrap(self, nodes: Iterable[Node]) -> None:
        """Start from these servers."""
        with self._changed:
            self._bootstrap_nodes = list(nodes)
            self.rebootstrap()

    def rebootstrap(self) -> None:
        """Forget all and starts again from the servers given to `bootstrap` (KIP-899)."""
        with self._changed:
            self._needs_full_update = True
            self._update_version += 1
            self._cluster = Cluster.bootstrap(self._bootstrap_nodes)

    def update(
        self,
        response: MetadataAnswer,
        now: float,
        *,
        request_version: int | None = None,
        is_partial: bool = False,
        version: int = _FIRST_VERSION_WITH_RELIABLE_EPOCHS,
    ) -> None:
        """Take in a MetadataResponse of API version `version`; the other arguments are the query's."""
        assert isinstance(response, MetadataResponse), "only an admin client asks controllers"
        with self._changed:
            if self._is_closed:
                raise IllegalStateError("the metadata is closed")
            asked_version = self._request_version if request_version is None else request_version
            self._needs_partial_update = asked_version < self._request_version
            self._last_refresh = now
            self._attempts = 0
            self._attempt_backoff = self._backoff.backoff(0)
            self._update_version += 1
            if not is_partial:
                self._needs_full_update = False
                self._last_successful_refresh = now
            self._equivalent_responses += 1
            self._cluster = cluster = self._merged(response, now, is_partial, version)
            if self._equivalent_responses:
                self._equivalent_backoff = self._backoff.backoff(self._equivalent_responses - 1)
            self._take_errors(cluster)
            self._forget_epochs(cluster)
            self.on_updated(response)
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener(cluster)

    @property
    def wanted_endpoint(self) -> str:
        """Where the bootstrap servers must lead, for people who gave others."""
        return "bootstrap.servers must lead to brokers; controllers answer other requests"

    def refusal(self, response: MetadataAnswer) -> KafkaError | None:
        """Return the error in a response that asking again does not cure; here a response has no such errors."""
        return None

    def on_updated(self, response: MetadataResponse) -> None:
        """Take part in an update, in subclasses; runs with the lock held."""

    def failed_update(self, now: float) -> None:
        """Note that the request got no answer: ask again, after a growing backoff."""
        with self._changed:
            self._last_refresh = now
            self._attempt_backoff = self._backoff.backoff(self._attempts)
            self._attempts += 1
            self._equivalent_responses = 0

    def _merged(self, response: MetadataResponse, now: float, is_partial: bool, version: int) -> Cluster:
        topics: dict[str, TopicInfo] = {}
        mentioned: set[str] = set()
        unauthorized: set[str] = set()
        invalid: set[str] = set()
        for topic in response.topics:
            if topic.name is None:  # asked for by an id that the broker does not know
                continue
            mentioned.add(topic.name)
            if not self.retain_topic(topic.name, topic.is_internal, now):
                continue
            if topic.error_code == 0:
                topics[topic.name] = self._topic_info(topic.name, topic, version)
                continue
            if topic.error_code == InvalidTopicError.code:
                invalid.add(topic.name)
            elif topic.error_code == TopicAuthorizationError.code:
                unauthorized.add(topic.name)
            # A broker that fails at one request, for want of its ZooKeeper for instance, may know it at the next.
            if for_code(topic.error_code).refresh_metadata or topic.error_code == UnknownServerError.code:
                self.request_update(reset_equivalent_backoff=False)
        nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        if is_partial:
            known = self._cluster
            for name, info in known.topics.items():
                if name not in mentioned and self.retain_topic(name, info.is_internal, now):
                    topics[name] = info
            unauthorized |= known.unauthorized_topics - mentioned
            invalid |= known.invalid_topics - mentioned
        return Cluster(
            nodes.values(),
            topics,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            unauthorized_topics=unauthorized,
            invalid_topics=invalid,
        )

    def _topic_info(self, name: str, topic: MetadataResponseTopic, version: int) -> TopicInfo:
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else None
        known = self._cluster.topics.get(name)
        is_recreated = topic_id is not None and known is not None and known.topic_id != topic_id
        found = {}
        for partition in topic.partitions:
            info = PartitionInfo.of(name, partition)
            found[info.partition] = self._newer_of(info, is_recreated, version)
            if info.error_code and for_code(info.error_code).refresh_metadata:
                self.request_update(reset_equivalent_backoff=False)
        partitions = tuple(found.get(n) or PartitionInfo(name, n) for n in range(max(found, default=-1) + 1))
        return TopicInfo(name, topic_id, topic.is_internal, partitions)

    def _newer_of(self, info: PartitionInfo, is_recreated: bool, version: int) -> PartitionInfo:
        """Return what to believe of a partition: never an older leader epoch than was seen of it (KIP-320)."""
        topic_partition = TopicPartition(info.topic, info.partition)
        if version < _FIRST_VERSION_WITH_RELIABLE_EPOCHS or info.leader_epoch < 0:
            self._last_seen_epochs.pop(topic_partition, None)
            self._equivalent_responses = 0
            return info._replace(leader_epoch=-1)
        seen = self._last_seen_epochs.get(topic_partition)
        if seen is None or is_recreated or info.leader_epoch > seen:
            self._equivalent_responses = 0
        elif info.leader_epoch < seen:
            known = self._cluster.partition(topic_partition)
            if known is not None:
                return known
            return info
        self._last_seen_epochs[topic_partition] = info.leader_epoch
        return info

    def _take_errors(self, cluster: Cluster) -> None:
        self._invalid_topics = cluster.invalid_topics
        self._unauthorized_topics = cluster.unauthorized_topics
        if cluster.invalid_topics:
            log.error("the cluster calls these topics invalid: %s", ", ".join(sorted(cluster.invalid_topics)))
        if cluster.unauthorized_topics:
            log.error("this client may not see these topics: %s", ", ".join(sorted(cluster.unauthorized_topics)))

    def _forget_epochs(self, cluster: Cluster) -> None:
        gone = [
            topic_partition for topic_partition in self._last_seen_epochs if topic_partition[0] not in cluster.topics
        ]
        for topic_partition in gone:
            del self._last_seen_epochs[topic_partition]

    # Leaders and their epochs.

    def current_leader(self, topic_partition: TopicPartition) -> LeaderAndEpoch:
        """Who leads a partition; without a leader when the metadata is older than an epoch that was seen elsewhere."""
        cluster = self._cluster
        partition = cluster.partition(topic_partition)
        seen = self._last_seen_epochs.get(topic_partition)
        if partition is None or (seen is not None and partition.leader_epoch != seen):
            return LeaderAndEpoch(None, -1 if seen is None else seen)
        return LeaderAndEpoch(cluster.node(partition.leader), partition.leader_epoch)

    def last_seen_leader_epoch(self, topic_partition: TopicPartition) -> int | None:
        """Return the highest leader epoch seen of a partition."""
        return self._last_seen_epochs.get(topic_partition)

    def update_last_seen_epoch_if_newer(self, topic_partition: TopicPartition, epoch: int) -> bool:
        """Take note of an epoch seen in a record or response; a newer one asks for fresh metadata and gives True."""
        with self._changed:
            seen = self._last_seen_epochs.get(topic_partition)
            if seen is None or epoch <= seen:
                return False
            self._last_seen_epochs[topic_partition] = epoch
            self.seen_epochs += 1
            self._needs_full_update = True
            return True

    def forget_epoch(self, topic_partition: TopicPartition) -> None:
        """Believe the metadata of a partition, though a later epoch was seen elsewhere."""
        with self._changed:
            partition = self._cluster.partition(topic_partition)
            if partition is not None:
                self._last_seen_epochs[topic_partition] = partition.leader_epoch

    def update_partition_leadership(
        self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]
    ) -> set[TopicPartition]:
        """Take in the leaders (id and epoch) that a produce or fetch response named (KIP-951); return what was news."""
        with self._changed:
            known_nodes = {node.id: node for node in self._cluster.nodes}
            known_nodes.update((node.id, node) for node in nodes)
            topics = dict(self._cluster.topics)
            updated = set()
            for topic_partition, (leader, epoch) in leaders.items():
                partition = self._cluster.partition(topic_partition)
                is_news = epoch > self.current_leader(topic_partition).epoch
                if partition is None or leader not in known_nodes or epoch < 0 or not is_news:
                    continue
                info = topics[topic_partition.topic]
                partitions = list(info.partitions)
                partitions[topic_partition.partition] = partition._replace(leader=leader, leader_epoch=epoch)
                topics[topic_partition.topic] = info._replace(partitions=tuple(partitions))
                self._last_seen_epochs[topic_partition] = epoch
                updated.add(topic_partition)
            if updated:
                self._cluster = self._with(known_nodes.values(), topics)
            return updated

    def _with(self, nodes: Iterable[Node], topics: Mapping[str, TopicInfo]) -> Cluster:
        known = self._cluster
        return Cluster(
            nodes,
            topics,
            cluster_id=known.cluster_id,
            controller_id=-1 if known.controller is None else known.controller.id,
            unauthorized_topics=known.unauthorized_topics,
            invalid_topics=known.invalid_topics,
        )

    # Errors.

    def fatal_error(self, error: KafkaError) -> None:
        """Set an error that asking again does not cure; all that wait get it."""
        with self._changed:
            self._fatal_error = error
            self._changed.notify_all()

    @property
    def has_fatal_error(self) -> bool:
        """Whether there is such an error that was not raised yet."""
        return self._fatal_error is not None

    def raise_fatal_error(self) -> None:
        """Raise the error given to `fatal_error`, once."""
        with self._changed:
            error, self._fatal_error = self._fatal_error, None
        if error is not None:
            raise error

    def raise_any_error(self) -> None:
        """Raise the fatal error or what the last response said about a topic, once."""
        with self._changed:
            self.raise_fatal_error()
            unauthorized, self._unauthorized_topics = self._unauthorized_topics, frozenset()
            invalid, self._invalid_topics = self._invalid_topics, frozenset()
        _raise_for_topics(unauthorized, invalid)

    def raise_error_for_topic(self, topic: str) -> None:
        """Raise the fatal error or what the last response said about this topic."""
        with self._changed:
            self.raise_fatal_error()
            unauthorized = self._unauthorized_topics & {topic}
            invalid = self._invalid_topics & {topic}
        _raise_for_topics(unauthorized, invalid)

    # The end.

    def add_listener(self, listener: Callable[[Cluster], None]) -> None:
        """Call `listener` with each new snapshot, in the thread that polls, with no lock held."""
        with self._changed:
            self._listeners.append(listener)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def close(self) -> None:
        """Nothing is updated any more; who waits stops waiting."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _raise_for_topics(unauthorized: Collection[str], invalid: Collection[str]) -> None:
    if unauthorized:
        error = TopicAuthorizationError(f"not authorized to access topics: {', '.join(sorted(unauthorized))}")
        error.resources = tuple(sorted(unauthorized))
        raise error
    if invalid:
        raise InvalidTopicError(f"these are not valid names of topics: {', '.join(sorted(invalid))}")
