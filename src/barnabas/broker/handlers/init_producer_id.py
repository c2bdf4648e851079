"""InitProducerId: an id for an idempotent producer (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AclOperation, ResourceType
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest

API = 22
VERSIONS = (0, 5)
OPERATION = AclOperation.IDEMPOTENT_WRITE
RESOURCE = ResourceType.CLUSTER


def handle(broker: BrokerState, context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new id, whatever the producer had before: without transactions there is nothing to go on with."""
    if request.transactional_id is not None:
        # Transactions are not built yet; this is the one code that every client reports and none retries.
        refusal = errors.InvalidRequestError if request.transactional_id == "" else errors.UnsupportedVersionError
        return InitProducerIdResponse(error_code=refusal.code, producer_id=-1, producer_epoch=-1)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(error_code=errors.InvalidRequestError.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=broker.next_producer_id(), producer_epoch=0)
