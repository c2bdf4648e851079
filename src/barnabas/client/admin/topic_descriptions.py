"""Topics described: by KIP-966's request, page by page, and by Metadata, which knows ids and older brokers know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.acls import authorized_operations
from barnabas.client.admin.admin_api_handler import Outcome, Scope, StaticLookup, label
from barnabas.client.admin.requests import KeyedRequest, one_request
from barnabas.client.admin.results import Results
from barnabas.client.admin.topics import TopicKey, id_or_none
from barnabas.errors import (
    KafkaError,
    ProtocolError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
    for_code,
)
from barnabas.network.client_request import RequestBuilder
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import AclOperation
from barnabas.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.thresholds import METADATA_BY_ID_FROM

if TYPE_CHECKING:
    from barnabas.protocol.messages.describe_topic_partitions_response import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic,
    )
    from barnabas.protocol.messages.metadata_response import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

_FIRST_METADATA_WITH_OPERATIONS = 8


class TopicPartitionInfo(NamedTuple):
    """A partition of a described topic; brokers that are not alive have an empty host.

    `elr` has the eligible leader replicas, which have all records though they are not in sync, and `last_known_elr`
    those that were it before they failed (KIP-966); None where the broker does not tell, or was asked by topic id.
    """

    partition: int
    leader: Node | None
    replicas: list[Node]
    in_sync_replicas: list[Node]
    leader_epoch: int
    elr: list[Node] | None = None
    last_known_elr: list[Node] | None = None


class TopicDescription(NamedTuple):
    """A topic and its partitions, by number; `authorized_operations` is what the caller may do, if that was asked."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: list[TopicPartitionInfo]
    authorized_operations: frozenset[AclOperation] | None = None


class DescribeTopicsHandler:
    """Metadata of some topics, from any broker, by names or ids."""

    name = "describe_topics"

    def __init__(self, *, include_authorized_operations: bool) -> None:
        self.lookup: StaticLookup[TopicKey] = StaticLookup(Scope.ANY)
        self._include_authorized_operations = include_authorized_operations

    def build_request(self, keys: list[TopicKey], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        topics = [
            MetadataRequestTopic(name=key) if isinstance(key, str) else MetadataRequestTopic(topic_id=key, name=None)
            for key in keys
        ]
        message = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=self._include_authorized_operations,
        )
        low, high = stable_versions(ApiKey.METADATA)
        if self._include_authorized_operations:
            low = max(low, _FIRST_METADATA_WITH_OPERATIONS)
        if any(not isinstance(key, str) for key in keys):
            low = max(low, METADATA_BY_ID_FROM)
        return RequestBuilder(ApiKey.METADATA, lambda _: message, low, high)

    def handle_response(
        self, keys: list[TopicKey], response: MetadataResponse, outcome: Outcome[TopicKey, TopicDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        nodes = {b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
        topics: dict[TopicKey, MetadataResponseTopic] = {topic.topic_id: topic for topic in response.topics}
        topics.update((topic.name, topic) for topic in response.topics if topic.name is not None)
        for key in keys:
            topic = topics.get(key)
            if topic is None:
                outcome.fail(key, _unknown(key))
            elif topic.error_code == TopicAuthorizationError.code:
                outcome.fail(key, TopicAuthorizationError(f"{label(key)}: not authorized to describe this topic"))
            elif outcome.is_success(key, topic.error_code):
                outcome.complete(key, _description(topic, nodes, self._include_authorized_operations))


def describe_topic_partitions(
    names: Iterable[str], partition_limit: int, cursor: tuple[str, int] | None
) -> KeyedRequest[str, DescribeTopicPartitionsResponse]:
    """DescribeTopicPartitions, at any broker: the response, a page of topics with at most so many partitions in all."""
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=partition_limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return one_request("describe_topics", lambda timeout_ms: request, lambda response: response)


class TopicPages:
    """Puts the pages of DescribeTopicPartitions together; `left` is still to be asked for, from `cursor` on."""

    def __init__(self, names: Iterable[str], nodes: Iterable[Node], *, include_authorized_operations: bool) -> None:
        self._names = self.left = sorted(names)
        self.cursor: tuple[str, int] | None = None
        self._nodes = {node.id: node for node in nodes}
        self._include_authorized_operations = include_authorized_operations
        self._found: dict[TopicKey, TopicDescription] = {}
        self._errors: dict[TopicKey, KafkaError] = {}

    def add(self, page: DescribeTopicPartitionsResponse) -> None:
        """Take in the next page.

        Raises `ProtocolError` when it leads back to where it began, or before that.

        """
        for topic in page.topics:
            name = topic.name or ""
            if topic.error_code:
                self._errors[name] = for_code(topic.error_code, f"{name}: {for_code(topic.error_code)}")
                continue
            found = _description(topic, self._nodes, self._include_authorized_operations)
            if name in self._found:
                self._found[name].partitions.extend(found.partitions)
            else:
                self._found[name] = found
        end = page.next_cursor
        cursor = None if end is None else (end.topic_name, end.partition_index)
        if cursor is not None and cursor <= (self.cursor or ("", -1)):
            raise ProtocolError(f"describe_topics: a page from {self.cursor} on leads back to {cursor}")
        self.cursor = cursor
        self.left = [] if cursor is None else [name for name in self.left if name >= cursor[0]]

    def results(self) -> Results[TopicKey, TopicDescription]:
        """Return what the pages said of all topics."""
        missing = [name for name in self._names if name not in self._found and name not in self._errors]
        errors: dict[TopicKey, KafkaError] = {name: _unknown(name) for name in missing}
        return Results(self._found, self._errors | errors)


def _unknown(key: TopicKey) -> KafkaError:
    return UnknownTopicOrPartitionError(f"{label(key)}: the broker does not know this topic")


def _description(
    topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic,
    nodes: Mapping[int, Node],
    include_operations: bool,
) -> TopicDescription:
    def known(ids: list[int]) -> list[Node]:
        return [nodes.get(node_id) or Node(node_id, "", -1) for node_id in ids]

    def known_or_none(partition: object, field: str) -> list[Node] | None:
        ids = getattr(partition, field, None)
        return None if ids is None else known(ids)

    described: Sequence[MetadataResponsePartition | DescribeTopicPartitionsResponsePartition] = topic.partitions
    partitions = [
        TopicPartitionInfo(
            partition.partition_index,
            nodes.get(partition.leader_id),
            known(partition.replica_nodes),
            known(partition.isr_nodes),
            partition.leader_epoch,
            known_or_none(partition, "eligible_leader_replicas"),
            known_or_none(partition, "last_known_elr"),
        )
        for partition in sorted(described, key=lambda p: p.partition_index)
    ]
    operations = authorized_operations(topic.topic_authorized_operations) if include_operations else None
    return TopicDescription(topic.name or "", id_or_none(topic.topic_id), topic.is_internal, partitions, operations)
