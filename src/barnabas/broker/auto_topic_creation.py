"""Topics that come into being because a client asks for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TopicMetadata, folded
from barnabas.broker.piecewise import outcome_of, turn_of
from barnabas.broker.topic_admin import check_topic_name

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Steps
    from barnabas.broker.topic_admin import TopicAdmin


class AutoTopicCreation:
    """Makes the topics that one request asks for and that are not there, in one commit beside the loop."""

    def __init__(self, broker: BrokerState, is_allowed: bool, now_ms: int):
        self._admin = broker.topic_admin
        self._metadata = broker.metadata
        self._is_allowed = is_allowed and broker.config.get_bool("auto.create.topics.enable")
        self._now_ms = now_ms
        self._partitions = 0
        self._planned: dict[str, TopicMetadata] = {}

    def create(self, names: Iterable[str]) -> Steps[dict[str, TopicMetadata | errors.KafkaError]]:
        """Return what each name stands for then: a topic, or why there is none."""
        if self._is_allowed:
            yield from turn_of(self._metadata)
        found: dict[str, TopicMetadata | errors.KafkaError] = {}
        for name in names:
            try:
                found[name] = self._metadata.topic(name) or self._plan(name)
            except errors.KafkaError as problem:
                found[name] = problem
        if self._planned:
            failure = yield from commit_topics(self._admin, self._planned.values())
            for topic in self._planned.values():
                found[topic.name] = failure or self._metadata.topic(topic.name) or errors.LeaderNotAvailableError()
        return found

    def _plan(self, name: str) -> TopicMetadata:
        check_topic_name(name)
        if not self._is_allowed:
            raise errors.UnknownTopicOrPartitionError(f"There is no topic {name!r}.")
        if folded(name) in self._planned:
            raise errors.InvalidTopicError(f"Topic {name!r} collides with another one of this request.")
        topic = self._admin.plan_automatically(name, self._now_ms)
        self._admin.check_request(self._partitions + topic.partitions)
        self._admin.check_cluster(self._partitions + topic.partitions)
        self._partitions += topic.partitions
        self._planned[folded(name)] = topic
        return topic


def ensure_internal(broker: BrokerState, name: str, now_ms: int) -> Steps[errors.KafkaError | None]:
    """Create an internal topic unless it is there, beside the loop; returns why that failed."""
    yield from turn_of(broker.metadata)
    if broker.metadata.topic(name) is not None:
        return None
    try:
        planned = broker.topic_admin.plan_automatically(name, now_ms)
    except errors.KafkaError as problem:
        return problem
    return (yield from commit_topics(broker.topic_admin, [planned]))


def commit_topics(admin: TopicAdmin, topics: Iterable[TopicMetadata]) -> Steps[errors.KafkaError | None]:
    """Store planned topics, beside the loop; returns why that failed."""

    def begin(tell: Callable[[errors.KafkaError | None], None]) -> None:
        admin.create(topics, tell)

    return (yield from outcome_of(begin))
