"""DeleteRecords: moves the start of partitions up; what lies before it cannot be read any more (KIP-107).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.delayed_delete_records import DelayedDeleteRecords, DeletedRecords
from barnabas.broker.log_opening import when_open
from barnabas.broker.piecewise import (
    PIECE,
    ArrayField,
    Pieces,
    PiecewiseResponse,
    in_pieces,
    outcome_of,
    parts_of,
    pieces_of,
)
from barnabas.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_records_request import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
        DeleteRecordsTopic,
    )

API = 21
VERSIONS = (0, 2)

_NO_LOW_WATERMARK = -1


#: What a partition is worth, in partitions of a Metadata response; how many are worked on, and answered, at once.
_WEIGHT = 50
_PARTITIONS_AT_ONCE = PIECE // _WEIGHT


def handle(broker: BrokerState, context: RequestContext, request: DeleteRecordsRequest) -> Message | PiecewiseResponse:
    """Each partition has its own result: where all its replicas start, once they have moved or the time is over."""
    asked = [(topic.name, partition) for topic in request.topics for partition in topic.partitions]
    deadline = context.now + max(request.timeout_ms, 0) / 1000

    def pieces() -> Pieces:
        found: dict[int, DeletedRecords | errors.KafkaError] = {}
        for piece in in_pieces(asked, _PARTITIONS_AT_ONCE):
            if found:
                yield None
            for topic, partition in piece:
                found[id(partition)] = _delete(broker, topic, partition)
        waiting = [one for one in found.values() if isinstance(one, DeletedRecords) and not one.is_settled()]
        if waiting:
            operation = DelayedDeleteRecords(waiting, deadline)
            try:
                yield from outcome_of(partial(broker.purgatory.park, operation))
            finally:
                # The client may have gone meanwhile.
                broker.purgatory.cancel(operation)
        return (yield from _answer(context, request, found))

    names = ((topic, partition.partition_index) for topic, partition in asked)
    return when_open(broker, names, lambda: broker.large_responses.answer(pieces()))


def _answer(
    context: RequestContext,
    request: DeleteRecordsRequest,
    found: Mapping[int, DeletedRecords | errors.KafkaError],
) -> Pieces:
    def make(part: tuple[DeleteRecordsTopic, list[DeleteRecordsPartition]]) -> tuple[DeleteRecordsTopicResult, int]:
        topic, partitions = part
        results = [_result(asked.partition_index, found[id(asked)]) for asked in partitions]
        return DeleteRecordsTopicResult(name=topic.name, partitions=results), 1 + len(results)

    return pieces_of(
        ArrayField(DeleteRecordsResponse, "topics", context.api_version),
        parts_of(request.topics, PIECE),
        make,
        lambda topics: DeleteRecordsResponse(topics=topics),
    )


def _delete(broker: BrokerState, topic: str, asked: DeleteRecordsPartition) -> DeletedRecords | errors.KafkaError:
    try:
        partition = broker.replica_manager.partition(topic, asked.partition_index)
        start = broker.replica_manager.delete_records(partition, asked.offset)
    except errors.KafkaError as problem:
        return problem
    return DeletedRecords(partition, start)


def _result(index: int, found: DeletedRecords | errors.KafkaError) -> DeleteRecordsPartitionResult:
    if isinstance(found, DeletedRecords):
        low_watermark = found.low_watermark
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=low_watermark, error_code=found.error_code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK, error_code=found.code)
