"""Metadata: brokers, topics and the leaders of their partitions; creates topics where that is allowed.

Versions 0-13. v1 null asks for all topics; rack, controller, is_internal. v2 cluster id. v3 throttle time. v4
auto-creation can be declined. v5 offline replicas (KIP-112). v6 throttled after the response (KIP-219). v7 leader
epochs (KIP-320). v8 authorized operations (KIP-430). v9 flexible. v10 topic ids in the response (KIP-516). v11 no more
authorized operations of the cluster (KIP-700). v12 topics can be asked for by id. v13 a top-level error (KIP-1102).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AUTHORIZED_OPERATIONS
from barnabas.broker.partition import INITIAL_LEADER_EPOCH, NO_LEADER
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, AclOperation, ResourceType
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.thresholds import METADATA_BY_ID_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.metadata.cluster_metadata import TopicMetadata
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

API = 3
VERSIONS = (0, 13)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.TOPIC

#: From here on a topic may be asked for by its id, and a response may leave out its name.


def handle(broker: BrokerState, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe the topics asked for: all of them for null (in version 0: for an empty list)."""
    version = context.api_version
    operations = (
        AUTHORIZED_OPERATIONS[ResourceType.TOPIC]
        if request.include_topic_authorized_operations
        else AUTHORIZED_OPERATIONS_NOT_REQUESTED
    )
    if request.topics is None or (version == 0 and not request.topics):
        topics = [describe_topic(broker, topic, operations) for topic in broker.metadata.topics()]
    else:
        topics = [_asked_for(broker, context, request, topic, operations) for topic in request.topics]
    host, port = broker.endpoint(context.connection.listener)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=broker.node_id, host=host, port=port, rack=broker.rack)],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=topics,
        cluster_authorized_operations=(
            AUTHORIZED_OPERATIONS[ResourceType.CLUSTER]
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_REQUESTED
        ),
    )


def describe_topic(broker: BrokerState, topic: TopicMetadata, operations: int) -> MetadataResponseTopic:
    """A topic as Metadata responses show it."""
    leader = broker.node_id
    offline = broker.replica_manager.offline_partitions(topic.name)
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=INITIAL_LEADER_EPOCH,
                replica_nodes=[leader],
                isr_nodes=[leader],
            )
            if index not in offline
            else MetadataResponsePartition(
                error_code=errors.LeaderNotAvailableError.code,
                partition_index=index,
                leader_id=NO_LEADER,
                leader_epoch=INITIAL_LEADER_EPOCH,
                replica_nodes=[leader],
                isr_nodes=[leader],
                offline_replicas=[leader],
            )
            for index in range(topic.partitions)
        ],
        topic_authorized_operations=operations,
    )


def _asked_for(
    broker: BrokerState, context: RequestContext, request: MetadataRequest, asked: MetadataRequestTopic, operations: int
) -> MetadataResponseTopic:
    if asked.name is None or asked.topic_id != ZERO_UUID:
        return _by_id(broker, context, asked, operations)
    topic = broker.metadata.topic(asked.name)
    if topic is None:
        try:
            topic = _create(broker, context, request, asked.name)
        except errors.KafkaError as problem:
            return MetadataResponseTopic(error_code=problem.code, name=asked.name)
    return describe_topic(broker, topic, operations)


def _by_id(
    broker: BrokerState, context: RequestContext, asked: MetadataRequestTopic, operations: int
) -> MetadataResponseTopic:
    if context.api_version < METADATA_BY_ID_FROM:
        # KAFKA-14208: ids stand in versions 10 and 11, but clients that send them there are wrong.
        return MetadataResponseTopic(error_code=errors.InvalidRequestError.code, name=asked.name or "")
    topic = broker.metadata.topic_by_id(asked.topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=errors.UnknownTopicIdError.code, name=None, topic_id=asked.topic_id)
    return describe_topic(broker, topic, operations)


def _create(broker: BrokerState, context: RequestContext, request: MetadataRequest, name: str) -> TopicMetadata:
    from barnabas.broker.topic_admin import check_topic_name

    check_topic_name(name)
    if not (request.allow_auto_topic_creation and broker.config.get_bool("auto.create.topics.enable")):
        raise errors.UnknownTopicOrPartitionError
    return broker.topic_admin.auto_create(name, context.now_ms)
