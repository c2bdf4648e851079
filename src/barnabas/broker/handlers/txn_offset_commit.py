"""TxnOffsetCommit: offsets of a group that count once the transaction commits (KIP-98, KIP-447, KIP-890).

Versions 0-5. v1 throttled after the response (KIP-219). v2 leader epoch (KIP-320). v3 flexible, member and generation
(KIP-447). v4 TRANSACTION_ABORTABLE (KIP-890). v5 the broker adds the partition to the transaction itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.broker.transactions.add_partitions_to_txn_manager import ABORTABLE, ADD, INVALID_STATE, TransactionalBatch
from barnabas.broker.transactions.verified_requests import verified
from barnabas.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequestTopic
from barnabas.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.protocol.producer_identity import NO_SEQUENCE

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest

API = 28
VERSIONS = (0, 5)

_LOADING_FROM = 2
_ABORTABLE_FROM, _ADDS_PARTITION_FROM = 4, 5
_UNKNOWN = errors.UnknownTopicOrPartitionError.code


def handle(
    broker: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | DelayedOperation:
    """Answered when the offsets are in the log; partitions that do not exist are refused one by one."""
    return verified(broker, request, context.instant, lambda: _commit(broker, context, request))


def _commit(broker: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    codes = {
        (topic.name, partition.partition_index): 0
        if _exists(broker, topic.name, partition.partition_index)
        else _UNKNOWN
        for topic in request.topics
        for partition in topic.partitions
    }
    asked = request.topics
    known = [topic for topic in (_known_part(topic, codes) for topic in asked) if topic.partitions]
    if known:
        try:
            _verify(broker, context, request)
            request.topics = known
            answered = broker.group_coordinator.commit_transactional_offsets(context, request)
        except errors.KafkaError as error:
            code = _told(error, context.api_version)
            codes = {name: known_code or code for name, known_code in codes.items()}
        else:
            for topic in answered.topics:
                codes.update({(topic.name, part.partition_index): part.error_code for part in topic.partitions})
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(part.partition_index, codes[topic.name, part.partition_index])
                    for part in topic.partitions
                ],
            )
            for topic in asked
        ]
    )


def _verify(broker: BrokerState, context: RequestContext, request: TxnOffsetCommitRequest) -> None:
    """See to it that the group's partition is in the transaction. Raises KafkaError."""
    version = context.api_version
    groups = broker.group_coordinator
    groups.ensure_topic(context.now_ms)
    index = groups.partition_for(request.group_id)
    # A broker that does not serve the group asks no other one: a refusal waits for nothing (`committed_answers`).
    groups.check_partition(index)
    partition = broker.replica_manager.partition(GROUP_METADATA_TOPIC, index)
    batch = TransactionalBatch(partition, request.producer_id, request.producer_epoch, NO_SEQUENCE)
    mode = ADD if version >= _ADDS_PARTITION_FROM else ABORTABLE if version >= _ABORTABLE_FROM else INVALID_STATE
    refused = broker.add_partitions_to_txn_manager.check(request.transactional_id, [batch], mode, context.instant)
    if partition in refused:
        raise refused[partition]


def _told(error: errors.KafkaError, version: int) -> int:
    code = coordinator_error_code(error)
    if code == errors.CoordinatorLoadInProgressError.code and version < _LOADING_FROM:
        # Clients of that time cannot take the other error.
        return errors.CoordinatorNotAvailableError.code
    return code


def _exists(broker: BrokerState, topic: str, index: int) -> bool:
    known = broker.metadata.topic(topic)
    return known is not None and 0 <= index < known.partitions


def _known_part(topic: TxnOffsetCommitRequestTopic, codes: dict[tuple[str, int], int]) -> TxnOffsetCommitRequestTopic:
    partitions = [part for part in topic.partitions if not codes[topic.name, part.partition_index]]
    return TxnOffsetCommitRequestTopic(name=topic.name, partitions=partitions)
