"""CreateTopics: topics with their partitions and settings.

Versions 2-7. v3 throttled after the response (KIP-219). v4 defaults for partitions and replication factor (KIP-464). v5
flexible, settings in the response (KIP-525). v6 THROTTLING_QUOTA_EXCEEDED (KIP-599). v7 topic ids in the response
(KIP-516).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TopicMetadata, folded
from barnabas.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.config_helper import ConfigInfo
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest

API = 19
VERSIONS = (2, 7)


def handle(
    broker: BrokerState, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | DelayedOperation:
    """Create what can be created, all of it in one commit; each topic has its own result."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse | DelayedOperation:
    admin = broker.topic_admin
    names = Counter(topic.name for topic in request.topics)
    planned: dict[str, TopicMetadata] = {}
    results: dict[str, CreatableTopicResult] = {}
    added = 0
    show = Shown(broker)
    try:
        admin.check_request(sum(admin.partitions_asked_for(t.num_partitions, t.assignments) for t in request.topics))
    except errors.PolicyViolationError as problem:
        return CreateTopicsResponse(topics=[_refused(name, problem) for name in names])
    for topic in request.topics:
        try:
            if names[topic.name] > 1:
                raise errors.InvalidRequestError(f"Topic {topic.name!r} stands in the request more than once.")
            if folded(topic.name) in planned:
                raise errors.InvalidTopicError(f"Topic {topic.name!r} collides with another one of this request.")
            plan = _plan(broker, context, topic)
            admin.check_cluster(added + plan.partitions)
            broker.client_quotas.mutate(context, plan.partitions)
            planned[folded(topic.name)] = plan
            results[topic.name] = show.result(plan)
            added += plan.partitions
        except errors.KafkaError as problem:
            results[topic.name] = _refused(topic.name, problem)

    def answer(problem: errors.KafkaError | None) -> CreateTopicsResponse:
        if problem is not None:
            for topic in planned.values():
                results[topic.name] = _refused(topic.name, problem)
        return CreateTopicsResponse(topics=list(results.values()))

    if not planned or request.validate_only:
        return answer(None)
    return broker.commit(lambda done: admin.create(planned.values(), done), answer)


def _plan(broker: BrokerState, context: RequestContext, topic: CreatableTopic) -> TopicMetadata:
    return broker.topic_admin.plan(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments},
        {config.name: config.value for config in topic.configs},
        context.now_ms,
    )


def _refused(name: str, problem: errors.KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=problem.code, error_message=str(problem))


class Shown:
    """Shows new topics; what a topic does not set itself is worked out once for all topics of the request."""

    def __init__(self, broker: BrokerState):
        self._config = broker.config
        self._defaults: dict[str, CreatableTopicConfigs] = {}

    def result(self, topic: TopicMetadata, replication_factor: int = 1) -> CreatableTopicResult:
        """Return the response to a topic that is created."""
        from barnabas.broker.config_helper import topic_entries, topic_entry

        if not self._defaults:
            bare = TopicMetadata(topic.name, topic.id, topic.partitions, {}, topic.created_ms)
            self._defaults = {entry.name: _shown(entry) for entry in topic_entries(self._config, bare)}
        own = {name: _shown(topic_entry(self._config, topic, name)) for name in topic.configs}
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.id,
            error_message=None,
            num_partitions=topic.partitions,
            replication_factor=replication_factor,
            configs=[own.get(name, shown) for name, shown in self._defaults.items()],
        )


def _shown(entry: ConfigInfo) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
    )
