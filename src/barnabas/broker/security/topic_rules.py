"""The rules of requests about topics and their records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.security.authorizable_request import TOPIC_DENIED, Asked, Verdict
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ResourceType
from barnabas.protocol.kinds import AclOperation as Op

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_topics_request import CreateTopicsRequest
    from barnabas.protocol.messages.create_topics_response import CreateTopicsResponse
    from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
    from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
    from barnabas.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
    from barnabas.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
    from barnabas.protocol.messages.fetch_request import FetchRequest
    from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
    from barnabas.protocol.messages.metadata_response import MetadataResponse
    from barnabas.protocol.messages.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest

_TOPIC = ResourceType.TOPIC
#: From here on CreateTopics answers with settings, and DeleteTopics takes ids.
_CONFIGS_FROM, _TOPIC_IDS_FROM = 5, 6


def each(array: str, answers: str, operation: Op) -> Callable[[Asked[Any]], Verdict]:
    """Return the rule that each topic of an array needs an operation."""

    def rule(asked: Asked[Any]) -> Verdict:
        return asked.without(array, answers, lambda topic: asked.may_topic(operation, topic), TOPIC_DENIED)

    return rule


def fetch(asked: Asked[FetchRequest]) -> Verdict:
    """Let only brokers fetch as followers; consumers are asked for by the handler, for their sessions know more."""
    request = asked.request
    is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
    if is_follower and not asked.may_cluster(Op.CLUSTER_ACTION):
        return asked.without("topics", "responses", lambda topic: asked.name_of(topic) is None, TOPIC_DENIED)
    return None


def offset_for_leader_epoch(asked: Asked[OffsetForLeaderEpochRequest]) -> Verdict:
    """Let brokers ask for all, others for what they may describe."""
    if asked.may_cluster(Op.CLUSTER_ACTION, tell=False):
        return None
    return asked.without("topics", "topics", lambda topic: asked.may_topic(Op.DESCRIBE, topic), TOPIC_DENIED)


def metadata(asked: Asked[MetadataRequest]) -> Verdict:
    """Leave out, or refuse, what may not be described; a topic that is not there wants the right to create it, too."""
    from barnabas.protocol.messages.metadata_request import MetadataRequestTopic

    request, known = asked.request, asked.broker.metadata
    if request.topics is None or (asked.context.api_version == 0 and not request.topics):
        may = [topic.name for topic in known.topics() if asked.may(Op.DESCRIBE, _TOPIC, topic.name, tell=False)]
        # Empty, it asks for none: a version that would ask for all gets what is as good as that.
        request.topics = [MetadataRequestTopic(name=name) for name in may] or [MetadataRequestTopic(name="")]
        return None if may else _without_topics

    def allowed(topic: MetadataRequestTopic) -> bool:
        if not asked.may_topic(Op.DESCRIBE, topic):
            return False
        if topic.name is None:
            return True
        creates = topic.topic_id == ZERO_UUID and known.topic(topic.name) is None
        if not (creates and request.allow_auto_topic_creation) or not asked.broker.config["auto.create.topics.enable"]:
            return True
        return asked.may_cluster(Op.CREATE, tell=False) or asked.may(Op.CREATE, _TOPIC, topic.name)

    verdict = asked.without("topics", "topics", allowed, TOPIC_DENIED)
    return _with_brokers(asked, verdict)


def _without_topics(response: MetadataResponse) -> MetadataResponse:
    response.topics = []
    return response


def _with_brokers(asked: Asked[MetadataRequest], verdict: Verdict) -> Verdict:
    """Let the handler answer even where all topics are refused: who asks wants to know the brokers, too."""
    from barnabas.protocol.messages.metadata_response import MetadataResponse

    if verdict is None or callable(verdict):
        return verdict
    assert isinstance(verdict, MetadataResponse)
    refusals = verdict.topics

    def amend(response: MetadataResponse) -> MetadataResponse:
        response.topics = refusals
        return response

    return amend


def describe_topic_partitions(asked: Asked[DescribeTopicPartitionsRequest]) -> Verdict:
    """Leave out of all topics what may not be described; of those that are named refuse it."""
    from barnabas.protocol.messages.describe_topic_partitions_request import TopicRequest
    from barnabas.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse

    request = asked.request
    if not request.topics:
        known = asked.broker.metadata.topics()
        may = [topic.name for topic in known if asked.may(Op.DESCRIBE, _TOPIC, topic.name, tell=False)]
        request.topics = [TopicRequest(name=name) for name in may]
        return None if may else asked.refuse(0)
    verdict = asked.without("topics", "topics", lambda topic: asked.may_topic(Op.DESCRIBE, topic), TOPIC_DENIED)
    if verdict is None:
        return None

    def without_operations(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            if topic.error_code == TOPIC_DENIED:
                topic.topic_authorized_operations = AUTHORIZED_OPERATIONS_NOT_REQUESTED
        return response

    if callable(verdict):
        return lambda response: without_operations(verdict(response))
    assert isinstance(verdict, DescribeTopicPartitionsResponse)
    return without_operations(verdict)


def describe_cluster(asked: Asked[DescribeClusterRequest]) -> Verdict:
    """Let every principal ask; what it may do there is in the response, made by the handler."""
    return None


def create_topics(asked: Asked[CreateTopicsRequest]) -> Verdict:
    """Let who may create in the cluster create all, others what they may; hide settings from who may not see them."""
    context = asked.context
    may_all = asked.may_cluster(Op.CREATE, tell=False)
    verdict = asked.without(
        "topics", "topics", lambda topic: may_all or asked.may(Op.CREATE, _TOPIC, topic.name), TOPIC_DENIED
    )
    if verdict is not None and not callable(verdict):
        return verdict

    def amend(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in response.topics:
            if not result.error_code and not asked.may(Op.DESCRIBE_CONFIGS, _TOPIC, result.name, tell=False):
                result.topic_config_error_code = TOPIC_DENIED
                result.num_partitions = result.replication_factor = -1
                result.configs = []
        return verdict(response) if callable(verdict) else response

    return amend if context.api_version >= _CONFIGS_FROM else verdict


def delete_topics(asked: Asked[DeleteTopicsRequest]) -> Verdict:
    """Hide from who may not describe a topic whether there is one; who may is told that he may not delete it."""
    known = asked.broker.metadata
    if asked.may_cluster(Op.DELETE, tell=False):
        return None

    def allowed(topic: str | DeleteTopicState) -> bool:
        name = topic if isinstance(topic, str) else asked.name_of(topic)
        if name is None:
            return True
        if not asked.may(Op.DESCRIBE, _TOPIC, name):
            return False
        if known.topic(name) is None or asked.may(Op.DELETE, _TOPIC, name):
            return True
        if not isinstance(topic, str):
            # Who may describe it may know its name.
            topic.name = name
        return False

    array = "topics" if asked.context.api_version >= _TOPIC_IDS_FROM else "topic_names"
    return asked.without(array, "responses", allowed, TOPIC_DENIED)
