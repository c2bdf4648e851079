"""Produce: appends record batches to partitions.

Versions 3-13. v4 KAFKA_STORAGE_ERROR (KIP-112). v5 log start offset in the response. v6 throttled after the response
(KIP-219). v7 zstd (KIP-110). v8 record_errors and error_message (KIP-467). v9 flexible. v10 current leader in the
response (KIP-951). v11 TRANSACTION_ABORTABLE (KIP-890). v12 the broker adds partitions to transactions itself
(KIP-890). v13 topics by id (KIP-516).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.delayed_produce import DelayedProduce, Uncommitted, is_done
from barnabas.broker.log_opening import open_then, unopened
from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.broker.request_context import CloseConnection
from barnabas.config.quota_config import PRODUCE
from barnabas.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.thresholds import PRODUCE_TOPIC_IDS_FROM
from barnabas.records.batch_header import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_AT,
    OFFSET_AND_LENGTH,
    TRANSACTIONAL_BIT,
    read_header,
)
from barnabas.records.compression import CODECS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log_opening import Name
    from barnabas.broker.partition import Partition
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

    Answer = ProduceResponse | DelayedOperation | None

API = 0
VERSIONS = (3, 13)

#: From these versions on a client knows TRANSACTION_ABORTABLE, and leaves adding partitions to us (KIP-890).
_ABORTABLE_FROM, _ADDS_PARTITIONS_FROM = 11, 12
_ZSTD_FROM = 7
_ACKS = (-1, 0, 1)
#: The one client id that may write internal topics (AdminUtils.ADMIN_CLIENT_ID).
_ADMIN_CLIENT = "__admin_client"
#: All attributes that are in use stand in the lower of their two bytes.
_FLAGS_AT = ATTRIBUTES_AT + 1
_ZSTD = CODECS.index("zstd")


def handle(broker: BrokerState, context: RequestContext, request: ProduceRequest) -> Answer:
    """Append each partition's batch; each has its own result. With acks=0 an error ends the connection.

    With one replica acks=1 and acks=all are the same: the batch is in the log's file when the answer is given, and on
    the disk where `flush.messages` asks for that. With several, acks=all waits for those in sync.
    """
    names = unopened(broker.replica_manager, _names(context, request))
    if names:
        for topic in request.topic_data:
            for data in topic.partition_data:
                # Its bytes are the next request's when this function returns.
                data.records = None if data.records is None else bytearray(data.records)
        return open_then(broker, names, lambda: _append_verified(broker, context, request))
    return _append_verified(broker, context, request)


def _names(context: RequestContext, request: ProduceRequest) -> Iterator[Name]:
    by_id = context.api_version >= PRODUCE_TOPIC_IDS_FROM
    for topic in request.topic_data:
        for data in topic.partition_data:
            yield (topic.topic_id if by_id else topic.name), data.index


def _append_verified(broker: BrokerState, context: RequestContext, request: ProduceRequest) -> Answer:
    if request.transactional_id is None:
        return _append_all(broker, context, request)
    from barnabas.broker.transactions.verified_requests import verified

    return verified(broker, request, context.instant, lambda: _append_all(broker, context, request))


def _append_all(
    broker: BrokerState, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedProduce | None:
    refused = _verify_transaction(broker, context, request) if request.transactional_id is not None else {}
    appending = _Appending(broker, context, request, refused, [])
    waiting = appending.waiting
    responses = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[_append(appending, topic, partition) for partition in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    if broker.client_quotas.enabled:
        context.throttle = broker.client_quotas.use(context, PRODUCE, context.size, context.now)
    if request.acks != 0:
        response = ProduceResponse(responses=responses)
        if not waiting:
            return response
        deadline = inf
        if any(found.partition.in_sync is not None for found in waiting):
            deadline = context.now + max(request.timeout_ms, 0) / 1000
        delayed = DelayedProduce(waiting, lambda: response, deadline)
        # What a flush has failed for already is not told again.
        return delayed.try_complete(context.now) or delayed
    for topic in responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise CloseConnection(
                    f"produce with acks=0 to {topic.name or topic.topic_id.hex()}-{partition.index} failed "
                    f"({errors.name_of(partition.error_code)}), and there is no other way to tell"
                )
    return None


class _Appending(NamedTuple):
    """A request on its way into the logs: what keeps batches from being appended, and those that wait for others."""

    broker: BrokerState
    context: RequestContext
    request: ProduceRequest
    refused: dict[Partition, errors.KafkaError]
    waiting: list[Uncommitted]


def _append(appending: _Appending, topic: TopicProduceData, data: PartitionProduceData) -> PartitionProduceResponse:
    broker, context, request, refused, waiting = appending
    response = PartitionProduceResponse(index=data.index, base_offset=-1)
    try:
        if request.acks not in _ACKS:
            raise errors.InvalidRequiredAcksError(f"acks={request.acks}; it must be -1 (all), 0 or 1")
        partition = _partition(broker, context, topic, data.index)
        if partition.topic in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
            raise errors.InvalidTopicError(f"{partition.topic} is written by the broker only.")
        records = _one_batch(data, context.api_version)
        if records[_FLAGS_AT] & TRANSACTIONAL_BIT and request.transactional_id is None:
            raise errors.TransactionalIdAuthorizationError("Transactional records need a transactional id.")
        if partition in refused:
            raise refused[partition]
        partition.check_leader()
        partition.check_enough_in_sync(request.acks)
        info = broker.replica_manager.append(partition, records, context.now_ms)
    except errors.KafkaError as problem:
        response.error_code = problem.code
        response.error_message = str(problem)
        response.record_errors = [
            BatchIndexAndErrorMessage(batch_index=error.batch_index, batch_index_error_message=error.message)
            for error in getattr(problem, "record_errors", ())
        ]
    else:
        response.base_offset = info.first_offset
        response.log_append_time_ms = info.log_append_time
        response.log_start_offset = info.log_start_offset
        pending = Uncommitted(partition, info.last_offset, partition.leaderships, request.acks, response)
        if not is_done(pending):
            waiting.append(pending)
    return response


def _partition(broker: BrokerState, context: RequestContext, topic: TopicProduceData, index: int) -> Partition:
    if context.api_version >= PRODUCE_TOPIC_IDS_FROM:
        return broker.replica_manager.partition_by_id(topic.topic_id, index)
    return broker.replica_manager.partition(topic.name, index)


def _verify_transaction(
    broker: BrokerState, context: RequestContext, request: ProduceRequest
) -> dict[Partition, errors.KafkaError]:
    """Return what keeps transactional batches of the request from being appended."""
    from barnabas.broker.transactions.add_partitions_to_txn_manager import (
        ABORTABLE,
        ADD,
        INVALID_STATE,
        TransactionalBatch,
    )

    version = context.api_version
    batches = []
    for topic in request.topic_data:
        for data in topic.partition_data:
            try:
                partition = _partition(broker, context, topic, data.index)
                header = read_header(_one_batch(data, version), 0)
            except errors.KafkaError:
                # It is told when it comes to appending.
                continue
            if header is not None and header.is_transactional and partition.topic not in INTERNAL_TOPICS:
                batches.append(
                    TransactionalBatch(partition, header.producer_id, header.producer_epoch, header.base_sequence)
                )
    if not batches or request.transactional_id is None:
        return {}
    mode = ADD if version >= _ADDS_PARTITIONS_FROM else ABORTABLE if version >= _ABORTABLE_FROM else INVALID_STATE
    verification = broker.add_partitions_to_txn_manager
    return verification.check(request.transactional_id, batches, mode, context.instant)


def _one_batch(data: PartitionProduceData, version: int) -> memoryview:
    # ProduceRequest.validateRecords of Apache Kafka; what is inside the batch is the log's to check.
    records = data.records
    if records is None or len(records) < HEADER_SIZE:
        raise errors.InvalidRecordError(f"Produce version {version} must carry one record batch per partition.")
    if records[MAGIC_AT] != CURRENT_MAGIC:
        raise errors.InvalidRecordError(f"Produce version {version} takes record batches of magic 2 only.")
    attributes = records[_FLAGS_AT]
    if attributes & COMPRESSION_MASK == _ZSTD and version < _ZSTD_FROM:
        raise errors.UnsupportedCompressionTypeError(f"Produce version {version} cannot carry zstd.")
    if OFFSET_AND_LENGTH.unpack_from(records)[1] + LOG_OVERHEAD != len(records):
        raise errors.InvalidRecordError(f"Produce version {version} must carry exactly one record batch per partition.")
    if attributes & CONTROL_BIT:
        raise errors.InvalidRecordError("Clients cannot write control records.")
    return memoryview(records)
