"""What brokers said of acknowledgements, until the application's callback is told."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.client.consumer.share.acknowledge_request import AcknowledgeRequest, CommitResult
from barnabas.errors import KafkaError, NotLeaderOrFollowerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.consumer.share.acknowledgements import Acknowledgements
    from barnabas.client.consumer.share.share_fetch_metrics import ShareFetchMetrics
    from barnabas.protocol.topic_partition import TopicIdPartition


def locks_are_gone() -> NotLeaderOrFollowerError:
    """Return what is said of records that are delivered again in any case."""
    return NotLeaderOrFollowerError(
        "The broker that delivered these records is not their leader any more, or has ended the share session: their "
        "acquisition locks are gone, and they are delivered again"
    )


class Outcomes:
    """Collects answers in the order in which they came. Belongs to the application's thread."""

    def __init__(self, metrics: ShareFetchMetrics, now: Callable[[], float]) -> None:
        self.metrics = metrics
        self._now = now
        self.answered: deque[tuple[TopicIdPartition, Acknowledgements]] = deque()

    def answer(
        self,
        partition: TopicIdPartition,
        said: Acknowledgements,
        error: KafkaError | None,
        result: CommitResult | None = None,
    ) -> None:
        """Note the answer for one partition; None is success."""
        said.error = error
        if error is not None:
            self.metrics.failed(len(said), self._now())
        self.answered.append((partition, said))
        if result is not None:
            result.answer(partition, error)

    def answer_all(
        self,
        acknowledgements: dict[TopicIdPartition, Acknowledgements],
        error: KafkaError,
        result: CommitResult | None = None,
    ) -> None:
        """Note the same answer for all that is in the dict, and empty it."""
        while acknowledgements:
            self.answer(*acknowledgements.popitem(), error, result)

    def fail(self, request: AcknowledgeRequest, error: KafkaError) -> None:
        """Note this answer for all that the request has no other for."""
        self.answer_all(request.acknowledgements, error, request.result)
