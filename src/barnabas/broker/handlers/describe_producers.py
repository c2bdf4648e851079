"""DescribeProducers: the idempotent and transactional producers that partitions know (KIP-664).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.topic_admin import check_topic_name
from barnabas.protocol.kinds import AclOperation, ResourceType
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
    from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest

API = 61
VERSIONS = (0, 0)
OPERATION = AclOperation.READ
RESOURCE = ResourceType.TOPIC


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Each partition has its own result."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_one(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _one(broker: BrokerState, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = broker.replica_manager.partition(topic, index).log.producer_state.producers
    except errors.KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=str(error))
    return PartitionResponse(partition_index=index, active_producers=[_state(entry) for entry in producers.values()])


def _state(entry: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
