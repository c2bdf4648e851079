"""Topics that come into being because a client asks for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TopicMetadata, folded
from barnabas.broker.topic_admin import check_topic_name

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState


class AutoTopicCreation:
    """The topics that come into being because a request asks for them; they are stored in one commit."""

    def __init__(self, broker: BrokerState, is_allowed: bool, now_ms: int):
        self._admin = broker.topic_admin
        self._is_allowed = is_allowed and broker.config.get_bool("auto.create.topics.enable")
        self._now_ms = now_ms
        self._partitions = 0
        self.planned: dict[str, TopicMetadata] = {}

    def plan(self, name: str) -> TopicMetadata:
        """Return another topic, planned. Raises KafkaError."""
        check_topic_name(name)
        if not self._is_allowed:
            raise errors.UnknownTopicOrPartitionError
        if folded(name) in self.planned:
            raise errors.InvalidTopicError(f"Topic {name!r} collides with another one of this request.")
        topic = self._admin.plan_automatically(name, self._now_ms)
        self._admin.check_request(self._partitions + topic.partitions)
        self._admin.check_cluster(self._partitions + topic.partitions)
        self._partitions += topic.partitions
        self.planned[folded(name)] = topic
        return topic
