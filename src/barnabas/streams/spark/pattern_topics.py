"""Topics that appear while an application runs, and that the pattern of a source matches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.streams.spark.query_plan import Plan

LOGGER = logging.getLogger("barnabas.streams")


class Cluster(Protocol):
    """What is asked of the brokers: some of AdminClient's methods."""

    def list_topics(self) -> Iterable[str]:
        """Return the topics of the cluster by name, without Kafka's own."""

    def close(self) -> None:
        """Let go of the connections."""


class PatternTopics:
    """Looks now and then which topics there are. Not for several threads.

    `every` is in seconds: the consumer's `metadata.max.age.ms`, after which Kafka's consumers look again, too.
    """

    def __init__(
        self, make_admin: Callable[[], Cluster], every: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make_admin, self._every, self._clock = make_admin, every, clock
        self._admin: Cluster | None = None
        self._looked_at = clock()

    def have_come(self, plan: Plan) -> bool:
        """Tell whether a pattern matches a topic that the plan does not know; it asks the brokers when it is time."""
        patterns = [node.pattern for node in plan.patterns.values() if node.pattern is not None]
        if not patterns or self._clock() - self._looked_at < self._every:
            return False
        self._looked_at = self._clock()
        try:
            if self._admin is None:
                self._admin = self._make_admin()
            new = {*self._admin.list_topics()} - plan.sources - plan.changelogs - plan.global_topics
        except KafkaError as error:
            LOGGER.warning("could not look for topics that a pattern matches: %s; it is tried again", error)
            return False
        return any(pattern.fullmatch(topic) for pattern in patterns for topic in new)

    def close(self) -> None:
        """Let go of the connections."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None
