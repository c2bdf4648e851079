"""The operations on topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from barnabas.client.admin.admin_api_handler import K, Outcome, Scope, StaticLookup, label
from barnabas.client.admin.configs import ConfigEntry, config_text
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.errors import ThrottlingQuotaExceededError
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kafka_uuid import ZERO_UUID, to_text
from barnabas.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.thresholds import DELETE_TOPICS_BY_ID_FROM

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_partitions_response import (
        CreatePartitionsResponse,
        CreatePartitionsTopicResult,
    )
    from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
    from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse

TopicKey = str | bytes
"""A topic's name, or its id (16 bytes)."""


class CreatedTopic(NamedTuple):
    """A topic as it was created; counts are -1 and `configs` None when the broker did not tell."""

    name: str
    topic_id: bytes | None
    num_partitions: int
    replication_factor: int
    configs: dict[str, ConfigEntry] | None

    def __repr__(self) -> str:
        return (
            f"CreatedTopic(name={self.name!r}, topic_id={_shown(self.topic_id)}, "
            f"num_partitions={self.num_partitions}, replication_factor={self.replication_factor}, "
            f"configs=<{len(self.configs or ())} settings>)"
        )


class TopicListing(NamedTuple):
    """A topic in a list."""

    name: str
    topic_id: bytes | None
    is_internal: bool

    def __repr__(self) -> str:
        return f"TopicListing(name={self.name!r}, topic_id={_shown(self.topic_id)}, is_internal={self.is_internal})"


_Response: TypeAlias = "CreateTopicsResponse | DeleteTopicsResponse | CreatePartitionsResponse"
_Result: TypeAlias = "CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult"


class ControllerMutationQuota:
    """What is done about the quota `controller_mutation_rate` (KIP-599): waited for, or told at once."""

    def __init__(self, retries: bool) -> None:
        self._retries = retries

    def is_success(
        self,
        outcome: Outcome[K, Any],
        key: K,
        result: _Result,
        response: _Response,
    ) -> bool:
        """As `Outcome.is_success`; the error says how long the controller asks to wait."""
        if result.error_code != ThrottlingQuotaExceededError.code:
            return outcome.is_success(key, result.error_code, result.error_message)
        error = ThrottlingQuotaExceededError(
            f"{label(key)}: {result.error_message or 'the quota controller_mutation_rate is exceeded'}; "
            f"the controller asks to wait {response.throttle_time_ms} ms"
        )
        error.throttle_time_ms = response.throttle_time_ms
        if self._retries:
            outcome.retry(key, error)
        else:
            outcome.fail(key, error)
        return False


class CreateTopicsHandler:
    """CreateTopics, at the controller."""

    name = "create_topics"

    def __init__(self, topics: Mapping[str, NewTopic], quota: ControllerMutationQuota, *, validate_only: bool) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.CONTROLLER)
        self._quota = quota
        self._topics = topics
        self._validate_only = validate_only

    def build_request(self, keys: list[str], timeout_ms: int) -> CreateTopicsRequest:
        """See `AdminApiHandler`."""
        return CreateTopicsRequest(
            topics=[_creatable(self._topics[key]) for key in keys],
            timeout_ms=timeout_ms,
            validate_only=self._validate_only,
        )

    def handle_response(
        self, keys: list[str], response: CreateTopicsResponse, outcome: Outcome[str, CreatedTopic]
    ) -> None:
        """See `AdminApiHandler`."""
        for topic in response.topics:
            if not self._quota.is_success(outcome, topic.name, topic, response):
                continue
            configs = None
            if topic.configs is not None and not topic.topic_config_error_code:
                configs = {entry.name: ConfigEntry.from_created(entry) for entry in topic.configs}
            outcome.complete(
                topic.name,
                CreatedTopic(
                    topic.name, id_or_none(topic.topic_id), topic.num_partitions, topic.replication_factor, configs
                ),
            )


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = topic.replica_assignments or {}
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=config_text(value)) for name, value in topic.configs.items()],
    )


class DeleteTopicsHandler:
    """DeleteTopics, at the controller, by names or ids."""

    name = "delete_topics"

    def __init__(self, quota: ControllerMutationQuota) -> None:
        self.lookup: StaticLookup[TopicKey] = StaticLookup(Scope.CONTROLLER)
        self._quota = quota

    def build_request(self, keys: list[TopicKey], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""

        def build(version: int) -> DeleteTopicsRequest:
            if version < DELETE_TOPICS_BY_ID_FROM:
                return DeleteTopicsRequest(
                    topic_names=[key for key in keys if isinstance(key, str)], timeout_ms=timeout_ms
                )
            states = [
                DeleteTopicState(name=key) if isinstance(key, str) else DeleteTopicState(topic_id=key) for key in keys
            ]
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

        low, high = stable_versions(ApiKey.DELETE_TOPICS)
        has_ids = any(not isinstance(key, str) for key in keys)
        return RequestBuilder(ApiKey.DELETE_TOPICS, build, DELETE_TOPICS_BY_ID_FROM if has_ids else low, high)

    def handle_response(
        self, keys: list[TopicKey], response: DeleteTopicsResponse, outcome: Outcome[TopicKey, None]
    ) -> None:
        """See `AdminApiHandler`."""
        asked = set(keys)
        for topic in response.responses:
            key: TopicKey = topic.topic_id if topic.topic_id in asked else topic.name or ""
            if self._quota.is_success(outcome, key, topic, response):
                outcome.complete(key, None)


class CreatePartitionsHandler:
    """CreatePartitions, at the controller."""

    name = "create_partitions"

    def __init__(
        self, increases: Mapping[str, NewPartitions], quota: ControllerMutationQuota, *, validate_only: bool
    ) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.CONTROLLER)
        self._quota = quota
        self._increases = increases
        self._validate_only = validate_only

    def build_request(self, keys: list[str], timeout_ms: int) -> CreatePartitionsRequest:
        """See `AdminApiHandler`."""
        return CreatePartitionsRequest(
            topics=[self._topic(key) for key in keys], timeout_ms=timeout_ms, validate_only=self._validate_only
        )

    def _topic(self, name: str) -> CreatePartitionsTopic:
        increase = self._increases[name]
        assignments = increase.new_assignments
        return CreatePartitionsTopic(
            name=name,
            count=increase.total_count,
            assignments=(
                None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
            ),
        )

    def handle_response(self, keys: list[str], response: CreatePartitionsResponse, outcome: Outcome[str, None]) -> None:
        """See `AdminApiHandler`."""
        for topic in response.results:
            if self._quota.is_success(outcome, topic.name, topic, response):
                outcome.complete(topic.name, None)


class ListTopicsHandler:
    """Metadata of all topics, from any broker; its only key is "topics"."""

    name = "list_topics"

    def __init__(self, *, include_internal: bool) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.ANY)
        self._include_internal = include_internal

    def build_request(self, keys: list[str], timeout_ms: int) -> MetadataRequest:
        """See `AdminApiHandler`."""
        return MetadataRequest(topics=None, allow_auto_topic_creation=False)

    def handle_response(
        self, keys: list[str], response: MetadataResponse, outcome: Outcome[str, dict[str, TopicListing]]
    ) -> None:
        """See `AdminApiHandler`."""
        found = {
            topic.name: TopicListing(topic.name, id_or_none(topic.topic_id), topic.is_internal)
            for topic in response.topics
            if topic.name is not None and (self._include_internal or not topic.is_internal)
        }
        outcome.complete(keys[0], dict(sorted(found.items())))


def id_or_none(topic_id: bytes) -> bytes | None:
    """Return a topic's id; None when a broker too old to have ids left it out."""
    return None if topic_id == ZERO_UUID else topic_id


def _shown(topic_id: bytes | None) -> str:
    return "None" if topic_id is None else to_text(topic_id)
