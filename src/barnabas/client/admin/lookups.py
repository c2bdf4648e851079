"""Looks up partition leaders and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.admin.admin_api_handler import Outcome, Target
from barnabas.errors import (
    CoordinatorNotAvailableError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from barnabas.network.client_request import RequestBuilder
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.thresholds import FIND_COORDINATOR_KEYS_FROM
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse

# A broker may not have heard of a new topic yet.
_PASSING = (UnknownTopicOrPartitionError.code,)


class PartitionLeaderStrategy:
    """The leader of each partition, from the metadata of its topic."""

    def static_target(self, key: TopicPartition) -> Target | None:
        """See `Lookup`."""
        return None

    def build_request(self, keys: list[TopicPartition]) -> MetadataRequest:
        """See `Lookup`."""
        topics = dict.fromkeys(key.topic for key in keys)
        return MetadataRequest(
            topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
        )

    def handle_response(
        self, keys: list[TopicPartition], response: MetadataResponse, found: Outcome[TopicPartition, Target]
    ) -> None:
        """See `Lookup`."""
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics = {topic.name: topic for topic in response.topics}
        for key in keys:
            topic = topics.get(key.topic)
            if topic is None or not found.is_success(key, topic.error_code, also_passing=_PASSING):
                continue
            partition = next((p for p in topic.partitions if p.partition_index == key.partition), None)
            if partition is None:
                found.retry(key, UnknownTopicOrPartitionError(f"topic {key.topic!r} has no partition {key.partition}"))
            elif partition.leader_id in nodes:
                found.complete(key, nodes[partition.leader_id])
            else:
                found.retry(key, LeaderNotAvailableError(f"partition {key} has no leader now"))


class CoordinatorStrategy:
    """The broker that coordinates each group, or each transactional id."""

    def __init__(self, key_type: CoordinatorType = CoordinatorType.GROUP) -> None:
        self._key_type = key_type

    def static_target(self, key: str) -> Target | None:
        """See `Lookup`."""
        return None

    def build_request(self, keys: list[str]) -> RequestBuilder:
        """See `Lookup`; a broker before 3.0 takes one key a request, which the driver then does (KIP-699)."""

        def build(version: int) -> FindCoordinatorRequest:
            if version >= FIND_COORDINATOR_KEYS_FROM:
                return FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=keys)
            if len(keys) > 1:
                raise UnsupportedVersionError("this broker looks up one coordinator at a time")
            return FindCoordinatorRequest(key_type=self._key_type, key=keys[0])

        return RequestBuilder(ApiKey.FIND_COORDINATOR, build, *stable_versions(ApiKey.FIND_COORDINATOR))

    def handle_response(self, keys: list[str], response: FindCoordinatorResponse, found: Outcome[str, Target]) -> None:
        """See `Lookup`."""
        answers: dict[str, Coordinator | FindCoordinatorResponse] = {c.key: c for c in response.coordinators}
        if response.host or response.error_code:
            # The answer of a broker before 3.0, to a request with one key.
            answers[keys[0]] = response
        for key in keys:
            answer = answers.get(key)
            if answer is None:
                found.retry(key, CoordinatorNotAvailableError(f"the broker did not say who coordinates {key!r}"))
            elif found.is_success(key, answer.error_code, answer.error_message):
                found.complete(key, Node(answer.node_id, answer.host, answer.port))
