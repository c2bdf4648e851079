"""What the requests to the share coordinator have in common: each share-partition is served by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from barnabas import errors
from barnabas.broker.log_opening import when_open
from barnabas.broker.metadata.cluster_metadata import SHARE_GROUP_STATE_TOPIC
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.protocol.coordinator_partition import partition_for

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from barnabas.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
    from barnabas.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from barnabas.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
    from barnabas.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
    from barnabas.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
    from barnabas.protocol.messages.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
    from barnabas.protocol.messages.read_share_group_state_summary_response import ReadShareGroupStateSummaryResponse
    from barnabas.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
    from barnabas.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse

#: So many are served before others are.
_AT_ONCE = 20

#: The requests about the state of share-partitions, and their responses.
StateRequest: TypeAlias = (
    "InitializeShareGroupStateRequest | ReadShareGroupStateRequest | WriteShareGroupStateRequest"
    " | DeleteShareGroupStateRequest | ReadShareGroupStateSummaryRequest"
)
StateResponse: TypeAlias = (
    "InitializeShareGroupStateResponse | ReadShareGroupStateResponse | WriteShareGroupStateResponse"
    " | DeleteShareGroupStateResponse | ReadShareGroupStateSummaryResponse"
)

#: Serves one share-partition of a request, and fills in its result. Raises KafkaError.
Serve = Callable[[SharePartitionKey, Any, Any], None]


def keys_of(request: StateRequest) -> list[SharePartitionKey]:
    """Return the share-partitions that a request names."""
    return [
        SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    ]


def answer_each(
    broker: BrokerState, request: StateRequest, response: StateResponse, serve: Serve
) -> Message | PiecewiseResponse:
    """Fill in the results of a response, a piece at a time; without a group, or without partitions, there are none."""
    from barnabas.protocol.plan import plan_of

    answered: Message = response
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return answered
    results = next(field for field in plan_of(type(answered), 0).present if field.name == "results").plan
    assert results is not None, "results are structs"
    partitions = next(field for field in results.present if field.name == "partitions").plan
    assert partitions is not None, "partitions are structs"

    def pieces() -> Pieces:
        count = 0
        for topic in request.topics:
            result = results.cls(topic_id=topic.topic_id)
            for asked in topic.partitions:
                count += 1
                if count % _AT_ONCE == 0:
                    yield None
                made = partitions.cls(partition=asked.partition)
                try:
                    serve(SharePartitionKey(request.group_id, topic.topic_id, asked.partition), asked, made)
                except errors.KafkaError as problem:
                    made.error_code, made.error_message = problem.code, str(problem)
                result.partitions.append(made)
            response.results.append(result)
        return answered

    return when_open(broker, _logs_of(broker, request), lambda: broker.large_responses.answer(pieces()))


def _logs_of(broker: BrokerState, request: StateRequest) -> list[tuple[str | bytes, int]]:
    known = broker.metadata.topic(SHARE_GROUP_STATE_TOPIC)
    if known is None:
        return []
    numbers = {partition_for(key.coordinator_key, known.partitions) for key in keys_of(request)}
    return [(SHARE_GROUP_STATE_TOPIC, number) for number in sorted(numbers)]
