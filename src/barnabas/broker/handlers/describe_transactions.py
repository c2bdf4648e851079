"""DescribeTransactions: what is known of transactional ids (KIP-664).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.broker.transactions.transaction_state import NAMES
from barnabas.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest

API = 65
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeTransactionsRequest
) -> Message | PiecewiseResponse:
    """Each id has its own result, once."""

    def make(transactional_id: str) -> tuple[TransactionState, int]:
        state = _one(broker, transactional_id)
        return state, 1 + sum(1 + len(topic.partitions) for topic in state.topics)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeTransactionsResponse, "transaction_states", context.api_version),
        dict.fromkeys(request.transactional_ids),
        make,
        lambda states: DescribeTransactionsResponse(transaction_states=states),
    )


def _one(broker: BrokerState, transactional_id: str) -> TransactionState:
    try:
        metadata = broker.transaction_coordinator.describe(transactional_id)
    except errors.KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=NAMES[metadata.state],
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
