"""DescribeProducers: the idempotent and transactional producers that partitions know (KIP-664).

Versions 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from barnabas import errors
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import ArrayField, LazyList, PiecewiseResponse, answer_in_pieces, in_pieces
from barnabas.broker.topic_admin import check_topic_name
from barnabas.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log.producer_append_info import ProducerStateEntry
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest

API = 61
VERSIONS = (0, 0)


#: A topic with more partitions is described in several parts.
_PARTITIONS_AT_ONCE = 50
#: A partition, whose log may have to be opened, in partitions of a Metadata response.
_WEIGHT = 20


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeProducersRequest
) -> Message | PiecewiseResponse:
    """Each partition has its own result, once."""
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))

    def make(part: tuple[str, list[int]]) -> tuple[TopicResponse, int]:
        name, indexes = part
        found = [_one(broker, name, index) for index in indexes]
        return TopicResponse(name=name, partitions=found), sum(_WEIGHT + len(one.active_producers) for one in found)

    answer = partial(
        answer_in_pieces,
        broker.large_responses,
        ArrayField(DescribeProducersResponse, "topics", context.api_version),
        ((name, part) for name, indexes in asked.items() for part in in_pieces(indexes, _PARTITIONS_AT_ONCE)),
        make,
        lambda topics: DescribeProducersResponse(topics=topics),
    )
    return when_open(broker, ((name, index) for name, indexes in asked.items() for index in indexes), answer)


def _one(broker: BrokerState, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = broker.replica_manager.partition(topic, index).log.producer_state.producers
    except errors.KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
    known = list(producers.values())
    states = LazyList(len(known), lambda: map(_state, known))
    return PartitionResponse(partition_index=index, active_producers=cast("list[ProducerState]", states))


def _state(entry: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
