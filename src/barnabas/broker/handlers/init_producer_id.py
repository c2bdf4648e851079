"""InitProducerId: a producer's id and epoch; a transactional id's producer before is shut out (KIP-98, KIP-360).

Versions 0-6. v1 throttled after the response (KIP-219). v2 flexible. v3 producer id and epoch to go on from (KIP-360).
v4 PRODUCER_FENCED (KIP-588). v5 TRANSACTION_ABORTABLE (KIP-890). v6 two-phase commit (KIP-939).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import Pieces, PiecewiseResponse, outcome_of
from barnabas.broker.transactions.fencing import fenced_code
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest

API = 22
VERSIONS = (0, 6)


def handle(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> Message | PiecewiseResponse:
    """Without a transactional id every request gets a new producer id. Version 6 is KIP-939."""
    if broker.producer_id_manager.is_ready:
        return _answer(broker, context, request)
    return broker.large_responses.answer(_answer_when_ready(broker, context, request))


def _answer_when_ready(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> Pieces:
    problem = yield from outcome_of(broker.producer_id_manager.when_ready)
    if problem is not None:
        return InitProducerIdResponse(error_code=problem.code, producer_id=-1, producer_epoch=-1)
    return _answer(broker, context, request)


def _answer(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    producer_id, epoch = request.producer_id, request.producer_epoch
    try:
        if (producer_id == -1) != (epoch == -1):
            raise errors.InvalidRequestError
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=broker.producer_id_manager.next(), producer_epoch=0)
        identity, ongoing = broker.transaction_coordinator.init_producer_id(
            request.transactional_id,
            request.transaction_timeout_ms,
            None if producer_id == -1 else (producer_id, epoch),
            context.instant,
            two_phase=request.enable2_pc,
            keep_prepared=request.keep_prepared_txn,
        )
    except errors.ProducerFencedError:
        return InitProducerIdResponse(
            error_code=fenced_code(API, context.api_version), producer_id=-1, producer_epoch=-1
        )
    except errors.KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    response = InitProducerIdResponse(producer_id=identity.producer_id, producer_epoch=identity.epoch)
    if ongoing is not None:
        response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = ongoing
    return response
