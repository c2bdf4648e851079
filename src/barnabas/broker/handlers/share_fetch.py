"""ShareFetch: a member of a share group acquires records, and acknowledges others (KIP-932).

Versions 1-2. v2 acquisition by the record (KIP-1206), renewed locks (KIP-1222).
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import message_of, outcome_of
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.share.acknowledging import acknowledge_all, check_member, count_failure, count_request, may_read
from barnabas.broker.share.current_leaders import add_current_leaders
from barnabas.broker.share.delayed_share_fetch import DelayedShareFetch, SharedRecords, ShareFetchLimits
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.broker.share.share_partition import Acquirer
from barnabas.config.quota_config import FETCH
from barnabas.protocol.epochs import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.protocol.messages.share_fetch_response import (
    AcquiredRecords,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.acknowledging import Problems
    from barnabas.broker.share.share_partition_manager import LedSharePartition
    from barnabas.broker.share.share_session import ShareSession, TopicIdPartition
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.share_fetch_request import AcknowledgementBatch, ShareFetchRequest

API = 78
VERSIONS = (1, 2)

#: So many partitions one member may fetch from: it has those that it is assigned.
MAX_SESSION_PARTITIONS = 10_000
#: The acquisition mode that gives not one record more than was asked for.
_RECORD_LIMIT = 1
Results = dict["TopicIdPartition", PartitionData]
Asked = dict["TopicIdPartition", "list[AcknowledgementBatch]"]


def handle(broker: BrokerState, context: RequestContext, request: ShareFetchRequest) -> Message | DelayedOperation:
    """Acknowledge first, then acquire: at once if there is something, else when there is, or at max_wait_ms."""
    try:
        check_groups(broker.metadata, SHARE_VERSION)
        check_member(request.group_id, request.member_id)
        _check_renewal(request)
        session = _take_up(broker, context, request)
    except errors.ShareSessionLimitReachedError as problem:
        # At once, it would be asked again at once.
        return _Refusal(_refused(problem), context.now + request.max_wait_ms / 1000)
    except errors.KafkaError as problem:
        return _refused(problem)
    asked = {
        (topic.topic_id, one.partition_index): one.acknowledgement_batches
        for topic in request.topics
        for one in topic.partitions
        if one.acknowledgement_batches
    }
    if asked:
        return broker.large_responses.answer(_acknowledged(broker, context, request, session, asked))
    return _fetch(broker, context, request, session, {})


class _Refusal(DelayedOperation):
    """An error that is told at the deadline."""

    __slots__ = ("_response",)

    def __init__(self, response: ShareFetchResponse, deadline: float) -> None:
        super().__init__(deadline)
        self._response = response

    def on_expiration(self, now: float) -> Message:
        """See `DelayedOperation`."""
        return self._response


def _refused(problem: errors.KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=problem.code, error_message=str(problem))


def _check_renewal(request: ShareFetchRequest) -> None:
    if request.is_renew_ack and any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)):
        raise errors.InvalidRequestError(
            "maxBytes, minBytes, maxRecords and maxWaitMs must be 0 if isRenewAck is true: no records are fetched."
        )


def _take_up(broker: BrokerState, context: RequestContext, request: ShareFetchRequest) -> ShareSession:
    """Return the session, with what the request adds to it and takes away. Raises KafkaError."""
    sessions = broker.share_partition_manager.sessions
    group_id, member_id = request.group_id or "", request.member_id or ""
    if request.share_session_epoch != INITIAL_EPOCH:
        session = sessions.use(group_id, member_id, request.share_session_epoch)
    elif any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions):
        raise errors.InvalidRequestError("The first request of a share session acknowledges nothing.")
    else:
        session = sessions.create(group_id, member_id, context.connection.id)
    if request.share_session_epoch != FINAL_EPOCH:
        for topic in request.topics:
            for one in topic.partitions:
                session.partitions.setdefault((topic.topic_id, one.partition_index))
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.partitions.pop((forgotten.topic_id, number), None)
        if len(session.partitions) > MAX_SESSION_PARTITIONS:
            sessions.remove(group_id, member_id)
            raise errors.InvalidRequestError(
                f"A share session may have {MAX_SESSION_PARTITIONS} partitions, this would have more."
            )
    return session


def _acknowledged(
    broker: BrokerState, context: RequestContext, request: ShareFetchRequest, session: ShareSession, asked: Asked
) -> Pieces:
    results: Results = {}

    def begin(tell: Callable[[Problems], None]) -> None:
        acknowledge_all(broker, context, request, asked, tell)

    problems = yield from outcome_of(begin)
    for (topic_id, number), problem in problems.items():
        result = results[topic_id, number] = PartitionData(partition_index=number, records=b"")
        if problem is not None:
            result.acknowledge_error_code, result.acknowledge_error_message = problem.code, str(problem)
    answer = _fetch(broker, context, request, session, results)
    message = yield from message_of(broker.purgatory, answer)
    assert message is not None, "every request is answered"
    return message


def _fetch(
    broker: BrokerState, context: RequestContext, request: ShareFetchRequest, session: ShareSession, results: Results
) -> Message | DelayedOperation:
    manager = broker.share_partition_manager
    if request.share_session_epoch == FINAL_EPOCH:
        manager.end_session(session, context.instant)
    if request.share_session_epoch == FINAL_EPOCH or request.is_renew_ack:
        return _response(broker, context, session, results)
    return when_open(broker, list(session.partitions), lambda: _acquire(broker, context, request, session, results))


def _acquire(
    broker: BrokerState, context: RequestContext, request: ShareFetchRequest, session: ShareSession, results: Results
) -> Message | DelayedOperation:
    manager, limits = broker.share_partition_manager, _limits(broker, context, request)
    led: list[LedSharePartition] = []
    has_failed = False
    for topic_id, number in session.partitions:
        try:
            count_request(broker, topic_id, API)
            if not may_read(broker, context, topic_id):
                raise errors.TopicAuthorizationError()
            led.append(manager.led(SharePartitionKey(session.group_id, topic_id, number), context.instant))
        except errors.KafkaError as problem:
            has_failed = True
            count_failure(broker, topic_id, API)
            _note(results, (topic_id, number), problem)

    def finish(found: list[SharedRecords], now: float) -> Message:
        for one in found:
            key = one.led.key.topic_id, one.led.key.partition
            if one.problem is not None:
                _note(results, key, one.problem)
                continue
            one.led.replica.bytes_out += len(one.records)
            result = results.setdefault(key, PartitionData(partition_index=key[1], records=b""))
            result.records = one.records
            result.acquired_records = [AcquiredRecords(*acquired) for acquired in one.acquired]
        if broker.client_quotas.enabled:
            # What was acquired is sent, unlike in Fetch; the client waits before it asks again.
            size = sum(len(one.records) for one in found)
            context.throttle = broker.client_quotas.use(context, FETCH, size, now)
        session.rotate((one.led.key.topic_id, one.led.key.partition) for one in found if one.records)
        return _response(broker, context, session, results)

    wait = request.max_wait_ms / 1000
    is_last = has_failed or wait <= 0 or not led
    if not led or not request.max_records or not limits.max_bytes:
        return finish([], context.now)
    delayed = DelayedShareFetch(
        manager, broker.replica_manager, led, limits, context.now + wait if wait > 0 else inf, finish
    )
    return delayed.attempt(context.now, is_last=is_last) or delayed


def _limits(broker: BrokerState, context: RequestContext, request: ShareFetchRequest) -> ShareFetchLimits:
    max_bytes = min(request.max_bytes, broker.config.get_int("fetch.max.bytes"))
    if broker.client_quotas.enabled:
        max_bytes = int(min(max_bytes, broker.client_quotas.most_at_once(context, FETCH, context.now)))
    is_strict = request.share_acquire_mode == _RECORD_LIMIT
    return ShareFetchLimits(
        Acquirer(request.member_id or "", request.max_records, max(request.batch_size, 1), is_strict),
        min(request.min_bytes, max_bytes),
        max_bytes,
        broker.share_partition_manager.settings.isolation(request.group_id or ""),
    )


def _note(results: Results, key: TopicIdPartition, problem: errors.KafkaError) -> None:
    result = results.setdefault(key, PartitionData(partition_index=key[1], records=b""))
    result.error_code, result.error_message = problem.code, str(problem)


def _response(
    broker: BrokerState, context: RequestContext, session: ShareSession, results: Results
) -> ShareFetchResponse:
    limits = broker.share_partition_manager.settings.limits(session.group_id)
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for (topic_id, _), result in results.items():
        topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id))
        topic.partitions.append(result)
    lock_ms = int(limits.lock_seconds * 1000)
    response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values()))
    add_current_leaders(broker, context.connection.listener, response, NodeEndpoint)
    return response
