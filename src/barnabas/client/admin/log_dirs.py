"""The directories in which brokers keep logs (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import StaticLookup
from barnabas.client.admin.partition_offsets import by_topic
from barnabas.client.admin.requests import Answer, KeyedRequest, from_each_broker, partitions_of
from barnabas.errors import KafkaError, for_code
from barnabas.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
    from barnabas.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse, DescribeLogDirsResult


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"


class ReplicaInfo(NamedTuple):
    """A log in a directory: bytes, how far it is behind (offsets), and whether it is to replace the current one."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A directory. `error` says what is wrong with it; sizes are of its volume, in bytes, -1 when not known."""

    error: KafkaError | None
    replica_infos: dict[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class ReplicaLogDirInfo(NamedTuple):
    """Where a replica is, and where it is moving to; None and -1 where there is nothing to tell."""

    current_log_dir: str | None = None
    current_offset_lag: int = -1
    future_log_dir: str | None = None
    future_offset_lag: int = -1


def describe_log_dirs(partitions: Collection[TopicPartition] | None) -> KeyedRequest[int, dict[str, LogDirDescription]]:
    """DescribeLogDirs, at each broker; None is every partition."""
    topics = None
    if partitions is not None:
        topics = [
            DescribableLogDirTopic(topic=topic, partitions=[key.partition for key in keys])
            for topic, keys in by_topic(partitions)
        ]

    def read(broker_id: int, response: DescribeLogDirsResponse) -> dict[str, LogDirDescription]:
        return {result.log_dir: _directory(result) for result in response.results}

    return from_each_broker("describe_log_dirs", lambda: DescribeLogDirsRequest(topics=topics), read)


def _directory(result: DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        key: ReplicaInfo(found.partition_size, found.offset_lag, found.is_future_key)
        for key, found in partitions_of(result.topics)
    }
    error = for_code(result.error_code) if result.error_code else None
    return LogDirDescription(error, replicas, result.total_bytes, result.usable_bytes, result.is_cordoned)


def where_replicas_are(
    replicas: Iterable[TopicPartitionReplica], described: Mapping[int, Mapping[str, LogDirDescription]]
) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
    """Return what the descriptions of brokers' directories say of replicas."""
    found = {}
    for replica in replicas:
        place = ReplicaLogDirInfo()
        for path, directory in described.get(replica.broker_id, {}).items():
            info = directory.replica_infos.get(TopicPartition(replica.topic, replica.partition))
            if info is not None and info.is_future:
                place = place._replace(future_log_dir=path, future_offset_lag=info.offset_lag)
            elif info is not None:
                place = place._replace(current_log_dir=path, current_offset_lag=info.offset_lag)
        found[replica] = place
    return found


def alter_replica_log_dirs(targets: Mapping[TopicPartitionReplica, str]) -> KeyedRequest[TopicPartitionReplica, None]:
    """AlterReplicaLogDirs, at each replica's broker."""

    def build(keys: list[TopicPartitionReplica], timeout_ms: int) -> AlterReplicaLogDirsRequest:
        by_path: dict[str, dict[str, list[int]]] = {}
        for key in keys:
            by_path.setdefault(targets[key], {}).setdefault(key.topic, []).append(key.partition)
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[AlterReplicaLogDirTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
                )
                for path, topics in by_path.items()
            ]
        )

    def answers(
        keys: list[TopicPartitionReplica], response: AlterReplicaLogDirsResponse
    ) -> Iterable[Answer[TopicPartitionReplica, None]]:
        codes = {
            (topic.topic_name, partition.partition_index): partition.error_code
            for topic in response.results
            for partition in topic.partitions
        }
        for key in keys:
            code = codes.get((key.topic, key.partition))
            if code is not None:
                yield key, code, None, None

    lookup: StaticLookup[TopicPartitionReplica] = StaticLookup(lambda key: key.broker_id)
    return KeyedRequest("alter_replica_log_dirs", lookup, build, answers)
