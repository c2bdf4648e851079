"""AlterReplicaLogDirs: brings the logs of partitions to other data directories of this broker (KIP-113).

Versions 1-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces, in_pieces
from barnabas.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest

API = 34
VERSIONS = (1, 2)

#: Beginning a copy makes some files: so many of them, in partitions of a Metadata response, and so many at once.
_WEIGHT = 100
_PARTITIONS_AT_ONCE = 5


def handle(
    broker: BrokerState, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Message | PiecewiseResponse:
    """Answer when the copies have begun; DescribeLogDirs tells how far they are."""

    def make(part: tuple[str, str, list[int]]) -> tuple[AlterReplicaLogDirTopicResult, int]:
        path, topic, partitions = part
        results = [
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=_move(broker, path, topic, index))
            for index in partitions
        ]
        return AlterReplicaLogDirTopicResult(topic_name=topic, partitions=results), 1 + _WEIGHT * len(results)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(AlterReplicaLogDirsResponse, "results", context.api_version),
        _parts(request),
        make,
        lambda results: AlterReplicaLogDirsResponse(results=results),
    )


def _parts(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[str, str, list[int]]]:
    for directory in request.dirs:
        for topic in directory.topics:
            for part in in_pieces(topic.partitions, _PARTITIONS_AT_ONCE):
                yield directory.path, topic.name, part


def _move(broker: BrokerState, path: str, topic: str, index: int) -> int:
    known = broker.metadata.topic(topic)
    if known is None or not 0 <= index < known.partitions:
        return errors.UnknownTopicOrPartitionError.code
    try:
        broker.replica_manager.move_log(TopicPartition(topic, index), path)
    except errors.NotLeaderOrFollowerError:
        # Its log is being recovered.
        return errors.ReplicaNotAvailableError.code
    except errors.KafkaError as problem:
        return problem.code
    return errors.NONE
