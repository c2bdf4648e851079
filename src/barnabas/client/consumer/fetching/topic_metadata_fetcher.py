"""Asks a broker about topics on the application's behalf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.client.cluster import PartitionInfo
from barnabas.errors import NONE, InvalidTopicError, KafkaError, TopicAuthorizationError, for_code
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.network.client_request import ClientResponse

_RAISED_AT_ONCE = (InvalidTopicError, TopicAuthorizationError)


class TopicMetadataLookup:
    """One question: the partitions of a topic, or of all topics when `topic` is None. Application's thread."""

    def __init__(
        self, client: ConsumerNetworkClient, topic: str | None, *, allow_auto_creation: bool, retry_backoff: float
    ) -> None:
        self._client = client
        self._topic = topic
        self._allow_auto_creation = allow_auto_creation
        self._retry_backoff = retry_backoff
        self._in_flight = False
        self._retry_at = 0.0
        self._error: KafkaError | None = None
        self._found: dict[str, Sequence[PartitionInfo]] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the answer is there; raises the error that it is."""
        if self._error is not None:
            raise self._error
        return self._found is not None

    @property
    def found(self) -> dict[str, Sequence[PartitionInfo]]:
        """Topic to partitions."""
        return self._found or {}

    def tick(self, now: float) -> None:
        """Ask, or ask again."""
        node = None if self._in_flight or now < self._retry_at else self._client.client.least_loaded_node(now)
        if node is None:
            return
        topics = None if self._topic is None else [MetadataRequestTopic(name=self._topic)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._allow_auto_creation)
        self._in_flight = True
        self._retry_at = now + self._retry_backoff
        self._client.send(node, request, now).add_listener(self._on_answered, self._on_failed)

    def _on_answered(self, response: ClientResponse) -> None:
        self._in_flight = False
        found: dict[str, Sequence[PartitionInfo]] = {}
        for topic in response.message.topics:
            if topic.error_code == NONE:
                found[topic.name] = [
                    PartitionInfo.of(topic.name, partition)
                    for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
                ]
            elif self._topic is not None and not self._may_pass(topic.error_code):
                return
        self._found = found

    def _may_pass(self, code: int) -> bool:
        """Whether a topic's error leaves an empty answer; one that may pass is asked about again."""
        error = for_code(code, f"Topic {self._topic!r}: {for_code(code)}")
        if isinstance(error, _RAISED_AT_ONCE):
            self._error = error
            return False
        # A topic that does not exist has no partitions; one that is just being created will soon have a leader.
        return error.code == 3

    def _on_failed(self, error: KafkaError) -> None:
        self._in_flight = False
        if not error.retriable:
            self._error = error
