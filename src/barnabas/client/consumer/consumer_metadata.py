"""The metadata of a consumer: of the topics it is subscribed to or asks about."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.client.consumer.offsets import LeaderAndEpoch
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.errors import for_code

if TYPE_CHECKING:
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.topic_partition import TopicPartition


class ConsumerMetadata(Metadata):
    """Kafka's ConsumerMetadata. A pattern subscription makes all topics interesting."""

    def __init__(
        self,
        subscriptions: SubscriptionState,
        refresh: MetadataRefresh,
        *,
        allow_auto_create_topics: bool,
        exclude_internal_topics: bool,
    ) -> None:
        super().__init__(refresh)
        self._subscriptions = subscriptions
        self._allow_auto_create_topics = allow_auto_create_topics
        self._exclude_internal_topics = exclude_internal_topics
        self._transient_topics: set[str] = set()
        self._topic_errors: dict[str, int] = {}

    def add_transient_topics(self, topics: Collection[str]) -> bool:
        """Be interested in these too, until `clear_transient_topics`; tells whether any of them is not known."""
        self._transient_topics.update(topics)
        missing = [topic for topic in topics if topic not in self.fetch().topics]
        if missing:
            self.request_update_for_new_topics()
        return bool(missing)

    def clear_transient_topics(self) -> None:
        """Forget the topics that were only asked about."""
        self._transient_topics.clear()

    def raise_error_of_topic(self, topic: str) -> None:
        """Raise what the last response said against a topic, if trying again does not help."""
        code = self._topic_errors.get(topic, 0)
        if code and not for_code(code).retriable:
            self.raise_error_for_topic(topic)
            raise for_code(code, f"Topic {topic!r}: {for_code(code)}")

    def leader_and_epoch(self, partition: TopicPartition) -> LeaderAndEpoch:
        """Return the leader of a partition, by id."""
        leader, epoch = self.current_leader(partition)
        return LeaderAndEpoch(-1 if leader is None else leader.id, epoch)

    @property
    def allow_auto_topic_creation(self) -> bool:
        """`allow.auto.create.topics`."""
        return self._allow_auto_create_topics

    def topics_of_interest(self, *, only_new: bool) -> Collection[str] | None:
        """See `Metadata`."""
        subscriptions = self._subscriptions
        if subscriptions.has_pattern_subscription:
            return None
        if subscriptions.topic_regex is not None:
            # A request is either by id or by name.
            return None if self._transient_topics else ()
        topics = subscriptions.metadata_topics | self._transient_topics
        return sorted(topics - self.fetch().topics.keys() if only_new else topics)

    def topic_ids_of_interest(self) -> Collection[bytes]:
        """See `Metadata`."""
        is_by_id = self._subscriptions.topic_regex is not None and not self._transient_topics
        return self._subscriptions.assigned_topic_ids if is_by_id else ()

    def retain_topic(self, topic: str, is_internal: bool, now: float) -> bool:
        """See `Metadata`; internal topics match no pattern while `exclude.internal.topics` is set."""
        if topic in self._transient_topics or topic in self._subscriptions.metadata_topics:
            return True
        if self._subscriptions.topic_regex is not None:
            return True
        if is_internal and self._exclude_internal_topics:
            return False
        return self._subscriptions.matches_subscribed_pattern(topic)

    def on_updated(self, response: object) -> None:
        """See `Metadata`."""
        topics = getattr(response, "topics", ())
        self._topic_errors = {topic.name: topic.error_code for topic in topics if topic.error_code}


class CoordinatorMetadata(Metadata):
    """What the membership core needs to know of the cluster: its brokers, and no topic."""

    def topics_of_interest(self, *, only_new: bool) -> Collection[str]:
        """See `Metadata`."""
        return ()
