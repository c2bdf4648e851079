"""A response that rests on records which are not committed yet: it waits for the high watermark (DelayedProduce)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.purgatory import DelayedOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.partition import Partition
    from barnabas.protocol.message import Message


class Pending(NamedTuple):
    """Up to which offset a partition's records have to be committed, in which leadership of this broker."""

    partition: Partition
    end_offset: int
    leaderships: int


class CommitWait(DelayedOperation):
    """Answers when all is committed; with an error when the leadership is lost or the disk fails, or at the deadline.

    A broker that lost the leadership and got it back answers with the error, too: in between its records may have been
    truncated.
    """

    __slots__ = ("_answer", "_waiting")

    def __init__(
        self,
        waiting: list[Pending],
        answer: Callable[[errors.KafkaError | None], Message],
        deadline: float = inf,
    ):
        super().__init__(deadline, tuple({found.partition: None for found in waiting}))
        self._waiting = waiting
        self._answer = answer

    def try_complete(self, now: float) -> Message | None:
        """See `DelayedOperation`."""
        failed = self.failure()
        if failed is not None:
            return failed
        self._waiting = [found for found in self._waiting if not found.partition.is_committed(found.end_offset - 1)]
        return None if self._waiting else self._answer(None)

    def failure(self) -> Message | None:
        """Return the answer with an error when a leadership is lost or a disk has failed; None when neither has."""
        for found in self._waiting:
            partition = found.partition
            name = f"{partition.topic}-{partition.index}"
            if partition.deleted or not partition.is_leader or partition.leaderships != found.leaderships:
                return self._answer(errors.NotLeaderOrFollowerError(f"{name} has another leader."))
            if partition.log.is_offline:
                return self._answer(errors.KafkaStorageError(f"The disk has failed under {name}."))
        return None

    def on_expiration(self, now: float) -> Message:
        """See `DelayedOperation`."""
        partition = self._waiting[0].partition
        return self._answer(
            errors.KafkaTimeoutError(f"The replicas of {partition.topic}-{partition.index} have not confirmed in time.")
        )
