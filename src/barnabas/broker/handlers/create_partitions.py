"""CreatePartitions: more partitions for topics that exist (KIP-195).

Versions 0-3. v1 throttled after the response (KIP-219). v2 flexible. v3 THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest

API = 37
VERSIONS = (0, 3)


def handle(
    broker: BrokerState, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | DelayedOperation:
    """Enlarge what can be enlarged, all of it in one commit; each topic has its own result."""
    return broker.in_turn(lambda: _change(broker, context, request))


def _change(
    broker: BrokerState, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse | DelayedOperation:
    names = Counter(topic.name for topic in request.topics)
    planned: list[TopicMetadata] = []
    results: list[CreatePartitionsTopicResult] = []
    total = 0
    try:
        broker.topic_admin.check_request(sum(_added(broker, name, count) for name, count in _largest(request).items()))
    except errors.PolicyViolationError as problem:
        refused = [CreatePartitionsTopicResult(name, problem.code, str(problem)) for name in names]
        return CreatePartitionsResponse(results=refused)
    for topic in request.topics:
        result = CreatePartitionsTopicResult(name=topic.name)
        try:
            if names[topic.name] > 1:
                raise errors.InvalidRequestError(f"Topic {topic.name!r} stands in the request more than once.")
            assignments = None if topic.assignments is None else [a.broker_ids for a in topic.assignments]
            plan = broker.topic_admin.enlarge(topic.name, topic.count, assignments)
            added = _added(broker, topic.name, plan.partitions)
            broker.topic_admin.check_cluster(total + added)
            broker.client_quotas.mutate(context, added)
            planned.append(plan)
            total += added
        except errors.KafkaError as problem:
            result.error_code, result.error_message = problem.code, str(problem)
        results.append(result)

    def answer(problem: errors.KafkaError | None) -> CreatePartitionsResponse:
        for result in results:
            if problem is not None and result.error_code == errors.NONE:
                result.error_code, result.error_message = problem.code, str(problem)
        return CreatePartitionsResponse(results=results)

    if not planned or request.validate_only:
        return answer(None)
    return broker.commit(lambda done: broker.topic_admin.create(planned, done), answer)


def _largest(request: CreatePartitionsRequest) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic in request.topics:
        counts[topic.name] = max(topic.count, counts.get(topic.name, 0))
    return counts


def _added(broker: BrokerState, name: str, count: int) -> int:
    """How many partitions a topic would get that it does not have; 0 where there is no such topic."""
    topic = broker.metadata.topic(name)
    return max(count - topic.partitions, 0) if topic is not None else 0
