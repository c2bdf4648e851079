"""ReadShareGroupState: what the share coordinator keeps of share-partitions, for who leads them (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.coordinator.state_requests import answer_each
from barnabas.protocol.messages.read_share_group_state_response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    StateBatch,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import SharePartitionKey
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.read_share_group_state_request import PartitionData, ReadShareGroupStateRequest

API = 84
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: ReadShareGroupStateRequest
) -> Message | PiecewiseResponse:
    """Each share-partition has its own result; a newer leader epoch is noted."""

    def serve(key: SharePartitionKey, asked: PartitionData, result: PartitionResult) -> None:
        state = broker.share_coordinator.read(key, asked.leader_epoch, context.instant)
        result.state_epoch = state.state_epoch
        result.start_offset = state.start_offset
        result.state_batches = [StateBatch(*batch) for batch in state.state_batches]

    return answer_each(broker, request, ReadShareGroupStateResponse(), serve)
