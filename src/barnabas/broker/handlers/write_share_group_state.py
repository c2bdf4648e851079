"""WriteShareGroupState: what has changed in share-partitions is stored (KIP-932).

Versions 0-1. v1 count of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.coordinator.state_requests import answer_each
from barnabas.broker.share.persister import StateBatch, StateUpdate
from barnabas.protocol.messages.write_share_group_state_response import PartitionResult, WriteShareGroupStateResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import SharePartitionKey
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.write_share_group_state_request import PartitionData, WriteShareGroupStateRequest

API = 85
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: WriteShareGroupStateRequest
) -> Message | PiecewiseResponse:
    """Each share-partition has its own result."""

    def serve(key: SharePartitionKey, asked: PartitionData, result: PartitionResult) -> None:
        update = StateUpdate(
            asked.state_epoch,
            asked.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            [
                StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
                for one in asked.state_batches
            ],
        )
        broker.share_coordinator.write(key, update, context.instant)

    return answer_each(broker, request, WriteShareGroupStateResponse(), serve)
