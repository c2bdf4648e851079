"""ShareGroupHeartbeat: members of share groups join, stay, get their partitions and leave (KIP-932).

Versions 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.log_opening import opened, when_open
from barnabas.broker.metadata.cluster_metadata import SHARE_GROUP_STATE_TOPIC
from barnabas.broker.piecewise import outcome_of
from barnabas.broker.share.acknowledging import check_member
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

API = 76
VERSIONS = (1, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Message | PiecewiseResponse:
    """Answer once what has changed is in the log; the first member waits for the topic of the states to be made."""
    if broker.metadata.topic(SHARE_GROUP_STATE_TOPIC) is None:
        return broker.large_responses.answer(_with_topic(broker, context, request))
    return when_open(
        broker,
        _logs_of_states(broker, request),
        lambda: broker.large_responses.answer(_answered(broker, context, request)),
    )


def _logs_of_states(broker: BrokerState, request: ShareGroupHeartbeatRequest) -> list[tuple[str | bytes, int]]:
    """Return where the states of what a member subscribes to lie, so that it has its partitions with the answer."""
    known = broker.metadata.topic(SHARE_GROUP_STATE_TOPIC)
    if known is None:
        return []
    numbers = set()
    for name in request.subscribed_topic_names or ():
        topic = broker.metadata.topic(name)
        for number in range(0 if topic is None else topic.partitions):
            assert topic is not None, "it has partitions"
            key = SharePartitionKey(request.group_id, topic.id, number)
            numbers.add(partition_for(key.coordinator_key, known.partitions))
            if len(numbers) == known.partitions:
                break
    return [(SHARE_GROUP_STATE_TOPIC, number) for number in sorted(numbers)]


def _with_topic(broker: BrokerState, context: RequestContext, request: ShareGroupHeartbeatRequest) -> Pieces:
    from barnabas.broker.auto_topic_creation import ensure_internal

    # Without it the group has no partitions yet; what keeps it from being made is told to the operator then.
    yield from ensure_internal(broker, SHARE_GROUP_STATE_TOPIC, context.now_ms)
    yield from opened(broker.replica_manager, _logs_of_states(broker, request))
    return (yield from _answered(broker, context, request))


def _answered(broker: BrokerState, context: RequestContext, request: ShareGroupHeartbeatRequest) -> Pieces:
    def prepare(tell: Callable[[None], None]) -> None:
        membership = broker.group_coordinator.share_groups(request.group_id).membership
        membership.prepare(request, context.instant, lambda: tell(None))

    try:
        check_groups(broker.metadata, SHARE_VERSION)
        check_member(request.group_id, request.member_id)
        yield from outcome_of(prepare)
        membership = broker.group_coordinator.share_groups(request.group_id).membership
        return membership.heartbeat(context, request, context.instant)
    except errors.KafkaError as error:
        return ShareGroupHeartbeatResponse(
            error_code=coordinator_error_code(error), error_message=str(error), assignment=None
        )
