"""OffsetFetch: how far groups have read; several groups at once from version 8 (KIP-709).

Versions 1-10. v2 null asks for all topics; a top-level error. v3 throttle time. v4 throttled after the response
(KIP-219). v5 leader epoch (KIP-320). v6 flexible. v7 require_stable (KIP-447). v8 several groups (KIP-709). v9 member
id and epoch (KIP-848). v10 topics by id (KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.thresholds import OFFSET_FETCH_GROUPS_FROM, OFFSET_FETCH_TOPIC_IDS_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest

API = 9
VERSIONS = (1, 10)

_GROUP_ERROR_FROM = 2
_UNKNOWN_TOPIC_ID = errors.UnknownTopicIdError.code


def handle(broker: BrokerState, context: RequestContext, request: OffsetFetchRequest) -> Message | PiecewiseResponse:
    """Return committed offsets; -1 where there is none. All offsets of a group (null topics) are told once."""
    version = context.api_version
    if version < OFFSET_FETCH_GROUPS_FROM:
        return _one_group(broker, request, version)
    fetch = _fetch_by_id if version >= OFFSET_FETCH_TOPIC_IDS_FROM else _fetch

    def make(group: OffsetFetchRequestGroup) -> tuple[OffsetFetchResponseGroup, int]:
        found = fetch(broker, group, request.require_stable)
        return found, 1 + sum(1 + len(topic.partitions) for topic in found.topics)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(OffsetFetchResponse, "groups", version),
        _asked_once(request.groups),
        make,
        lambda groups: OffsetFetchResponse(groups=groups),
    )


def _asked_once(groups: list[OffsetFetchRequestGroup]) -> Iterator[OffsetFetchRequestGroup]:
    whole: set[str] = set()
    for group in groups:
        if group.topics is not None:
            yield group
        elif group.group_id not in whole:
            whole.add(group.group_id)
            yield group


def _fetch(broker: BrokerState, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    return broker.group_coordinator.fetch_offsets(group, require_stable)


def _fetch_by_id(broker: BrokerState, group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
    metadata = broker.metadata
    if group.topics is None:
        found = _fetch(broker, group, require_stable)
        # A topic that is gone has no id to tell it by.
        named = [(topic, metadata.topic(topic.name)) for topic in found.topics]
        found.topics = [_with_id(topic, known.id) for topic, known in named if known is not None]
        return found
    unknown = []
    known_topics = []
    for topic in group.topics:
        known = metadata.topic_by_id(topic.topic_id)
        if known is None:
            unknown.append(_unknown(topic))
        else:
            topic.name = known.name
            known_topics.append(topic)
    group.topics = known_topics
    found = _fetch(broker, group, require_stable)
    if not found.error_code:
        found.topics += unknown
    return found


def _with_id(topic: OffsetFetchResponseTopics, topic_id: bytes) -> OffsetFetchResponseTopics:
    topic.topic_id = topic_id
    return topic


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, metadata="", error_code=_UNKNOWN_TOPIC_ID
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)


def _one_group(broker: BrokerState, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        topics = [OffsetFetchRequestTopics(t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    found = _fetch(broker, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), request.require_stable)
    if found.error_code and version < _GROUP_ERROR_FROM:
        return _error_in_partitions(request, found.error_code)
    return OffsetFetchResponse(
        error_code=found.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in found.topics
        ],
    )


def _error_in_partitions(request: OffsetFetchRequest, error_code: int) -> OffsetFetchResponse:
    # Version 1 has no other place for an error of the group.
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )
