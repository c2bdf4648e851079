"""AddPartitionsToTxn: what a transaction writes to; batched, or only asked about, from version 4 on (KIP-890).

Versions 0-5. v1 throttled after the response (KIP-219). v2 PRODUCER_FENCED (KIP-588). v3 flexible. v4 several
transactions and verification only, for brokers (KIP-890). v5 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.broker.transactions.fencing import fenced_code
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from barnabas.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.thresholds import ADD_PARTITIONS_TO_TXN_BATCHED_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest

API = 24
VERSIONS = (0, 5)

_NOT_ATTEMPTED = errors.OperationNotAttemptedError.code
#: Versions before 4 come from clients of the first protocol, the others from brokers in the name of newer ones.
_FIRST_PROTOCOL, _SECOND_PROTOCOL = 0, 2

_Codes = dict[tuple[str, int], int]


def handle(
    broker: BrokerState, context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """All partitions of a transaction are added, or none."""
    if context.api_version >= ADD_PARTITIONS_TO_TXN_BATCHED_FROM:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_by_topic(_one(broker, context, transaction)),
            )
            for transaction in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(_one(broker, context, transaction)))


def _one(broker: BrokerState, context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> _Codes:
    wanted = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    from_client = context.api_version < ADD_PARTITIONS_TO_TXN_BATCHED_FROM
    problems = {name: code for name in wanted if (code := _problem(broker, name, from_client))}
    if problems:
        return {name: problems.get(name, _NOT_ATTEMPTED) for name in wanted}
    coordinator = broker.transaction_coordinator
    producer = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    try:
        if transaction.verify_only:
            missing = coordinator.verify_partitions(*producer, frozenset(wanted))
            return {name: errors.TransactionAbortableError.code if name in missing else 0 for name in wanted}
        version = _FIRST_PROTOCOL if from_client else _SECOND_PROTOCOL
        coordinator.add_partitions(*producer, frozenset(wanted), context.instant, version=version)
    except errors.ProducerFencedError:
        return dict.fromkeys(wanted, fenced_code(API, context.api_version))
    except errors.KafkaError as error:
        return dict.fromkeys(wanted, error.code)
    return dict.fromkeys(wanted, 0)


def _problem(broker: BrokerState, name: tuple[str, int], from_client: bool) -> int:
    topic, index = name
    if from_client and topic in INTERNAL_TOPICS:
        return errors.TopicAuthorizationError.code
    known = broker.metadata.topic(topic)
    if known is None or not 0 <= index < known.partitions:
        return errors.UnknownTopicOrPartitionError.code
    return 0


def _by_topic(codes: _Codes) -> list[AddPartitionsToTxnTopicResult]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for (topic, index), code in codes.items():
        result = topics.setdefault(topic, AddPartitionsToTxnTopicResult(name=topic))
        result.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return list(topics.values())
