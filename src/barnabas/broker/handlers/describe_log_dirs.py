"""DescribeLogDirs: the data directory, the room on its disk, and what every partition takes (KIP-113, KIP-827).

Versions 1-5. v2 flexible. v3 a top-level error (KIP-784). v4 room on the disk (KIP-827). v5 whether a directory is
cordoned (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.broker.piecewise import PIECE, ArrayField, PiecewiseResponse, answer_in_pieces, in_pieces
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

API = 35
VERSIONS = (1, 5)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.CLUSTER


#: Looking up how large a partition is, in partitions of a Metadata response.
_WEIGHT = 5


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeLogDirsRequest
) -> Message | PiecewiseResponse:
    """All partitions, or those asked for as far as there are any; each once.

    The directory has KAFKA_STORAGE_ERROR while any of its partitions cannot be served because of the disk.
    """
    asked: dict[str, Iterable[int]] = {}
    if request.topics is None:
        asked = {topic.name: range(topic.partitions) for topic in broker.metadata.topics()}
    else:
        for topic in request.topics:
            asked[topic.topic] = dict.fromkeys((*asked.get(topic.topic, ()), *topic.partitions))
    total, usable = broker.replica_manager.disk_space()

    def finish(topics: Any) -> DescribeLogDirsResponse:
        result = DescribeLogDirsResult(
            error_code=errors.KafkaStorageError.code if broker.replica_manager.offline_count else errors.NONE,
            log_dir=broker.replica_manager.log_directory,
            topics=topics,
            total_bytes=total,
            usable_bytes=usable,
        )
        return DescribeLogDirsResponse(results=[result])

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeLogDirsResponse, "results.topics", context.api_version),
        _parts(broker, asked),
        lambda part: (_describe(broker, *part), 1 + _WEIGHT * len(part[1])),
        finish,
    )


def _parts(broker: BrokerState, asked: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, list[int]]]:
    """Topics with their partitions; one with many partitions comes in several parts."""
    for name, partitions in asked.items():
        topic = broker.metadata.topic(name)
        there = range(topic.partitions) if topic is not None else range(0)
        for part in in_pieces((index for index in partitions if index in there), PIECE):
            yield name, part


def _describe(broker: BrokerState, name: str, partitions: list[int]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=broker.replica_manager.size(name, index))
            for index in partitions
        ],
    )
