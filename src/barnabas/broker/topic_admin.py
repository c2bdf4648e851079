"""Creating, enlarging and deleting topics: the rules of Kafka's controller, on `ClusterMetadata`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    ClusterMetadata,
    TopicMetadata,
)
from barnabas.broker.topic_policy import TopicRequest, allow_all, make_topic_policy
from barnabas.protocol.kafka_uuid import random_uuid
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    import random
    from collections.abc import Sized

    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.metadata.cluster_metadata import Done

MAX_NAME_LENGTH = 249
#: As many partitions one request may create (Kafka's MAX_PARTITIONS_PER_BATCH).
MAX_PARTITIONS_PER_REQUEST = 10_000
#: As many there may be at all: every client that asks for all metadata is told of each of them.
MAX_PARTITIONS = 100_000
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_DEFAULT = -1


class TopicCreation(Protocol):
    """Who makes the topics of a cluster."""

    def create(self, topics: Iterable[TopicMetadata], tell: Done) -> None:
        """Have topics made; `tell` gets None when they are known here, or why they are not made."""


class TopicAdmin:
    """Checks what is asked for, then writes it to the metadata. Logs follow from there."""

    __slots__ = ("_check_policy", "_config", "_creation", "_metadata", "_random")

    def __init__(
        self,
        config: BrokerConfig,
        metadata: ClusterMetadata,
        random: random.Random,
        creation: TopicCreation | None = None,
    ):
        """`creation` asks the controller of a cluster, which assigns the replicas; None: this broker is alone."""
        self._config = config
        self._creation = creation
        self._metadata = metadata
        self._random = random
        self._check_policy = make_topic_policy(config) if creation is None else allow_all

    def plan(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        assignments: Mapping[int, Sequence[int]],
        configs: Mapping[str, str | None],
        now_ms: int,
    ) -> TopicMetadata:
        """Return the topic that was asked for, not yet stored. Raises the KafkaError that tells the client why not."""
        self._check_new_name(name)
        if assignments:
            partitions = self._check_assignments(partitions, replication_factor, assignments)
        else:
            if self._creation is None:
                self._check_replication_factor(replication_factor)
            partitions = self._check_partitions(partitions)
        checked = check_topic_configs(configs, self._config.topic_defaults)
        self._check_policy(_request(name, partitions, assignments, configs))
        return TopicMetadata(name, random_uuid(self._random), partitions, checked, now_ms)

    def create(self, topics: Iterable[TopicMetadata], done: Done | None = None) -> None:
        """Store planned topics, all or none; `done` as for `ClusterMetadata`."""
        if self._creation is not None:
            self._creation.create(topics, done or _ignore)
        else:
            self._metadata.put_topics(topics, done)

    def plan_automatically(self, name: str, now_ms: int) -> TopicMetadata:
        """Return the topic that a client's asking for its metadata creates, not yet stored. Raises KafkaError."""
        partitions, configs = _internal_topics(self._config).get(name, (_DEFAULT, {}))
        return self.plan(name, partitions, _DEFAULT, {}, configs, now_ms)

    def ensure_internal(self, name: str, now_ms: int) -> TopicMetadata:
        """Return the internal topic of that name, created with the broker's settings for it if it is missing."""
        topic = self._metadata.committed_topic(name)
        if topic is None and self._creation is not None:
            raise errors.CoordinatorNotAvailableError(f"{name} is not there; FindCoordinator has it made.")
        if topic is None:
            partitions, configs = _internal_topics(self._config)[name]
            topic = self.plan(name, partitions, _DEFAULT, {}, configs, now_ms)
            self.create([topic])
        return topic

    def enlarge(self, name: str, count: int, assignments: Sequence[Sequence[int]] | None) -> TopicMetadata:
        """Return the topic `name` with `count` partitions, not yet stored. Raises KafkaError."""
        topic = self._metadata.topic(name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"There is no topic {name!r}.")
        if count == topic.partitions:
            raise errors.InvalidPartitionsError(f"Topic {name!r} already has {count} partition(s).")
        if count < topic.partitions:
            raise errors.InvalidPartitionsError(
                f"Topic {name!r} has {topic.partitions} partition(s), more than the {count} asked for; "
                "partitions cannot be removed."
            )
        added = count - topic.partitions
        if assignments is not None:
            if len(assignments) != added:
                raise errors.InvalidReplicaAssignmentError(
                    f"{added} partition(s) are to be added, {len(assignments)} assignment(s) are given."
                )
            for replicas in assignments:
                self._check_replicas(replicas)
        return TopicMetadata(name, topic.id, count, topic.configs, topic.created_ms)

    def _check_new_name(self, name: str) -> None:
        check_topic_name(name)
        if name == CLUSTER_METADATA_TOPIC:
            raise errors.InvalidRequestError(f"The topic {name!r} is Kafka's own and cannot be created.")
        if self._metadata.topic(name) is not None:
            raise errors.TopicExistsError(f"Topic {name!r} already exists.")
        other = self._metadata.colliding_topic(name)
        if other is not None:
            raise errors.InvalidTopicError(
                f"Topic {name!r} collides with the topic {other!r}: names may not differ only in '.' and '_'."
            )

    def _check_partitions(self, partitions: int) -> int:
        if partitions == _DEFAULT:
            partitions = self._config.get_int("num.partitions")
        if partitions < 1:
            raise errors.InvalidPartitionsError(
                f"{partitions} partitions: the number must be larger than 0, or -1 for the broker's default."
            )
        return partitions

    def partitions_asked_for(self, count: int, assignments: Sized) -> int:
        """How many partitions a topic would get, as far as what was asked for makes sense."""
        if assignments:
            return len(assignments)
        return self._config.get_int("num.partitions") if count == _DEFAULT else max(count, 0)

    def check_request(self, added: int) -> None:
        """Whether one request may ask for so many new partitions in all. Raises PolicyViolationError."""
        if added > MAX_PARTITIONS_PER_REQUEST:
            raise errors.PolicyViolationError(
                f"{added} partitions are too many for one request; {MAX_PARTITIONS_PER_REQUEST} is the limit."
            )

    def check_cluster(self, added: int) -> None:
        """Whether there is room for so many more partitions. Raises PolicyViolationError."""
        present = self._metadata.partition_count
        if present + added > MAX_PARTITIONS:
            raise errors.PolicyViolationError(
                f"The cluster has {present} partitions; {added} more would be above the limit of {MAX_PARTITIONS}. "
                "Delete topics, or create them with fewer partitions."
            )

    def _check_replication_factor(self, factor: int) -> None:
        if factor == _DEFAULT:
            factor = self._config.get_int("default.replication.factor")
        if factor < 1:
            raise errors.InvalidReplicationFactorError(
                f"Replication factor {factor}: it must be larger than 0, or -1 for the broker's default."
            )
        if factor > 1:
            raise errors.InvalidReplicationFactorError(
                f"Replication factor {factor} cannot be reached: only 1 broker is registered."
            )

    def _check_assignments(self, partitions: int, factor: int, assignments: Mapping[int, Sequence[int]]) -> int:
        if factor != _DEFAULT:
            raise errors.InvalidRequestError("With assignments given by hand the replication factor must be -1.")
        if partitions != _DEFAULT:
            raise errors.InvalidRequestError("With assignments given by hand the number of partitions must be -1.")
        if sorted(assignments) != list(range(len(assignments))):
            raise errors.InvalidReplicaAssignmentError("The assigned partitions must be 0, 1, 2, ... without a gap.")
        for replicas in assignments.values():
            self._check_replicas(replicas)
        return len(assignments)

    def _check_replicas(self, replicas: Sequence[int]) -> None:
        if list(replicas) != [self._config.node_id]:
            raise errors.InvalidReplicaAssignmentError(
                f"Replicas {list(replicas)} cannot be used: the only registered broker is {self._config.node_id}."
            )


def _request(
    name: str, partitions: int, assignments: Mapping[int, Sequence[int]], configs: Mapping[str, str | None]
) -> TopicRequest:
    given = {key: value for key, value in configs.items() if value is not None}
    if assignments:
        return TopicRequest(name, None, None, assignments, given)
    return TopicRequest(name, partitions, 1, None, given)


def _ignore(problem: errors.KafkaError | None) -> None:
    return


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError unless `name` can be a topic's name."""
    if not name:
        problem = "it is empty"
    elif name in (".", ".."):
        problem = "it may not be '.' or '..'"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"it is longer than {MAX_NAME_LENGTH} characters"
    elif not _LEGAL.issuperset(name):
        problem = "it may hold only ASCII letters and digits, '.', '_' and '-'"
    else:
        return
    raise errors.InvalidTopicError(f"Topic name {name!r} is not valid: {problem}.")


def check_topic_configs(configs: Mapping[str, str | None], defaults: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a topic, as they are stored. Raises InvalidConfigurationError."""
    if not configs:
        return {}
    from barnabas.config.config import Config

    for name, value in configs.items():
        if value is None:
            raise errors.InvalidConfigurationError(f"Null value not supported for topic configs: {name}")
    try:
        checked = Config("topic", configs)
    except errors.ConfigError as problem:
        raise errors.InvalidConfigurationError(str(problem)) from problem
    given = checked.given
    least = given.get("min.compaction.lag.ms", defaults["min.compaction.lag.ms"])
    most = given.get("max.compaction.lag.ms", defaults["max.compaction.lag.ms"])
    if least > most:
        raise errors.InvalidConfigurationError(
            f"min.compaction.lag.ms={least} may not be larger than max.compaction.lag.ms={most}"
        )
    return {name: text_of(value) or "" for name, value in given.items()}


def text_of(value: Any) -> str | None:
    """Return a parsed value in the spelling of Kafka's files and APIs; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    if isinstance(value, float):
        # As Java writes large numbers.
        return str(value).replace("e+", "E").replace("e", "E")
    return str(value)


def _internal_topics(config: BrokerConfig) -> dict[str, tuple[int, dict[str, str]]]:
    """Name → (partitions, settings) of the topics that the broker makes for itself."""
    return {
        GROUP_METADATA_TOPIC: (
            config.get_int("offsets.topic.num.partitions"),
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            },
        ),
        TRANSACTION_STATE_TOPIC: (
            config.get_int("transaction.state.log.num.partitions"),
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
            },
        ),
        SHARE_GROUP_STATE_TOPIC: (
            config.get_int("share.coordinator.state.topic.num.partitions"),
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": str(config["share.coordinator.state.topic.segment.bytes"]),
                "retention.ms": "-1",
            },
        ),
    }
