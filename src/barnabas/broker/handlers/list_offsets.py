"""ListOffsets: where a partition begins and ends, and where a time begins in it (KIP-79, KIP-734, KIP-405).

Versions 1-11. v2 isolation level, throttle time. v3 throttled after the response (KIP-219). v4 leader epochs (KIP-320).
v5 OFFSET_NOT_AVAILABLE (KIP-207). v6 flexible. v7 offset of the largest timestamp (KIP-734). v8 earliest local offset
(KIP-405). v9 last tiered offset (KIP-1005). v10 timeout for tiered storage (KIP-1075). v11 earliest offset not yet
uploaded (KIP-1023).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.cold_search import bring_in_search
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import ArrayField, Pieces, PiecewiseResponse, Steps, parts_of, pieces_of
from barnabas.protocol.kinds import isolation_level
from barnabas.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log.log_segment import TimestampAndOffset
    from barnabas.broker.partition import Partition
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.list_offsets_request import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

API = 2
VERSIONS = (1, 11)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(-1, -7, -1)
_LEADER_EPOCH_FROM, _OFFSET_NOT_AVAILABLE_FROM = 4, 5
#: The first version in which a special timestamp may be asked for.
_FROM_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


#: Finding a timestamp, in partitions of a Metadata response, and how many partitions of a topic are looked up at once.
_WEIGHT = 25
_PARTITIONS_AT_ONCE = 100


def handle(broker: BrokerState, context: RequestContext, request: ListOffsetsRequest) -> Message | PiecewiseResponse:
    """Each partition has its own result; a partition may stand in the request once."""
    isolation = isolation_level(request.isolation_level)
    version = context.api_version
    times = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )

    def make(part: tuple[ListOffsetsTopic, list[ListOffsetsPartition]]) -> tuple[ListOffsetsTopicResponse, int]:
        topic, partitions = part
        responses = []
        for partition in partitions:
            response = ListOffsetsPartitionResponse(partition_index=partition.partition_index)
            try:
                if times[topic.name, partition.partition_index] > 1:
                    raise errors.InvalidRequestError
                found = broker.replica_manager.partition(topic.name, partition.partition_index)
                # A follower asks for the end of the log.
                follows = found.in_sync is not None and request.replica_id in found.in_sync.replicas
                _look_up(found, partition, LOG_END if follows else isolation, version, response)
            except errors.KafkaError as problem:
                response.error_code = problem.code
            responses.append(response)
        return ListOffsetsTopicResponse(name=topic.name, partitions=responses), 1 + _WEIGHT * len(responses)

    def pieces() -> Pieces:
        yield from _bring_in_searches(broker, request)
        return (
            yield from pieces_of(
                ArrayField(ListOffsetsResponse, "topics", version),
                parts_of(request.topics, _PARTITIONS_AT_ONCE),
                make,
                lambda topics: ListOffsetsResponse(topics=topics),
            )
        )

    return when_open(broker, times, lambda: broker.large_responses.answer(pieces()))


def _bring_in_searches(broker: BrokerState, request: ListOffsetsRequest) -> Steps[None]:
    """Read beside the loop what finding the timestamps would wait for."""
    manager = broker.replica_manager
    for topic in request.topics:
        for asked in topic.partitions:
            if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
                try:
                    partition = manager.partition(topic.name, asked.partition_index)
                except errors.KafkaError:
                    # The search meets it, too, and tells the client.
                    continue
                if partition.is_leader:
                    yield from bring_in_search(manager, partition.log, asked.timestamp)


def _look_up(
    partition: Partition,
    asked: ListOffsetsPartition,
    isolation: int,
    version: int,
    response: ListOffsetsPartitionResponse,
) -> None:
    timestamp = asked.timestamp
    if timestamp < 0 and version < _FROM_VERSION.get(timestamp, version + 1):
        raise errors.UnsupportedVersionError
    partition.check_leader_epoch(asked.current_leader_epoch)
    partition.check_leader()
    try:
        found = _find(partition, timestamp, isolation)
    except errors.OffsetNotAvailableError:
        if version < _OFFSET_NOT_AVAILABLE_FROM:
            raise errors.LeaderNotAvailableError from None
        raise
    if found is not None:
        response.timestamp = found.timestamp
        response.offset = found.offset
        if version >= _LEADER_EPOCH_FROM:
            # An empty log has no epoch yet; what comes first will be of the leader's.
            response.leader_epoch = found.leader_epoch if found.leader_epoch >= 0 else partition.leader_epoch


def _find(partition: Partition, timestamp: int, isolation: int) -> TimestampAndOffset | None:
    log = partition.log
    lags = isolation != LOG_END and partition.lags_behind_its_epoch
    if timestamp == LATEST:
        if lags:
            raise errors.OffsetNotAvailableError
        return log.latest_offset(isolation)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.earliest_offset()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    end = log.latest_offset(isolation).offset
    if found is not None and found.offset < end:
        return found
    if lags and found is not None:
        raise errors.OffsetNotAvailableError
    return None
