"""OffsetForLeaderEpoch: where a leader's epoch ends in a log (KIP-101, KIP-320).

Versions 2-4. v3 replica id. v4 flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces, parts_of
from barnabas.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.offset_for_leader_epoch_request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

API = 23
VERSIONS = (2, 4)


#: What a partition is worth, in partitions of a Metadata response, and how many of a topic are worked on at once.
_WEIGHT = 20
_PARTITIONS_AT_ONCE = 50


def handle(
    broker: BrokerState, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Message | PiecewiseResponse:
    """Each partition has its own result."""

    def make(
        part: tuple[OffsetForLeaderTopic, list[OffsetForLeaderPartition]],
    ) -> tuple[OffsetForLeaderTopicResult, int]:
        name = part[0].topic
        found = [_end_offset(broker, name, partition) for partition in part[1]]
        return OffsetForLeaderTopicResult(topic=name, partitions=found), 1 + _WEIGHT * len(found)

    answer = partial(
        answer_in_pieces,
        broker.large_responses,
        ArrayField(OffsetForLeaderEpochResponse, "topics", context.api_version),
        parts_of(request.topics, _PARTITIONS_AT_ONCE),
        make,
        lambda topics: OffsetForLeaderEpochResponse(topics=topics),
    )
    names = ((topic.topic, asked.partition) for topic in request.topics for asked in topic.partitions)
    return when_open(broker, names, answer)


def _end_offset(broker: BrokerState, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.replica_manager.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        partition.check_leader()
    except errors.KafkaError as problem:
        return EpochEndOffset(partition=asked.partition, error_code=problem.code)
    epoch, end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
