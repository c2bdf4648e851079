"""DescribeLogDirs: the data directories, the room on their disks, and what every partition takes (KIP-113, KIP-827).

Versions 1-5. v2 flexible. v3 a top-level error (KIP-784). v4 room on the disk (KIP-827). v5 whether a directory is
cordoned (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import PIECE, ArrayField, PiecewiseResponse, answer_in_pieces, in_pieces
from barnabas.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.log.log_manager import DirectoryState, LogManager
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

API = 35
VERSIONS = (1, 5)


#: Looking up how large a partition is, in partitions of a Metadata response.
_WEIGHT = 5


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeLogDirsRequest
) -> Message | PiecewiseResponse:
    """All partitions, or those asked for as far as there are any; each once.

    A directory has KAFKA_STORAGE_ERROR while any of its partitions cannot be served because of the disk.
    """
    asked: dict[str, Iterable[int]] = {}
    if request.topics is None:
        asked = {topic.name: range(topic.partitions) for topic in broker.metadata.topics()}
    else:
        for topic in request.topics:
            asked[topic.topic] = dict.fromkeys((*asked.get(topic.topic, ()), *topic.partitions))
    directories = broker.replica_manager.directories
    if len(directories) > 1:
        return answer_in_pieces(
            broker.large_responses,
            ArrayField(DescribeLogDirsResponse, "results", context.api_version),
            directories,
            lambda directory: _describe_directory(broker, directory, asked),
            lambda results: DescribeLogDirsResponse(results=results),
        )
    only = directories[0]
    error_code = errors.KafkaStorageError.code if broker.replica_manager.offline_count else errors.NONE

    def finish(topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResponse:
        return DescribeLogDirsResponse(results=[_result(only, error_code, topics)])

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeLogDirsResponse, "results.topics", context.api_version),
        _parts(broker, asked),
        lambda part: (_describe(broker, *part), 1 + _WEIGHT * len(part[1])),
        finish,
    )


def _result(directory: DirectoryState, error_code: int, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    log_directory = directory.manager.log_directory
    total, usable = (-1, -1) if directory.problem is not None else log_directory.disk_space()
    return DescribeLogDirsResult(
        error_code=error_code,
        log_dir=log_directory.absolute,
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
    )


def _describe_directory(
    broker: BrokerState, directory: DirectoryState, asked: Mapping[str, Iterable[int]]
) -> tuple[DescribeLogDirsResult, int]:
    """Return one of several directories with the partitions that lie there; one out of service tells of none."""
    manager = directory.manager
    if directory.problem is not None:
        return _result(directory, errors.KafkaStorageError.code, []), 1
    topics, weight = [], 1
    for name, partitions in asked.items():
        held = [index for index in partitions if manager.holds(TopicPartition(name, index))]
        if held and broker.metadata.topic(name) is not None:
            topics.append(_describe(broker, name, held))
            weight += 1 + _WEIGHT * len(held)
    topics += _futures(broker, manager, asked)
    return _result(directory, errors.KafkaStorageError.code if manager.offline else errors.NONE, topics), weight


def _futures(
    broker: BrokerState, manager: LogManager, asked: Mapping[str, Iterable[int]]
) -> Iterator[DescribeLogDirsTopic]:
    """Give the copies on their way to a directory, and how far behind they are."""
    for name, partitions in asked.items():
        found = []
        for index in partitions:
            future = broker.replica_manager.future_log(TopicPartition(name, index))
            if future is not None and future.target is manager:
                size, lag = future.log.size, future.lag
                found.append(DescribeLogDirsPartition(index, partition_size=size, offset_lag=lag, is_future_key=True))
        if found:
            yield DescribeLogDirsTopic(name=name, partitions=found)


def _parts(broker: BrokerState, asked: Mapping[str, Iterable[int]]) -> Iterator[tuple[str, list[int]]]:
    """Topics with their partitions; one with many partitions comes in several parts."""
    for name, partitions in asked.items():
        topic = broker.metadata.topic(name)
        there = range(topic.partitions) if topic is not None else range(0)
        lies_here = broker.replica_manager.lies_here
        for part in in_pieces((index for index in partitions if index in there and lies_here(name, index)), PIECE):
            yield name, part


def _describe(broker: BrokerState, name: str, partitions: list[int]) -> DescribeLogDirsTopic:
    return DescribeLogDirsTopic(
        name=name,
        partitions=[
            DescribeLogDirsPartition(partition_index=index, partition_size=broker.replica_manager.size(name, index))
            for index in partitions
        ],
    )
