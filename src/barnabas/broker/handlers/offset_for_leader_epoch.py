"""OffsetForLeaderEpoch: where a leader's epoch ends in a log (KIP-101, KIP-320).

Versions 2-4. v3 replica id. v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

API = 23
VERSIONS = (2, 4)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.TOPIC


def handle(
    broker: BrokerState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Each partition has its own result."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_offset(broker, topic.topic, partition) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: BrokerState, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replica_manager.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
    except errors.KafkaError as problem:
        return EpochEndOffset(partition=asked.partition, error_code=problem.code)
    epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
