"""DeleteRecords: moves the start of partitions up; what lies before it cannot be read any more (KIP-107).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.opening import when_open
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces, parts_of
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_records_request import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

API = 21
VERSIONS = (0, 2)
OPERATION = AclOperation.DELETE
RESOURCE = ResourceType.TOPIC

_NO_LOW_WATERMARK = -1


#: What a partition is worth, in partitions of a Metadata response, and how many of a topic are worked on at once.
_WEIGHT = 50
_PARTITIONS_AT_ONCE = 50


def handle(broker: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> Message | PiecewiseResponse:
    """Each partition has its own result: its new start. There are no other replicas to wait for."""

    def make(part: tuple[DeleteRecordsTopic, list[DeleteRecordsPartition]]) -> tuple[DeleteRecordsTopicResult, int]:
        topic, partitions = part
        results = [_delete(broker, topic.name, asked) for asked in partitions]
        return DeleteRecordsTopicResult(name=topic.name, partitions=results), 1 + _WEIGHT * len(results)

    answer = partial(
        answer_in_pieces,
        broker.large_responses,
        ArrayField(DeleteRecordsResponse, "topics", context.api_version),
        parts_of(request.topics, _PARTITIONS_AT_ONCE),
        make,
        lambda topics: DeleteRecordsResponse(topics=topics),
    )
    names = ((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    return when_open(broker, names, answer)


def _delete(broker: BrokerState, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=_NO_LOW_WATERMARK)
    try:
        partition = broker.replica_manager.partition(topic, asked.partition_index)
        result.low_watermark = broker.replica_manager.delete_records(partition, asked.offset)
    except errors.KafkaError as problem:
        result.error_code = problem.code
    return result
