"""DeleteRecords: moves the start of partitions up; what lies before it cannot be read any more (KIP-107).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.delete_records_request import DeleteRecordsRequest

API = 21
VERSIONS = (0, 2)
OPERATION = AclOperation.DELETE
RESOURCE = ResourceType.TOPIC

_NO_LOW_WATERMARK = -1


def handle(broker: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Each partition has its own result: its new start. There are no other replicas to wait for."""
    topics = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(
                partition_index=asked.partition_index, low_watermark=_NO_LOW_WATERMARK
            )
            try:
                partition = broker.replica_manager.partition(topic.name, asked.partition_index)
                result.low_watermark = broker.replica_manager.delete_records(partition, asked.offset)
            except errors.KafkaError as problem:
                result.error_code = problem.code
            results.append(result)
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)
