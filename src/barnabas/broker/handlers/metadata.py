"""Metadata: brokers, topics and the leaders of their partitions; creates topics where that is allowed.

Versions 0-13. v1 null asks for all topics; rack, controller, is_internal. v2 cluster id. v3 throttle time. v4
auto-creation can be declined. v5 offline replicas (KIP-112). v6 throttled after the response (KIP-219). v7 leader
epochs (KIP-320). v8 authorized operations (KIP-430). v9 flexible. v10 topic ids in the response (KIP-516). v11 no more
authorized operations of the cluster (KIP-700). v12 topics can be asked for by id. v13 a top-level error (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.piecewise import ArrayField, LazyList, Pieces, PiecewiseResponse, Steps, pieces_of
from barnabas.broker.security.acl_binding import CLUSTER_NAME
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ResourceType
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.thresholds import METADATA_BY_ID_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

API = 3
VERSIONS = (0, 13)

#: From here on a topic may be asked for by its id, and a response may leave out its name.


def handle(broker: BrokerState, context: RequestContext, request: MetadataRequest) -> Message | PiecewiseResponse:
    """Describe the topics asked for, each once: all of them for null (in version 0: for an empty list)."""
    version = context.api_version

    def make(topic: TopicMetadata | MetadataResponseTopic) -> tuple[MetadataResponseTopic, int]:
        if isinstance(topic, MetadataResponseTopic):
            return topic, 1
        operations = AUTHORIZED_OPERATIONS_NOT_REQUESTED
        if request.include_topic_authorized_operations:
            operations = broker.authorized_operations(context, ResourceType.TOPIC, topic.name)
        return describe_topic(broker, topic, operations, context.connection.listener), 1 + topic.partitions

    def pieces() -> Pieces:
        found: Iterable[TopicMetadata | MetadataResponseTopic]
        if request.topics is None or (version == 0 and not request.topics):
            found = broker.metadata.topics()
        else:
            found = yield from _asked_for(broker, context, request)
        array = ArrayField(MetadataResponse, "topics", version)
        return (yield from pieces_of(array, found, make, lambda topics: _response(broker, context, request, topics)))

    return broker.large_responses.answer(pieces())


def _response(
    broker: BrokerState, context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.view.brokers(context.connection.listener)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.view.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            broker.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_REQUESTED
        ),
    )


def describe_topic(broker: BrokerState, topic: TopicMetadata, operations: int, listener: str) -> MetadataResponseTopic:
    """Return a topic as Metadata responses show it; its partitions are made as they are encoded."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=cast(
            "list[MetadataResponsePartition]", LazyList(topic.partitions, lambda: _partitions(broker, topic, listener))
        ),
        topic_authorized_operations=operations,
    )


def _partitions(broker: BrokerState, topic: TopicMetadata, listener: str) -> Iterator[MetadataResponsePartition]:
    # One for all: it is encoded before the next is asked for.
    shown = MetadataResponsePartition()
    for found in broker.view.partitions(topic.name, listener):
        shown.error_code = errors.LeaderNotAvailableError.code if found.leader < 0 else errors.NONE
        shown.partition_index = found.number
        shown.leader_id, shown.leader_epoch = found.leader, found.leader_epoch
        shown.replica_nodes, shown.isr_nodes = found.replicas, found.isr  # type: ignore[assignment]  # any sequence
        shown.offline_replicas = found.offline  # type: ignore[assignment]
        yield shown


def _asked_for(
    broker: BrokerState, context: RequestContext, request: MetadataRequest
) -> Steps[list[TopicMetadata | MetadataResponseTopic]]:
    """Each topic that is asked for, once, however often it is named; new ones are created in one commit."""
    found: dict[str | bytes, TopicMetadata | MetadataResponseTopic | None] = {}
    for asked in request.topics or ():
        if asked.name is None or asked.topic_id != ZERO_UUID:
            key: str | bytes = asked.topic_id
            if key not in found:
                found[key] = _by_id(broker, context, asked)
        elif asked.name not in found:
            found[asked.name] = broker.metadata.topic(asked.name)
    missing = [name for name, topic in found.items() if topic is None and isinstance(name, str)]
    if missing:
        from barnabas.broker.auto_topic_creation import AutoTopicCreation

        creation = AutoTopicCreation(broker, request.allow_auto_topic_creation, context.now_ms)
        made = yield from creation.create(missing)
        for name, topic in made.items():
            found[name] = (
                MetadataResponseTopic(error_code=topic.code, name=name)
                if isinstance(topic, errors.KafkaError)
                else topic
            )
    return [topic for topic in found.values() if topic is not None]


def _by_id(
    broker: BrokerState, context: RequestContext, asked: MetadataRequestTopic
) -> TopicMetadata | MetadataResponseTopic:
    if context.api_version < METADATA_BY_ID_FROM:
        # KAFKA-14208: ids stand in versions 10 and 11, but clients that send them there are wrong.
        return MetadataResponseTopic(error_code=errors.InvalidRequestError.code, name=asked.name or "")
    topic = broker.metadata.topic_by_id(asked.topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=errors.UnknownTopicIdError.code, name=None, topic_id=asked.topic_id)
    return topic
