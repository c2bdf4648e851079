"""The metadata of a producer: of the topics it sends to, forgotten when they are idle."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from barnabas.client.metadata import Metadata, MetadataRefresh

if TYPE_CHECKING:
    from barnabas.protocol.messages.metadata_response import MetadataResponse


class ProducerMetadata(Metadata):
    """Kafka's ProducerMetadata; `max_idle` is `metadata.max.idle.ms` in seconds."""

    def __init__(self, refresh: MetadataRefresh, *, max_idle: float) -> None:
        super().__init__(refresh)
        self._max_idle = max_idle
        self._expiry: dict[str, float] = {}
        self._new_topics: set[str] = set()
        self._errors: dict[str, int] = {}

    def add(self, topic: str, now: float) -> None:
        """Note that a record is sent to `topic`: it is of interest until it was idle for `max_idle`.

        A new one is asked for.
        """
        with self._lock:
            is_new = topic not in self._expiry
            self._expiry[topic] = now + self._max_idle
            if is_new:
                self._new_topics.add(topic)
                self.request_update_for_new_topics()

    def request_update_for_topic(self, topic: str) -> int:
        """Ask for the metadata of a topic, alone when it has never come; return the present `update_version`."""
        with self._changed:
            if topic in self._new_topics:
                return self.request_update_for_new_topics()
            return self.request_update(reset_equivalent_backoff=False)

    def contains_topic(self, topic: str) -> bool:
        """Whether the topic is of interest now."""
        return topic in self._expiry

    def error_for_topic(self, topic: str) -> int:
        """Return the error code that the last response had for a topic, 0 for none."""
        return self._errors.get(topic, 0)

    def topics_of_interest(self, *, only_new: bool) -> Collection[str]:
        """See `Metadata`."""
        return self._new_topics if only_new else self._expiry

    def retain_topic(self, topic: str, is_internal: bool, now: float) -> bool:
        """See `Metadata`; a topic that was idle for too long is forgotten here."""
        expiry = self._expiry.get(topic)
        if expiry is None:
            return False
        if topic in self._new_topics or expiry > now:
            return True
        del self._expiry[topic]
        return False

    def on_updated(self, response: MetadataResponse) -> None:
        """See `Metadata`."""
        self._errors = {topic.name or "": topic.error_code for topic in response.topics if topic.error_code}
        for topic in response.topics:
            self._new_topics.discard(topic.name or "")
