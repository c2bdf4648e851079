"""ListTransactions: the transactional ids of this broker (KIP-664; KIP-994 duration, KIP-1152 pattern).

Versions 0-2. v1 longer than a duration (KIP-994). v2 ids by pattern (KIP-1152).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.regex.matching import matching_names
from barnabas.broker.transactions.transaction_state import BY_NAME, NAMES
from barnabas.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.transactions.transaction_metadata import TransactionMetadata
    from barnabas.protocol.messages.list_transactions_request import ListTransactionsRequest

API = 66
VERSIONS = (0, 2)


def handle(broker: BrokerState, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Those that pass every filter; a pattern has to match the whole id."""
    pattern = request.transactional_id_pattern
    try:
        everything = broker.transaction_coordinator.all()
        if pattern:
            # Not by Python's `re`: an expression that backtracks without end would stop the broker.
            matching = matching_names(pattern, [metadata.transactional_id for metadata in everything])
            everything = [metadata for metadata in everything if metadata.transactional_id in matching]
    except errors.KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    unknown = [name for name in request.state_filters if name not in BY_NAME]
    found = [
        TransactionState(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            transaction_state=NAMES[metadata.state],
        )
        for metadata in everything
        if _passes(metadata, request, context.now_ms)
    ]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _passes(metadata: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and metadata.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and NAMES[metadata.state] not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - metadata.start_ms > request.duration_filter
