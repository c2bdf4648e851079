"""ShareAcknowledge: a member of a share group says what became of the records that it has (KIP-932).

Versions 1-2. v2 renewed locks (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.piecewise import outcome_of
from barnabas.broker.share.acknowledging import acknowledge_all, check_member
from barnabas.broker.share.current_leaders import add_current_leaders
from barnabas.protocol.epochs import FINAL_EPOCH
from barnabas.protocol.messages.share_acknowledge_response import (
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.acknowledging import Problems
    from barnabas.broker.share.share_session import ShareSession
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest

API = 79
VERSIONS = (1, 2)


def handle(
    broker: BrokerState, context: RequestContext, request: ShareAcknowledgeRequest
) -> Message | PiecewiseResponse:
    """Answer when all is stored; with the last request of a session free the records that were not acknowledged."""
    try:
        check_groups(broker.metadata, SHARE_VERSION)
        check_member(request.group_id, request.member_id)
        sessions = broker.share_partition_manager.sessions
        session = sessions.use(request.group_id or "", request.member_id or "", request.share_session_epoch)
    except errors.KafkaError as problem:
        return ShareAcknowledgeResponse(error_code=problem.code, error_message=str(problem))
    return broker.large_responses.answer(_acknowledged(broker, context, request, session))


def _acknowledged(
    broker: BrokerState, context: RequestContext, request: ShareAcknowledgeRequest, session: ShareSession
) -> Pieces:
    asked = {
        (topic.topic_id, one.partition_index): one.acknowledgement_batches
        for topic in request.topics
        for one in topic.partitions
    }

    def begin(tell: Callable[[Problems], None]) -> None:
        acknowledge_all(broker, context, request, asked, tell)

    problems = yield from outcome_of(begin)
    manager = broker.share_partition_manager
    if request.share_session_epoch == FINAL_EPOCH:
        manager.end_session(session, context.instant)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for (topic_id, number), problem in problems.items():
        topic = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id))
        result = PartitionData(partition_index=number)
        if problem is not None:
            result.error_code, result.error_message = problem.code, str(problem)
        topic.partitions.append(result)
    lock_ms = int(manager.settings.limits(session.group_id).lock_seconds * 1000)
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))
    add_current_leaders(broker, context.connection.listener, response, NodeEndpoint)
    return response
