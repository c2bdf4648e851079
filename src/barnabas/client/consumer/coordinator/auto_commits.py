"""Automatic commits: of what was handed out, at an interval and before partitions are revoked."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError, StaleMemberEpochError
from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.consumer.coordinator.coordinator_settings import CoordinatorSettings
    from barnabas.client.consumer.coordinator.offset_commits import OffsetCommitCallback, OffsetCommits, Offsets
    from barnabas.client.consumer.membership.messages import Generation

log = client_logger("barnabas.consumer")


class AutoCommits:
    """Commits by itself, where `enable.auto.commit` is on. Belongs to the application's thread; nothing here waits.

    `commit_async(offsets, callback, now)` commits as the present member, and tells the callback what came of it.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        commits: OffsetCommits,
        consumed_offsets: Callable[[], Offsets],
        commit_async: Callable[[Offsets, OffsetCommitCallback, float], None],
    ) -> None:
        self._settings = settings
        self._interval = settings.auto_commit_interval
        self._commits = commits
        self.consumed_offsets = consumed_offsets
        self._commit_async = commit_async
        self._next_at = inf
        # The commit before a revocation, None where there was nothing to commit, and until when it is waited for.
        self._last: tuple[int | None, float] | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether offsets are committed automatically."""
        return self._interval is not None

    @property
    def is_finishing(self) -> bool:
        """Whether the commit before a revocation is in flight."""
        return self._last is not None

    def schedule(self, now: float) -> None:
        """Commit an interval from now: partitions were assigned, or a commit was just sent."""
        if self._interval is not None:
            self._next_at = now + self._interval

    def stop(self) -> None:
        """Commit nothing until `schedule`: the membership is over."""
        self._last = None
        self._next_at = inf

    def forget_last(self) -> None:
        """Begin the commit before a revocation anew with the next one."""
        self._last = None

    def time_to_next(self, now: float) -> float:
        """Seconds until `tick` has something to do."""
        return max(0.0, self._next_at - now)

    def tick(self, now: float) -> None:
        """Commit if it is time."""
        if now >= self._next_at:
            self.commit_now(now)

    def commit_now(self, now: float) -> None:
        """Commit out of turn, without waiting."""
        self.schedule(now)
        offsets = self.consumed_offsets()
        if offsets:
            self._commit_async(offsets, lambda _, error: self._on_committed(error, now), now)

    def _on_committed(self, error: KafkaError | None, now: float) -> None:
        if error is None:
            return
        log.warning("Group %s: an automatic commit failed: %s", self._settings.group_id, error)
        if error.retriable or isinstance(error, StaleMemberEpochError):
            self._next_at = min(self._next_at, now + self._settings.retry_backoff)

    def finish_before_revocation(self, generation: Generation, now: float) -> bool:
        """Commit once what was handed out; False while the outcome is open, over as many polls as it takes."""
        if self._interval is None or generation.is_unknown:
            return True
        if self._last is None:
            deadline = now + self._settings.rebalance_timeout
            offsets = self.consumed_offsets()
            number = None
            if offsets:
                # Of a topic that was deleted, not again and again until there is another one of that name.
                number = self._commits.commit(offsets, generation, deadline, needs_topics=True)
            self._last = (number, deadline)
        number, deadline = self._last
        if number is not None:
            result = self._commits.take_result(number)
            if result is None and now < deadline:
                return False
            if result is None or result.error is not None:
                log.warning("Committing offsets before a rebalance failed: %s", result and result.error)
        self._last = None
        return True
