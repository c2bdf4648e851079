"""Answers of coordinators wait until what they rest on is committed (CoordinatorRuntime's deferred events).

A coordinator's memory changes when its record is in the log here, and the record may still be lost: with this broker,
where others have replicas, or with the machine, where `flush.messages` is set for the coordinator's topic. So
no response leaves before everything that its partition had when the response was made is committed: that holds for what
was changed and for what was only read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas import errors
from barnabas.broker.error_responses import error_response
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.broker.piecewise import PiecewiseResponse
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.share.coordinator.state_requests import StateRequest
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
    from barnabas.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
    from barnabas.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
    from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest
    from barnabas.protocol.messages.write_txn_markers_request import WriteTxnMarkersRequest

#: How long the replicas may take for a transaction's record, in seconds; for a group's: `offsets.commit.timeout.ms`.
_TRANSACTION_TIMEOUT = 30.0
Names = Iterable[TopicPartition]


class _OfGroup(Protocol):
    """A request about one group."""

    @property
    def group_id(self) -> str: ...


class _OfTransaction(Protocol):
    """A request about one transactional id; a producer that is only idempotent has none."""

    @property
    def transactional_id(self) -> str | None: ...


class ChainedOperation(DelayedOperation):
    """A response that has to wait for `inner`, which may change meanwhile."""

    __slots__ = ("_broker", "inner")

    def __init__(self, broker: BrokerState, inner: DelayedOperation):
        super().__init__()
        self._broker = broker
        self.inner = inner

    def on_cancel(self) -> None:
        """See `DelayedOperation`."""
        self._broker.purgatory.cancel(self.inner)


def with_commits(api_key: int, local: Handler) -> Handler:
    """Return a handler whose answers wait for the commits of the coordinator's partitions; others are as they were."""
    names_of = _NAMES.get(api_key)
    if names_of is None:
        return local
    is_transaction = api_key in _TRANSACTIONS

    def handle(broker: BrokerState, context: RequestContext, request: Message) -> Message | DelayedOperation | None:
        def refused(problem: errors.KafkaError) -> Message:
            if api_key == ApiKey.WRITE_TXN_MARKERS:
                return _markers_refused(request, context.api_version, problem)
            error = _coordinator_error(problem)
            answer = _refused(broker, lambda: local(broker, context, request), error)
            if answer is None:
                answer = error_response(api_key, request, context.api_version, error.code)
            assert answer is not None, "every coordinator's answer has a place for an error"
            return answer

        def committed(message: Message | None) -> Message | DelayedOperation:
            assert message is not None, "coordinators answer every request"
            if not broker.replica_manager.awaits_commits:
                return message
            timeout = _TRANSACTION_TIMEOUT
            if not is_transaction:
                timeout = broker.config.get_int("offsets.commit.timeout.ms") / 1000
            return broker.replica_manager.when_committed(
                dict.fromkeys(names_of(broker, request)),
                lambda problem: message if problem is None else refused(problem),
                context.now + timeout,
            )

        result = local(broker, context, request)
        if not isinstance(result, DelayedOperation):
            return committed(result)
        return _chained(broker, result, committed)

    return handle


def reload_after_fault(broker: BrokerState, request: Message, now: float) -> None:
    """Have a coordinator read a partition anew after a fault in a request that changes what is in it.

    A fault in the middle of a change leaves memory and log apart. Requests that are parked are answered as when
    another broker becomes the coordinator.
    """
    if request.API_KEY not in _CHANGES:
        return
    for name in dict.fromkeys(_NAMES[request.API_KEY](broker, request)):
        if name.topic == GROUP_METADATA_TOPIC:
            broker.group_coordinator.recover(name.partition, now)
        elif name.topic == TRANSACTION_STATE_TOPIC:
            broker.transaction_coordinator.recover(name.partition, now)
        elif name.topic == SHARE_GROUP_STATE_TOPIC:
            broker.share_coordinator.recover(name.partition, now)


def _chained(
    broker: BrokerState, first: DelayedOperation, then: Callable[[Message], Message | DelayedOperation]
) -> ChainedOperation:
    outer = ChainedOperation(broker, first)

    def go_on(message: Message) -> None:
        found = then(message)
        if isinstance(found, DelayedOperation):
            outer.inner = found
            broker.purgatory.park(found, outer.complete, outer.fail)
        else:
            outer.complete(found)

    broker.purgatory.park(first, go_on, outer.fail)
    return outer


def _coordinator_error(problem: errors.KafkaError) -> errors.KafkaError:
    lost = isinstance(problem, errors.NotLeaderOrFollowerError)
    return (errors.NotCoordinatorError if lost else errors.CoordinatorNotAvailableError)(str(problem))


def _refused(
    broker: BrokerState, again: Callable[[], Message | DelayedOperation | None], error: errors.KafkaError
) -> Message | None:
    """Return what the handler answers while the coordinators refuse everything, so that nothing is done.

    None where it would wait for what no coordinator gives, such as a producer id.
    """
    coordinators = broker.group_coordinator, broker.transaction_coordinator, broker.share_coordinator
    for coordinator in coordinators:
        coordinator.refuse(error)
    try:
        result = again()
        while isinstance(result, PiecewiseResponse) and result.is_next and result.step():
            pass
        if not isinstance(result, DelayedOperation):
            return result
        if result.problem is not None:
            raise result.problem
        if result.result is None:
            result.on_cancel()
        return result.result
    finally:
        for coordinator in coordinators:
            coordinator.refuse(None)


def _markers_refused(request: Message, version: int, problem: errors.KafkaError) -> Message:
    """Return that no marker was written: no coordinator stands before them, so the handler would append them again."""
    lost = isinstance(problem, errors.NotLeaderOrFollowerError)
    code = errors.NotLeaderOrFollowerError.code if lost else errors.KafkaTimeoutError.code
    response = error_response(ApiKey.WRITE_TXN_MARKERS, request, version, code)
    assert response is not None, "every partition has a place for an error"
    return response


# -- which partitions an answer rests on -----------------------------------------------------------------------------


def _names(broker: BrokerState, topic: str, ids: Iterable[str | None]) -> Names:
    known = broker.metadata.topic(topic)
    if known is not None:
        for id in ids:
            if id is not None:
                yield TopicPartition(topic, partition_for(id, known.partitions))


def _of_group(broker: BrokerState, request: _OfGroup) -> Names:
    return _names(broker, GROUP_METADATA_TOPIC, (request.group_id,))


def _of_groups(attribute: str) -> Callable[[BrokerState, Any], Names]:
    return lambda broker, request: _names(broker, GROUP_METADATA_TOPIC, getattr(request, attribute))


def _of_fetched_groups(broker: BrokerState, request: OffsetFetchRequest) -> Names:
    groups = [request.group_id, *(group.group_id for group in request.groups)]
    return _names(broker, GROUP_METADATA_TOPIC, groups)


def _of_groups_with_offsets(broker: BrokerState, request: DescribeShareGroupOffsetsRequest) -> Names:
    return _names(broker, GROUP_METADATA_TOPIC, [group.group_id for group in request.groups])


def _of_transaction(broker: BrokerState, request: _OfTransaction) -> Names:
    return _names(broker, TRANSACTION_STATE_TOPIC, (request.transactional_id,))


def _of_added_partitions(broker: BrokerState, request: AddPartitionsToTxnRequest) -> Names:
    ids = [request.v3_and_below_transactional_id, *(found.transactional_id for found in request.transactions)]
    return _names(broker, TRANSACTION_STATE_TOPIC, ids)


def _of_described_transactions(broker: BrokerState, request: DescribeTransactionsRequest) -> Names:
    return _names(broker, TRANSACTION_STATE_TOPIC, request.transactional_ids)


def _of_share_partitions(broker: BrokerState, request: StateRequest) -> Names:
    from barnabas.broker.share.coordinator.state_requests import keys_of

    return _names(broker, SHARE_GROUP_STATE_TOPIC, [key.coordinator_key for key in keys_of(request)])


def _of_markers(broker: BrokerState, request: WriteTxnMarkersRequest) -> Names:
    for marker in request.markers:
        for topic in marker.topics:
            for index in topic.partition_indexes:
                yield TopicPartition(topic.name, index)


# A row takes the request of its API, or of all that have the field; only the table does not tell them apart.
_TRANSACTIONS: dict[int, Callable[[BrokerState, Any], Names]] = {
    ApiKey.INIT_PRODUCER_ID: _of_transaction,
    ApiKey.ADD_PARTITIONS_TO_TXN: _of_added_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _of_transaction,
    ApiKey.END_TXN: _of_transaction,
    ApiKey.DESCRIBE_TRANSACTIONS: _of_described_transactions,
    ApiKey.WRITE_TXN_MARKERS: _of_markers,
}
_NAMES: dict[int, Callable[[BrokerState, Any], Names]] = {
    ApiKey.OFFSET_COMMIT: _of_group,
    ApiKey.OFFSET_FETCH: _of_fetched_groups,
    ApiKey.JOIN_GROUP: _of_group,
    ApiKey.SYNC_GROUP: _of_group,
    ApiKey.HEARTBEAT: _of_group,
    ApiKey.LEAVE_GROUP: _of_group,
    ApiKey.OFFSET_DELETE: _of_group,
    ApiKey.TXN_OFFSET_COMMIT: _of_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _of_group,
    ApiKey.DESCRIBE_GROUPS: _of_groups("groups"),
    ApiKey.DELETE_GROUPS: _of_groups("groups_names"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _of_groups("group_ids"),
    ApiKey.SHARE_GROUP_HEARTBEAT: _of_group,
    ApiKey.SHARE_GROUP_DESCRIBE: _of_groups("group_ids"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _of_groups_with_offsets,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _of_group,
    ApiKey.STREAMS_GROUP_DESCRIBE: _of_groups("group_ids"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _of_share_partitions,
    ApiKey.READ_SHARE_GROUP_STATE: _of_share_partitions,
    ApiKey.WRITE_SHARE_GROUP_STATE: _of_share_partitions,
    ApiKey.DELETE_SHARE_GROUP_STATE: _of_share_partitions,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _of_share_partitions,
    **_TRANSACTIONS,
}
#: The requests that change what a coordinator has in memory.
_CHANGES = frozenset(_NAMES) - {
    ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.WRITE_TXN_MARKERS,
}
