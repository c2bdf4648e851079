"""One ShareAcknowledge with its retries, and what a call that waits for it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.consumer.share.acknowledgements import Acknowledgements
    from barnabas.errors import KafkaError
    from barnabas.protocol.topic_partition import TopicIdPartition


class CommitResult:
    """What comes of a `commit_sync`, partition by partition."""

    __slots__ = ("_left", "errors")

    def __init__(self, partitions: int) -> None:
        self._left = partitions
        self.errors: dict[TopicIdPartition, KafkaError | None] = {}

    @property
    def is_done(self) -> bool:
        """Whether all partitions are answered."""
        return self._left <= 0

    def answer(self, partition: TopicIdPartition, error: KafkaError | None) -> None:
        """Note what the broker said."""
        self._left -= 1
        self.errors[partition] = error


class AcknowledgeRequest:
    """What is to be said to one node: tried until `deadline` (monotonic), at least once; the last one ends the session.

    `acknowledgements` has what is not answered yet.
    """

    __slots__ = ("acknowledgements", "attempts", "deadline", "is_close", "is_in_flight", "result", "retry_at")

    def __init__(
        self,
        acknowledgements: dict[TopicIdPartition, Acknowledgements],
        deadline: float,
        result: CommitResult | None = None,
        *,
        is_close: bool = False,
    ) -> None:
        self.acknowledgements = acknowledgements
        self.deadline = deadline
        self.result = result
        self.is_close = is_close
        self.is_in_flight = False
        self.attempts = 0
        self.retry_at = 0.0

    @property
    def takes_more(self) -> bool:
        """Whether acknowledgements of a later `commit_async` can go with these."""
        return self.result is None and not self.is_close and not self.attempts

    def merge(self, acknowledgements: dict[TopicIdPartition, Acknowledgements]) -> None:
        """Add what a later `commit_async` has to say."""
        for partition, said in acknowledgements.items():
            if partition in self.acknowledgements:
                self.acknowledgements[partition].merge(said)
            else:
                self.acknowledgements[partition] = said
