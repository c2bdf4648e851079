"""Produce: appends record batches to partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AclOperation, ResourceType
from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.broker.request_context import CloseConnection
from barnabas.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

API = 0
VERSIONS = (3, 13)
OPERATION = AclOperation.WRITE
RESOURCE = ResourceType.TOPIC

_TOPIC_IDS_FROM = 13
_ZSTD_FROM = 7
_ACKS = (-1, 0, 1)
#: The one client id that may write internal topics (AdminUtils.ADMIN_CLIENT_ID).
_ADMIN_CLIENT = "__admin_client"

# Where things stand in a batch of magic 2.
_SIZE_AT, _MAGIC_AT, _ATTRIBUTES_AT, _HEADER_SIZE = 8, 16, 22, 61
_COMPRESSION_MASK, _ZSTD, _TRANSACTIONAL, _CONTROL = 0x07, 4, 0x10, 0x20


def handle(broker: BrokerState, context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    """Append each partition's batch; each has its own result. With acks=0 an error ends the connection.

    With one replica acks=1 and acks=all are the same: the batch is in the log's file when the answer is given.
    """
    responses = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _append(broker, context, request, topic, partition) for partition in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]
    if request.acks != 0:
        return ProduceResponse(responses=responses)
    for topic in responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name or topic.topic_id.hex()}-{partition.index} failed "
                    f"({errors.name_of(partition.error_code)}), and there is no other way to tell"
                )
    return None


def _append(
    broker: BrokerState,
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(index=data.index, base_offset=-1)
    try:
        if request.acks not in _ACKS:
            raise errors.InvalidRequiredAcksError(f"acks={request.acks}; it must be -1 (all), 0 or 1")
        manager = broker.replica_manager
        if context.api_version >= _TOPIC_IDS_FROM:
            partition = manager.partition_by_id(topic.topic_id, data.index)
        else:
            partition = manager.partition(topic.name, data.index)
        if partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
            raise errors.InvalidTopicError(f"{partition.topic} is written by the broker only.")
        records = _one_batch(data, context.api_version, request.transactional_id)
        info = manager.append(partition, records, context.now_ms)
    except errors.KafkaError as problem:
        response.error_code = problem.code
        response.error_message = str(problem)
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in getattr(problem, "record_errors", ())
        ]
    else:
        response.base_offset = info.first_offset
        response.log_append_time_ms = info.log_append_time
        response.log_start_offset = info.log_start_offset
    return response


def _one_batch(data: PartitionProduceData, version: int, transactional_id: str | None) -> memoryview:
    # ProduceRequest.validateRecords of Apache Kafka; what is inside the batch is the log's to check.
    records = data.records
    if records is None or len(records) < _HEADER_SIZE:
        raise errors.InvalidRecordError(f"Produce version {version} must carry one record batch per partition.")
    if records[_MAGIC_AT] != 2:
        raise errors.InvalidRecordError(f"Produce version {version} takes record batches of magic 2 only.")
    attributes = records[_ATTRIBUTES_AT]
    if attributes & _COMPRESSION_MASK == _ZSTD and version < _ZSTD_FROM:
        raise errors.UnsupportedCompressionTypeError(f"Produce version {version} cannot carry zstd.")
    if int.from_bytes(records[_SIZE_AT : _SIZE_AT + 4], "big") + 12 != len(records):
        raise errors.InvalidRecordError(f"Produce version {version} must carry exactly one record batch per partition.")
    if attributes & _TRANSACTIONAL or transactional_id is not None:
        raise errors.UnsupportedVersionError("Transactions are not supported yet; produce without transactional.id.")
    if attributes & _CONTROL:
        raise errors.InvalidRecordError("Clients cannot write control records.")
    return memoryview(records)
