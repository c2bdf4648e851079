"""DeleteTopics: by name, and from version 6 on also by id.

Versions 1-6. v2 throttled after the response (KIP-219). v3 TOPIC_DELETION_DISABLED. v4 flexible. v5 error message,
THROTTLING_QUOTA_EXCEEDED (KIP-599). v6 topics by name or id (KIP-516).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import SHARE_GROUP_STATE_TOPIC
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.delete_topics_request import DeleteTopicState
from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.thresholds import DELETE_TOPICS_BY_ID_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest

API = 20
VERSIONS = (1, 6)


def handle(
    broker: BrokerState, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | DelayedOperation:
    """Delete what can be deleted, all of it in one commit; each topic has its own result."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse | DelayedOperation:
    if context.api_version >= DELETE_TOPICS_BY_ID_FROM:
        asked = request.topics
    else:
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
    doomed: dict[str, TopicMetadata] = {}
    results: list[DeletableTopicResult] = []
    for state in asked:
        try:
            topic = _find(broker, context, state)
            if topic.name in doomed:
                raise errors.InvalidRequestError(f"Topic {topic.name!r} stands in the request more than once.")
            broker.client_quotas.mutate(context, topic.partitions)
            doomed[topic.name] = topic
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
        except errors.KafkaError as problem:
            results.append(
                DeletableTopicResult(
                    name=state.name, topic_id=state.topic_id, error_code=problem.code, error_message=str(problem)
                )
            )

    def answer(problem: errors.KafkaError | None) -> DeleteTopicsResponse:
        for result in results:
            if result.error_code == errors.NONE and problem is not None:
                result.error_code, result.error_message = problem.code, str(problem)
            elif result.error_code == errors.NONE and result.name is not None:
                broker.group_coordinator.on_topic_deleted(result.name, context.instant)
                if broker.member is None and broker.metadata.topic(SHARE_GROUP_STATE_TOPIC) is not None:
                    broker.share_coordinator.on_topic_deleted(result.topic_id, context.instant)
        return DeleteTopicsResponse(responses=results)

    return broker.commit(lambda done: broker.metadata.delete_topics(doomed, done), answer) if doomed else answer(None)


def _find(broker: BrokerState, context: RequestContext, state: DeleteTopicState) -> TopicMetadata:
    if not broker.config.get_bool("delete.topic.enable"):
        refusal = errors.TopicDeletionDisabledError if context.api_version >= 3 else errors.InvalidRequestError
        raise refusal("This broker runs with delete.topic.enable=false.")
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise errors.InvalidRequestError("A topic was given by name and by id; give one of them.")
    if state.name is None and state.topic_id == ZERO_UUID:
        raise errors.InvalidRequestError("A topic was given neither by name nor by id.")
    if state.name is not None:
        topic = broker.metadata.topic(state.name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"There is no topic {state.name!r}.")
        return topic
    topic = broker.metadata.topic_by_id(state.topic_id)
    if topic is None:
        raise errors.UnknownTopicIdError("There is no topic with this id.")
    return topic
