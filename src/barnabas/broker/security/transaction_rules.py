"""The rules of requests about transactions, and of Produce, which may belong to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from barnabas import errors
from barnabas.broker.request_context import CloseConnection
from barnabas.broker.security.authorizable_request import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Asked,
    Verdict,
)
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.thresholds import ADD_PARTITIONS_TO_TXN_BATCHED_FROM
from barnabas.records.batch_header import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_BIT

if TYPE_CHECKING:
    from barnabas.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
    from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
    from barnabas.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
    from barnabas.protocol.messages.end_txn_request import EndTxnRequest
    from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
    from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest
    from barnabas.protocol.messages.list_transactions_response import ListTransactionsResponse
    from barnabas.protocol.messages.produce_request import ProduceRequest
    from barnabas.protocol.messages.produce_response import ProduceResponse
    from barnabas.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest

_TRANSACTION, _GROUP, _TOPIC = ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP, ResourceType.TOPIC
_NOT_ATTEMPTED = errors.OperationNotAttemptedError.code


def _may_write(asked: Asked[Any], transactional_id: str | None) -> bool:
    return transactional_id is not None and asked.may(Op.WRITE, _TRANSACTION, transactional_id)


def produce(asked: Asked[ProduceRequest]) -> Verdict:
    """Ask for the transaction of transactional batches first, then for each topic."""
    request = asked.request
    if _has_transactional_records(request) and not _may_write(asked, request.transactional_id):
        verdict: Verdict = asked.refuse(TRANSACTION_DENIED)
    else:
        verdict = asked.without("topic_data", "responses", lambda one: asked.may_topic(Op.WRITE, one), TOPIC_DENIED)
    if verdict is None or request.acks != 0:
        return verdict

    def close(response: ProduceResponse | None) -> NoReturn:
        raise CloseConnection("produce with acks=0 is not authorized, and there is no other way to tell")

    if not callable(verdict):
        close(None)
    return close


def _has_transactional_records(request: ProduceRequest) -> bool:
    return any(
        data.records is not None
        and len(data.records) >= HEADER_SIZE
        and data.records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT
        for topic in request.topic_data
        for data in topic.partition_data
    )


def init_producer_id(asked: Asked[InitProducerIdRequest]) -> Verdict:
    """Ask for the transactional id; without one, that something at all may be written."""
    request = asked.request
    if request.transactional_id is not None:
        if not _may_write(asked, request.transactional_id):
            return asked.refuse(TRANSACTION_DENIED)
        if request.enable2_pc and not asked.may(Op.TWO_PHASE_COMMIT, _TRANSACTION, request.transactional_id):
            return asked.refuse(TRANSACTION_DENIED)
        return None
    if asked.may_cluster(Op.IDEMPOTENT_WRITE, tell=False) or asked.may_any(Op.WRITE, _TOPIC):
        return None
    return asked.refuse(CLUSTER_DENIED)


def add_partitions_to_txn(asked: Asked[AddPartitionsToTxnRequest]) -> Verdict:
    """Let brokers ask for many; a client for its transaction and all topics, or nothing is attempted."""
    from barnabas.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

    request = asked.request
    if asked.context.api_version >= ADD_PARTITIONS_TO_TXN_BATCHED_FROM:
        return None if asked.may_cluster(Op.CLUSTER_ACTION) else asked.refuse(CLUSTER_DENIED)
    if not _may_write(asked, request.v3_and_below_transactional_id):
        return asked.refuse(TRANSACTION_DENIED)
    topics = request.v3_and_below_topics
    denied = {topic.name for topic in topics if not asked.may(Op.WRITE, _TOPIC, topic.name)}
    if not denied:
        return None
    refusal = asked.refuse(_NOT_ATTEMPTED)
    assert isinstance(refusal, AddPartitionsToTxnResponse)
    for topic in refusal.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            if topic.name in denied:
                partition.partition_error_code = TOPIC_DENIED
    return refusal


def add_offsets_to_txn(asked: Asked[AddOffsetsToTxnRequest]) -> Verdict:
    """Ask for the transaction, then for the group."""
    if not _may_write(asked, asked.request.transactional_id):
        return asked.refuse(TRANSACTION_DENIED)
    return None if asked.may(Op.READ, _GROUP, asked.request.group_id) else asked.refuse(GROUP_DENIED)


def end_txn(asked: Asked[EndTxnRequest]) -> Verdict:
    """Ask for the transaction."""
    return None if _may_write(asked, asked.request.transactional_id) else asked.refuse(TRANSACTION_DENIED)


def txn_offset_commit(asked: Asked[TxnOffsetCommitRequest]) -> Verdict:
    """Ask for the transaction, then for the group, then for each topic."""
    if not _may_write(asked, asked.request.transactional_id):
        return asked.refuse(TRANSACTION_DENIED)
    if not asked.may(Op.READ, _GROUP, asked.request.group_id):
        return asked.refuse(GROUP_DENIED)
    return asked.without("topics", "topics", lambda topic: asked.may_topic(Op.READ, topic), TOPIC_DENIED)


def describe_transactions(asked: Asked[DescribeTransactionsRequest]) -> Verdict:
    """Refuse those that may not be described; of the others leave out topics that may not."""
    verdict = asked.without(
        "transactional_ids",
        "transaction_states",
        lambda name: asked.may(Op.DESCRIBE, _TRANSACTION, name),
        TRANSACTION_DENIED,
    )
    if verdict is not None and not callable(verdict):
        return verdict

    def amend(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [topic for topic in state.topics if asked.may(Op.DESCRIBE, _TOPIC, topic.topic, tell=False)]
        return verdict(response) if callable(verdict) else response

    return amend


def list_transactions(asked: Asked[ListTransactionsRequest]) -> Verdict:
    """Show those that may be described."""

    def amend(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if asked.may(Op.DESCRIBE, _TRANSACTION, state.transactional_id, tell=False)
        ]
        return response

    return amend
