"""The replicas of partitions: moving them to other brokers (KIP-455), and electing their leaders (KIP-460)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.admin_api_handler import Scope, StaticLookup
from barnabas.client.admin.partition_offsets import by_topic
from barnabas.client.admin.requests import Answer, KeyedRequest, RequestInParts, one_request, partitions_of
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import ElectionType
from barnabas.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
    from barnabas.protocol.messages.elect_leaders_response import ElectLeadersResponse
    from barnabas.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse

_FIRST_WITH_REPLICATION_FACTOR = 1


class PartitionReassignment(NamedTuple):
    """A move in progress: all brokers involved, those that come and those that go."""

    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


def elect_leaders(
    election: ElectionType, partitions: Collection[TopicPartition] | None
) -> RequestInParts[TopicPartition]:
    """ElectLeaders, at the controller; None is every partition."""

    def build(_: str, timeout_ms: int) -> ElectLeadersRequest:
        topics = None
        if partitions is not None:
            topics = [
                TopicPartitions(topic=topic, partitions=[key.partition for key in keys])
                for topic, keys in by_topic(partitions)
            ]
        return ElectLeadersRequest(election_type=election, topic_partitions=topics, timeout_ms=timeout_ms)

    def parts(response: ElectLeadersResponse) -> Iterable[tuple[TopicPartition, int, str | None]]:
        for topic in response.replica_election_results:
            for result in topic.partition_result:
                yield TopicPartition(topic.topic, result.partition_id), result.error_code, result.error_message

    return RequestInParts("elect_leaders", StaticLookup(Scope.CONTROLLER), build, parts)


def alter_reassignments(
    targets: Mapping[TopicPartition, Collection[int] | None], *, allow_replication_factor_change: bool
) -> KeyedRequest[TopicPartition, None]:
    """AlterPartitionReassignments, at the controller; None cancels a move."""

    def build(keys: list[TopicPartition], timeout_ms: int) -> RequestBuilder:
        message = AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            allow_replication_factor_change=allow_replication_factor_change,
            topics=[
                ReassignableTopic(name=topic, partitions=[_target(key, targets[key]) for key in partitions])
                for topic, partitions in by_topic(keys)
            ],
        )
        low, high = stable_versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
        low = low if allow_replication_factor_change else _FIRST_WITH_REPLICATION_FACTOR
        return RequestBuilder(ApiKey.ALTER_PARTITION_REASSIGNMENTS, lambda _: message, low, high)

    def answers(
        keys: list[TopicPartition], response: AlterPartitionReassignmentsResponse
    ) -> Iterable[Answer[TopicPartition, None]]:
        for key, partition in partitions_of(response.responses):
            yield key, partition.error_code, partition.error_message, None

    return KeyedRequest("alter_partition_reassignments", StaticLookup(Scope.CONTROLLER), build, answers)


def _target(key: TopicPartition, replicas: Collection[int] | None) -> ReassignablePartition:
    return ReassignablePartition(partition_index=key.partition, replicas=None if replicas is None else list(replicas))


def list_reassignments(
    partitions: Collection[TopicPartition] | None,
) -> KeyedRequest[str, dict[TopicPartition, PartitionReassignment]]:
    """ListPartitionReassignments, at the controller; None is every partition."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=[key.partition for key in keys])
            for topic, keys in by_topic(partitions)
        ]

    def read(response: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
        return {
            key: PartitionReassignment(found.replicas, found.adding_replicas, found.removing_replicas)
            for key, found in partitions_of(response.topics)
        }

    return one_request(
        "list_partition_reassignments",
        lambda timeout_ms: ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics),
        read,
        Scope.CONTROLLER,
    )
