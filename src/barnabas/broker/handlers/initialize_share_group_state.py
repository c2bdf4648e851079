"""InitializeShareGroupState: share-partitions begin anew, at an offset or where the group says (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.metadata.cluster_metadata import SHARE_GROUP_STATE_TOPIC
from barnabas.broker.piecewise import message_of
from barnabas.broker.share.coordinator.state_requests import answer_each
from barnabas.protocol.messages.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
    PartitionResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.persister import SharePartitionKey
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.initialize_share_group_state_request import (
        InitializeShareGroupStateRequest,
        PartitionData,
    )

API = 83
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: InitializeShareGroupStateRequest
) -> Message | PiecewiseResponse:
    """Each share-partition has its own result; the first request creates the topic of the states."""

    def serve(key: SharePartitionKey, asked: PartitionData, result: PartitionResult) -> None:
        broker.share_coordinator.initialize(key, asked.state_epoch, asked.start_offset, context.instant)

    def answer() -> Message | PiecewiseResponse:
        return answer_each(broker, request, InitializeShareGroupStateResponse(), serve)

    if broker.metadata.topic(SHARE_GROUP_STATE_TOPIC) is not None:
        return answer()
    return broker.large_responses.answer(_with_topic(broker, context, answer))


def _with_topic(
    broker: BrokerState, context: RequestContext, answer: Callable[[], Message | PiecewiseResponse]
) -> Pieces:
    from barnabas.broker.auto_topic_creation import ensure_internal

    # What keeps the topic from being made is met again, and told for each share-partition.
    yield from ensure_internal(broker, SHARE_GROUP_STATE_TOPIC, context.now_ms)
    found = yield from message_of(broker.purgatory, answer())
    assert found is not None, "every request is answered"
    return found
