"""EndTxn: commits or aborts a transaction; version 5 and later give the next epoch (KIP-98, KIP-890).

Versions 0-5. v1 throttled after the response (KIP-219). v2 PRODUCER_FENCED (KIP-588). v3 flexible. v4
TRANSACTION_ABORTABLE (KIP-890). v5 every transaction gets an epoch of its own, which the response tells (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.transactions.fencing import fenced_code
from barnabas.protocol.messages.end_txn_response import EndTxnResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.end_txn_request import EndTxnRequest

API = 26
VERSIONS = (0, 5)

_BUMPS_EPOCH_FROM = 5
_FIRST_PROTOCOL, _SECOND_PROTOCOL = 0, 2


def handle(broker: BrokerState, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """Answered when the decision is in the log; readers see it when the markers are, which follow at once."""
    bumps = context.api_version >= _BUMPS_EPOCH_FROM
    try:
        identity = broker.transaction_coordinator.end_transaction(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            context.instant,
            version=_SECOND_PROTOCOL if bumps else _FIRST_PROTOCOL,
        )
    except errors.ProducerFencedError:
        return EndTxnResponse(error_code=fenced_code(API, context.api_version))
    except errors.KafkaError as error:
        return EndTxnResponse(error_code=error.code)
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)
