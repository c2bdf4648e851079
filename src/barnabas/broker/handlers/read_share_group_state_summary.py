"""ReadShareGroupStateSummary: how far share-partitions are (KIP-932).

Versions 0-1. v1 count of records whose delivery is complete (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.coordinator.state_requests import answer_each
from barnabas.protocol.messages.read_share_group_state_summary_response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import SharePartitionKey
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.read_share_group_state_summary_request import (
        PartitionData,
        ReadShareGroupStateSummaryRequest,
    )

API = 87
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> Message | PiecewiseResponse:
    """Each share-partition has its own result; one that is not known has begun nothing."""

    def serve(key: SharePartitionKey, asked: PartitionData, result: PartitionResult) -> None:
        summary = broker.share_coordinator.read_summary(key)
        result.state_epoch = summary.state_epoch
        result.leader_epoch = summary.leader_epoch
        result.start_offset = summary.start_offset
        result.delivery_complete_count = summary.delivery_complete_count

    return answer_each(broker, request, ReadShareGroupStateSummaryResponse(), serve)
