"""DescribeTopicPartitions: topics and their partitions, a page at a time (KIP-966).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.topic_admin import check_topic_name
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ResourceType
from barnabas.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest

API = 75
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return the topics in the order of their names, from the cursor on, up to the limit.

    A cursor tells where to go on.
    """
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics}) or [topic.name for topic in broker.metadata.topics()]
    if cursor is not None:
        remaining = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0 or not remaining or (request.topics and remaining[0] != cursor.topic_name):
            return _refused(sorted({topic.name for topic in request.topics}))
        names = remaining
    limit = broker.config.get_int("max.request.partition.size.limit")
    left = max(1, min(request.response_partition_limit, limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic, total = _describe(broker, context, name, first, left)
        if total > first and left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        response.topics.append(topic)
        left -= len(topic.partitions)
        if first + len(topic.partitions) < total:
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(topic.partitions))
            break
    return response


def _describe(
    broker: BrokerState, context: RequestContext, name: str, first: int, limit: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int]:
    """Return the topic with up to `limit` partitions from `first` on, and how many it has in all."""
    result = DescribeTopicPartitionsResponseTopic(
        name=name, topic_authorized_operations=broker.authorized_operations(context, ResourceType.TOPIC, name)
    )
    try:
        check_topic_name(name)
    except errors.KafkaError as problem:
        result.error_code = problem.code
        return result, 0
    topic = broker.metadata.topic(name)
    if topic is None:
        result.error_code = errors.UnknownTopicOrPartitionError.code
        return result, 0
    result.topic_id, result.is_internal = topic.id, topic.internal
    result.partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=errors.LeaderNotAvailableError.code if found.leader < 0 else errors.NONE,
            partition_index=found.number,
            leader_id=found.leader,
            leader_epoch=found.leader_epoch,
            replica_nodes=list(found.replicas),
            isr_nodes=list(found.isr),
            offline_replicas=list(found.offline),
            eligible_leader_replicas=list(found.elr),
            last_known_elr=list(found.last_known_elr),
        )
        for found in broker.view.partitions(name, context.connection.listener, first, limit)
    ]
    return result, topic.partitions


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    code = errors.InvalidRequestError.code
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=code, name=name, topic_authorized_operations=AUTHORIZED_OPERATIONS_NOT_REQUESTED
            )
            for name in names
        ]
    )
