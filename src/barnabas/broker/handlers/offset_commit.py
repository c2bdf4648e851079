"""OffsetCommit: how far a group has read.

Versions 2-10. v3 throttle time. v4 throttled after the response (KIP-219). v5 no more retention time (KIP-211). v6
leader epoch (KIP-320). v7 group instance id (KIP-345). v8 flexible. v9 members of KIP-848; STALE_MEMBER_EPOCH,
GROUP_ID_NOT_FOUND. v10 topics by id (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequestTopic
from barnabas.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.thresholds import OFFSET_COMMIT_TOPIC_IDS_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestPartition

API = 8
VERSIONS = (2, 10)

#: From this version on topics go by their ids (KIP-848).
_UNKNOWN_PARTITION = errors.UnknownTopicOrPartitionError.code
_UNKNOWN_TOPIC_ID = errors.UnknownTopicIdError.code


def handle(broker: BrokerState, context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Acknowledged when it is in the log; partitions that do not exist are refused one by one."""
    by_id = context.api_version >= OFFSET_COMMIT_TOPIC_IDS_FROM
    asked = request.topics
    accepted: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in asked:
        metadata = broker.metadata.topic_by_id(topic.topic_id) if by_id else broker.metadata.topic(topic.name)
        known, unknown = _split(topic, metadata, _UNKNOWN_TOPIC_ID if by_id else _UNKNOWN_PARTITION)
        accepted += known
        refused += unknown
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted
    try:
        response = broker.group_coordinator.commit_offsets(context, request)
    except errors.KafkaError as error:
        code = coordinator_error_code(error)
        return OffsetCommitResponse(topics=refused + [_refusal(topic, topic.partitions, code) for topic in accepted])
    response.topics = _in_order(asked, refused + response.topics, by_id)
    return response


def _split(
    topic: OffsetCommitRequestTopic, metadata: TopicMetadata | None, unknown_topic: int
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    # The partitions that exist, under the topic's name, and the answer for those that do not.
    if metadata is None:
        return [], [_refusal(topic, topic.partitions, unknown_topic)]
    topic.name = metadata.name
    known = [part for part in topic.partitions if 0 <= part.partition_index < metadata.partitions]
    if len(known) == len(topic.partitions):
        return [topic], []
    unknown = [part for part in topic.partitions if not 0 <= part.partition_index < metadata.partitions]
    accepted = [OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=known)] if known else []
    return accepted, [_refusal(topic, unknown, _UNKNOWN_PARTITION)]


def _refusal(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error_code: int
) -> OffsetCommitResponseTopic:
    answers = [OffsetCommitResponsePartition(partition.partition_index, error_code) for partition in partitions]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)


def _in_order(
    asked: list[OffsetCommitRequestTopic], answered: list[OffsetCommitResponseTopic], by_id: bool
) -> list[OffsetCommitResponseTopic]:
    # One entry per topic, although a topic may have been refused in part.
    merged: dict[object, OffsetCommitResponseTopic] = {}
    for topic in answered:
        entry = merged.setdefault(topic.topic_id if by_id else topic.name, topic)
        if entry is not topic:
            entry.partitions += topic.partitions
    keys = dict.fromkeys(topic.topic_id if by_id else topic.name for topic in asked)
    return [merged[key] for key in keys]
