"""OffsetDelete: committed offsets of topics that a group does not subscribe to any more (KIP-496).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequestTopic
from barnabas.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequest

API = 47
VERSIONS = (0, 0)

_UNKNOWN_PARTITION = errors.UnknownTopicOrPartitionError.code


def handle(broker: BrokerState, context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Partitions that do not exist are refused one by one."""
    known: list[OffsetDeleteRequestTopic] = []
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        metadata = broker.metadata.topic(topic.name)
        count = metadata.partitions if metadata is not None else 0
        exists = [part for part in topic.partitions if 0 <= part.partition_index < count]
        if exists:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=exists))
        refused[topic.name] = [
            OffsetDeleteResponsePartition(part.partition_index, _UNKNOWN_PARTITION)
            for part in topic.partitions
            if not 0 <= part.partition_index < count
        ]
    request.topics = known
    try:
        response = broker.group_coordinator.delete_offsets(context, request)
    except errors.KafkaError as error:
        return OffsetDeleteResponse(error_code=coordinator_error_code(error))
    answered = {topic.name: topic.partitions for topic in response.topics}
    response.topics = [
        OffsetDeleteResponseTopic(name=name, partitions=answered.get(name, []) + partitions)
        for name, partitions in refused.items()
    ]
    return response
