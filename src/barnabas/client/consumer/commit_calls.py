"""The calls of a consumer that commit, and that ask what is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.client.consumer.membership.messages import OffsetsCommitted, OffsetsFetched
from barnabas.client.steps import Steps
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.network.sampled_stat import TimeTotals

if TYPE_CHECKING:
    from barnabas.client.consumer.coordinator.coordinator import Coordinator
    from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback, Offsets
    from barnabas.client.consumer.offsets import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition

COMMIT_SYNC: Final = "commit-sync"
COMMITTED: Final = "committed"


class Wait(Protocol):
    """Polls the network until something holds: `ConsumerPolling.wait`."""

    def __call__(
        self,
        is_done: Callable[[], bool],
        step: Callable[[float], object],
        timeout: float,
        error: str | Callable[[], KafkaError],
    ) -> Steps[None]:
        """Raise `KafkaTimeoutError` after `timeout` seconds."""


class CommitCalls:
    """`commit`, `commit_async` and `committed`, over the `Coordinator`. Belongs to the application's thread.

    `coordinator()` raises `InvalidGroupIdError` for a consumer without a group; `to_commit` gives what a commit of
    these offsets commits, or of all that was consumed; durations are seconds.
    """

    def __init__(
        self,
        coordinator: Callable[[], Coordinator],
        wait: Wait,
        to_commit: Callable[[Offsets | None], Offsets],
        clock: Callable[[], float],
    ) -> None:
        self._coordinator = coordinator
        self._wait = wait
        self._to_commit = to_commit
        self._clock = clock
        self.times = TimeTotals(clock, COMMIT_SYNC, COMMITTED)

    def commit(self, offsets: Offsets | None, timeout: float) -> Steps[None]:
        """See `Consumer.commit`."""
        with self.times.spent(COMMIT_SYNC):
            yield from self.commit_now(offsets, timeout)

    def commit_now(self, offsets: Offsets | None, timeout: float) -> Steps[None]:
        """Commit, and wait for the answer, without the metrics of a call."""
        coordinator = self._coordinator()
        coordinator.ensure_heartbeat_thread()
        chosen = self._to_commit(offsets)
        deadline = self._clock() + timeout
        if not chosen:
            yield from self.await_async_commits(timeout)
            return
        number = coordinator.commits.commit(chosen, coordinator.committable_generation(), deadline)
        result = yield from self._await_result(number, timeout, "The commit")
        yield from coordinator.commits.invoke_completed_callbacks()
        if result.error is not None:
            raise result.error

    def run_commit_callbacks(self) -> Steps[None]:
        """Run the callbacks of the asynchronous commits that are answered."""
        coordinator = self._coordinator()
        coordinator.take_events()
        yield from coordinator.commits.invoke_completed_callbacks()

    def commit_async(self, offsets: Offsets | None, callback: OffsetCommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        coordinator = self._coordinator()
        coordinator.ensure_heartbeat_thread()
        coordinator.commit_async(self._to_commit(offsets), callback, self._clock())

    def committed(
        self, partitions: set[TopicPartition], timeout: float
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        with self.times.spent(COMMITTED):
            return (yield from self._committed(partitions, timeout))

    def _committed(
        self, partitions: set[TopicPartition], timeout: float
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        coordinator = self._coordinator()
        coordinator.ensure_heartbeat_thread()
        if not partitions:
            return {}
        number = coordinator.commits.fetch(partitions, self._clock() + timeout)
        result = yield from self._await_result(number, timeout, "Looking the committed offsets up")
        if result.error is not None:
            raise result.error
        return dict(result.offsets) if isinstance(result, OffsetsFetched) else {}

    def _await_result(self, number: int, timeout: float, what: str) -> Steps[OffsetsCommitted | OffsetsFetched]:
        commits = self._coordinator().commits
        results: list[OffsetsCommitted | OffsetsFetched] = []

        def is_done() -> bool:
            self._coordinator().take_events()
            result = commits.take_result(number)
            if result is not None:
                results.append(result)
            return bool(results)

        try:
            yield from self._wait(is_done, lambda now: self._coordinator().raise_failure(), timeout, what)
        finally:
            commits.forget(number)
        error = results[0].error
        if error is not None and error.retriable and not isinstance(error, KafkaTimeoutError):
            raise KafkaTimeoutError(f"{what} did not succeed within {timeout:g} s, at last because: {error}") from error
        return results[0]

    def await_async_commits(self, timeout: float) -> Steps[None]:
        """Wait until every asynchronous commit is answered, and run their callbacks."""
        coordinator = self._coordinator()

        def is_done() -> bool:
            coordinator.take_events()
            return not coordinator.commits.has_unanswered_async_commits

        try:
            yield from self._wait(
                is_done, lambda now: coordinator.raise_failure(), timeout, "Waiting for asynchronous commits"
            )
        except KafkaTimeoutError:
            yield from coordinator.commits.invoke_completed_callbacks()
            raise
        yield from coordinator.commits.invoke_completed_callbacks()
