"""A `Persister` on the share coordinator of this broker."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    StartOffsets,
    StateSummary,
    StateUpdate,
    Tell,
)

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator

#: After which times (seconds) the coordinator is asked again that is being loaded, or whose log is being opened.
_BACKOFFS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0, 1.0)
_MAY_PASS = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)


class LocalPersister:
    """Asks the coordinator at once, and again for a while where that may help; a service of the dispatcher."""

    __slots__ = ("_coordinator", "_number", "_retries")

    def __init__(self, coordinator: Callable[[], ShareCoordinator]) -> None:
        self._coordinator = coordinator
        self._retries: list[tuple[float, int, Callable[[Instant], None]]] = []
        self._number = 0

    # --- a service

    def next_deadline(self) -> float:
        """When something is asked again, in monotonic seconds."""
        return self._retries[0][0] if self._retries else inf

    def tick(self, at: Instant) -> None:
        """Ask again what is due."""
        while self._retries and self._retries[0][0] <= at.now:
            heapq.heappop(self._retries)[2](at)

    def _try(
        self, attempt: Callable[[Instant], None], fail: Callable[[errors.KafkaError], None], at: Instant, tries: int = 0
    ) -> None:
        try:
            attempt(at)
        except errors.KafkaError as problem:
            if not isinstance(problem, _MAY_PASS) or tries == len(_BACKOFFS):
                fail(problem)
                return
            self._number += 1
            due = at.now + _BACKOFFS[tries]
            again: Callable[[Instant], None] = lambda later: self._try(attempt, fail, later, tries + 1)  # noqa: E731
            heapq.heappush(self._retries, (due, self._number, again))

    # --- the port

    def initialize(self, group_id: str, state_epoch: int, offsets: StartOffsets, at: Instant, tell: Tell) -> None:
        """See `Persister`."""
        wanted = {
            SharePartitionKey(group_id, topic_id, partition): start
            for topic_id, partitions in offsets.items()
            for partition, start in partitions.items()
        }

        def attempt(at: Instant) -> None:
            for key in list(wanted):
                self._coordinator().initialize(key, state_epoch, wanted[key], at)
                done.append(key)
                del wanted[key]
            self._coordinator().after_commit(done, tell)

        done: list[SharePartitionKey] = []
        self._try(attempt, tell, at)

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        at: Instant,
        tell: Callable[[SharePartitionState | errors.KafkaError], None],
    ) -> None:
        """See `Persister`."""

        def attempt(at: Instant) -> None:
            found = self._coordinator().read(key, leader_epoch, at)
            state = SharePartitionState(found.state_epoch, found.start_offset, found.state_batches)
            self._coordinator().after_commit([key], lambda problem: tell(problem or state))

        self._try(attempt, tell, at)

    def write(self, key: SharePartitionKey, update: StateUpdate, at: Instant, tell: Tell) -> None:
        """See `Persister`."""

        def attempt(at: Instant) -> None:
            self._coordinator().write(key, update, at)
            self._coordinator().after_commit([key], tell)

        self._try(attempt, tell, at)

    def delete(self, group_id: str, partitions: Mapping[bytes, Sequence[int]], at: Instant, tell: Tell) -> None:
        """See `Persister`."""
        keys = [
            SharePartitionKey(group_id, topic_id, partition)
            for topic_id, numbers in partitions.items()
            for partition in numbers
        ]

        def attempt(at: Instant) -> None:
            for key in keys:
                try:
                    self._coordinator().delete(key, at)
                except errors.UnknownTopicOrPartitionError:
                    # The topic is gone, and its states with it.
                    continue
            self._coordinator().after_commit(keys, tell)

        self._try(attempt, tell, at)

    def read_summary(
        self, key: SharePartitionKey, at: Instant, tell: Callable[[StateSummary | errors.KafkaError], None]
    ) -> None:
        """See `Persister`."""
        self._try(lambda at: tell(self._coordinator().read_summary(key)), tell, at)
