"""FindCoordinator: which broker looks after a group or a transactional id (KIP-98, batched by KIP-699).

Versions 0-6. v1 key type, throttle time, error message. v2 throttled after the response (KIP-219). v3 flexible. v4
several keys (KIP-699). v5 TRANSACTION_ABORTABLE (KIP-890). v6 share groups (KIP-932).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log_opening import opened, when_open
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.broker.piecewise import Pieces, PiecewiseResponse
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.thresholds import FIND_COORDINATOR_KEYS_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log_opening import Name
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest

API = 10
VERSIONS = (0, 6)

_SHARE_FROM = 6


_TOPICS: dict[int, str] = {
    CoordinatorType.GROUP: GROUP_METADATA_TOPIC,
    CoordinatorType.TRANSACTION: TRANSACTION_STATE_TOPIC,
    CoordinatorType.SHARE: SHARE_GROUP_STATE_TOPIC,
}


def handle(
    broker: BrokerState, context: RequestContext, request: FindCoordinatorRequest
) -> Message | PiecewiseResponse:
    """Return this broker, for every key of a kind that it looks after; the first request creates the kind's topic."""
    topic = _TOPICS.get(request.key_type)
    keys = request.coordinator_keys if context.api_version >= FIND_COORDINATOR_KEYS_FROM else [request.key]
    if topic is None or not keys:
        return _answer(broker, context, request, None)
    if broker.metadata.topic(topic) is None:
        return broker.large_responses.answer(_answer_with_topic(broker, context, request, topic, keys))
    return when_open(broker, _partitions(broker, topic, keys), lambda: _answer(broker, context, request, None))


def _partitions(broker: BrokerState, topic: str, keys: Iterable[str]) -> list[Name]:
    """Return the partitions that will hold records of the keys, so that the files of their logs are there then."""
    known = broker.metadata.topic(topic)
    if known is None or broker.member is not None:
        return []
    return list(dict.fromkeys((topic, partition_for(key, known.partitions)) for key in keys))


def _answer_with_topic(
    broker: BrokerState, context: RequestContext, request: FindCoordinatorRequest, topic: str, keys: Iterable[str]
) -> Pieces:
    from barnabas.broker.auto_topic_creation import ensure_internal

    problem = yield from ensure_internal(broker, topic, context.now_ms)
    yield from opened(broker.replica_manager, _partitions(broker, topic, keys))
    return _answer(broker, context, request, problem)


def _answer(
    broker: BrokerState, context: RequestContext, request: FindCoordinatorRequest, problem: errors.KafkaError | None
) -> FindCoordinatorResponse:
    if context.api_version >= FIND_COORDINATOR_KEYS_FROM:
        found = [_coordinator(broker, context, request.key_type, key, problem) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = _coordinator(broker, context, request.key_type, request.key, problem)
    message = one.error_message if one.error_code else "NONE"  # so does Kafka
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(
    broker: BrokerState, context: RequestContext, key_type: int, key: str, problem: errors.KafkaError | None
) -> Coordinator:
    try:
        if problem is not None:
            raise problem
        if key_type == CoordinatorType.SHARE:
            _check_share_key(context, key)
        if broker.member is not None and key_type in _TOPICS:
            return _elected(broker, context, _TOPICS[key_type], key)
        if key_type == CoordinatorType.GROUP:
            broker.group_coordinator.ensure_topic(context.now_ms)
        elif key_type == CoordinatorType.TRANSACTION:
            broker.transaction_coordinator.ensure_topic(context.now_ms)
        elif key_type == CoordinatorType.SHARE:
            broker.share_coordinator.ensure_topic(context.now_ms)
        else:
            raise errors.InvalidRequestError(f"Coordinators of type {key_type} are not served by this broker.")
    except errors.InvalidRequestError as error:
        return _nobody(key, error.code, str(error))
    except errors.KafkaError as error:
        return _nobody(key, errors.CoordinatorNotAvailableError.code, str(error))
    host, port = broker.endpoint(context.connection.listener)
    return Coordinator(key=key, node_id=broker.node_id, host=host, port=port)


def _check_share_key(context: RequestContext, key: str) -> None:
    from barnabas.broker.share.persister import SharePartitionKey

    if context.api_version < _SHARE_FROM:
        raise errors.InvalidRequestError(f"Share coordinators are asked for from version {_SHARE_FROM} on.")
    try:
        SharePartitionKey.parse(key)
    except ValueError as problem:
        raise errors.InvalidRequestError(f"A share-partition is written group:topic id:partition: {problem}") from None


def _elected(broker: BrokerState, context: RequestContext, topic: str, key: str) -> Coordinator:
    """Return the leader of the partition that holds a key. Raises `CoordinatorNotAvailableError`."""
    known, listener = broker.metadata.topic(topic), context.connection.listener
    index = 0 if known is None else partition_for(key, known.partitions)
    for found in broker.view.partitions(topic, listener, index, 1):
        node = broker.view.broker(found.leader, listener)
        if node is not None:
            return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port)
    raise errors.CoordinatorNotAvailableError(f"The partition of {topic} that holds {key!r} has no leader.")


def _nobody(key: str, error_code: int, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error_code, error_message=message)
