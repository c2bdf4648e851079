"""DescribeLogDirs: the data directory, the room on its disk, and what every partition takes (KIP-113, KIP-827).

Versions 1-5. v2 flexible. v3 a top-level error (KIP-784). v4 room on the disk (KIP-827). v5 whether a directory is
cordoned (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas import errors
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
    from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

API = 35
VERSIONS = (1, 5)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.CLUSTER


def handle(broker: BrokerState, context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """All partitions, or those asked for as far as there are any.

    The directory has KAFKA_STORAGE_ERROR while any of its partitions cannot be served because of the disk.
    """
    asked: Iterable[tuple[str, Iterable[int]]]
    if request.topics is None:
        asked = [(topic.name, range(topic.partitions)) for topic in broker.metadata.topics()]
    else:
        asked = [(topic.topic, topic.partitions) for topic in request.topics]
    topics = [_describe(broker, name, partitions) for name, partitions in asked]
    total, usable = broker.replica_manager.disk_space()
    result = DescribeLogDirsResult(
        error_code=errors.KafkaStorageError.code if broker.replica_manager.offline_count else errors.NONE,
        log_dir=broker.replica_manager.log_directory,
        topics=[topic for topic in topics if topic.partitions],
        total_bytes=total,
        usable_bytes=usable,
    )
    return DescribeLogDirsResponse(results=[result])


def _describe(broker: BrokerState, name: str, partitions: Iterable[int]) -> DescribeLogDirsTopic:
    topic = broker.metadata.topic(name)
    there = range(topic.partitions) if topic is not None else range(0)
    found = [
        DescribeLogDirsPartition(partition_index=index, partition_size=broker.replica_manager.size(name, index))
        for index in partitions
        if index in there
    ]
    return DescribeLogDirsTopic(name=name, partitions=found)
