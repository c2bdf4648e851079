"""DeleteShareGroupState: the share coordinator forgets share-partitions (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.coordinator.state_requests import answer_each
from barnabas.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse, PartitionResult

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import SharePartitionKey
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest, PartitionData

API = 86
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DeleteShareGroupStateRequest
) -> Message | PiecewiseResponse:
    """Each share-partition has its own result; one that is not known is deleted already."""

    def serve(key: SharePartitionKey, asked: PartitionData, result: PartitionResult) -> None:
        broker.share_coordinator.delete(key, context.instant)

    return answer_each(broker, request, DeleteShareGroupStateResponse(), serve)
