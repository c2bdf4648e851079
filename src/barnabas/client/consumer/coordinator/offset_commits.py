"""The application's side of commits: what was asked for, what came of it, and the callbacks to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.client.consumer.membership.messages import CommitOffsets, FetchOffsets, Generation
from barnabas.client.steps import Steps, call
from barnabas.errors import FencedInstanceIdError, KafkaError, RetriableCommitFailedError
from barnabas.network.log_context import client_logger, current_client

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.core import MembershipCore
    from barnabas.client.consumer.membership.messages import OffsetsCommitted, OffsetsFetched
    from barnabas.client.consumer.offsets import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition

log = client_logger("barnabas.consumer")

Offsets = Mapping["TopicPartition", "OffsetAndMetadata"]
OffsetCommitCallback = Callable[[Offsets, KafkaError | None], object]


class _AsynchronousCommit:
    """One whose callback has not run yet."""

    __slots__ = ("callback", "error", "is_answered", "offsets")

    def __init__(self, offsets: Offsets, callback: OffsetCommitCallback | None) -> None:
        self.offsets = offsets
        self.callback = callback
        self.is_answered = False
        self.error: KafkaError | None = None

    def answer(self, error: KafkaError | None) -> None:
        """Note that it is known what became of it."""
        self.is_answered = True
        self.error = error


class OffsetCommits:
    """Hands commits and look-ups to the membership core and keeps their results. Belongs to the application's thread.

    Callbacks of asynchronous commits run in `invoke_completed_callbacks`, in the order of the commits: one that was
    refused at once waits for those that were asked for before it.
    """

    def __init__(self, membership: MembershipCore, on_commit: Callable[[Offsets], object]) -> None:
        self._membership = membership
        self._on_commit = on_commit
        # What the synchronous commits in progress are to commit.
        self._synchronous: dict[int, Offsets] = {}
        self._last_id = 0
        self._unanswered: dict[int, _AsynchronousCommit] = {}
        self._asynchronous: deque[_AsynchronousCommit] = deque()
        self._results: dict[int, OffsetsCommitted | OffsetsFetched | None] = {}
        self._fenced: FencedInstanceIdError | None = None

    def commit_async(
        self, offsets: Offsets, generation: Generation | None, callback: OffsetCommitCallback | None, deadline: float
    ) -> None:
        """Commit without waiting and without trying again."""
        self._last_id += 1
        commit = _AsynchronousCommit(offsets, callback)
        # Sent first: a commit that was not sent, because of an exception from outside, would be waited for.
        self._membership.send(CommitOffsets(self._last_id, offsets, generation, deadline, retry=False))
        self._unanswered[self._last_id] = commit
        self._asynchronous.append(commit)

    def fail_async(self, offsets: Offsets, callback: OffsetCommitCallback | None, error: KafkaError) -> None:
        """Have the callback told that the commit was not even sent."""
        commit = _AsynchronousCommit(offsets, callback)
        commit.answer(error)
        self._asynchronous.append(commit)

    def abandon(self, error: KafkaError) -> None:
        """Have the callbacks of commits that are not answered told this: no answer will be taken any more."""
        for commit in self._unanswered.values():
            commit.answer(error)
        self._unanswered.clear()

    def commit(
        self, offsets: Offsets, generation: Generation | None, deadline: float, *, needs_topics: bool = False
    ) -> int:
        """Commit, with retries; the result is found under the number returned."""
        self._last_id += 1
        self._results[self._last_id] = None
        self._synchronous[self._last_id] = offsets
        command = CommitOffsets(self._last_id, offsets, generation, deadline, retry=True, needs_topics=needs_topics)
        self._membership.send(command)
        return self._last_id

    def fetch(self, partitions: set[TopicPartition], deadline: float) -> int:
        """Look committed offsets up; the result is found under the number returned."""
        self._last_id += 1
        self._results[self._last_id] = None
        self._membership.send(FetchOffsets(self._last_id, sorted(partitions), deadline))
        return self._last_id

    def forget(self, number: int) -> None:
        """Drop a result that no call waits for any longer."""
        self._results.pop(number, None)

    def take_result(self, number: int) -> OffsetsCommitted | OffsetsFetched | None:
        """Return the result, once, when it is there."""
        result = self._results.get(number)
        if result is not None:
            del self._results[number]
        return result

    def on_completed(self, event: OffsetsCommitted | OffsetsFetched) -> None:
        """Take an answer in."""
        committed = self._synchronous.pop(event.id, None)
        if committed is not None and event.error is None:
            self._committed(committed)
        if event.id in self._results:
            self._results[event.id] = event
        elif event.id in self._unanswered:
            commit = self._unanswered.pop(event.id)
            if event.error is None:
                self._committed(commit.offsets)
            commit.answer(_as_async_error(event.error))
            if isinstance(event.error, FencedInstanceIdError):
                self._fenced = event.error

    def _committed(self, offsets: Offsets) -> None:
        self._on_commit(offsets)
        if anatomy.active is not None:
            for partition, committed in offsets.items():
                told = anatomy.events.OffsetCommitted(current_client(), *partition, committed.offset)
                anatomy.active.record(told)

    @property
    def has_unanswered_async_commits(self) -> bool:
        """Whether answers to asynchronous commits are still to come."""
        return bool(self._unanswered)

    @property
    def has_completed(self) -> bool:
        """Whether there are callbacks to run."""
        return bool(self._asynchronous and self._asynchronous[0].is_answered) or self._fenced is not None

    def invoke_completed_callbacks(self) -> Steps[None]:
        """Run the callbacks of finished commits; raises `FencedInstanceIdError` when one of them was fenced."""
        while self._asynchronous and self._asynchronous[0].is_answered:
            commit = self._asynchronous.popleft()
            if commit.callback is not None:
                yield from call(commit.callback, commit.offsets, commit.error)
            elif commit.error is not None:
                log.error("Committing offsets %s failed: %s", commit.offsets, commit.error)
        if self._fenced is not None:
            raise self._fenced


def _as_async_error(error: KafkaError | None) -> KafkaError | None:
    if error is None or not error.retriable:
        return error
    wrapped = RetriableCommitFailedError(f"The offsets were not committed, but the same call may work again: {error}")
    wrapped.__cause__ = error
    return wrapped
