"""A `Persister` on the share coordinator, be it this broker's or another's (DefaultStatePersister)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from barnabas.broker.share.state_operation import (
    Answer,
    Asked,
    DeleteState,
    InitializeState,
    ReadState,
    ReadSummary,
    StateOperation,
    ask_here,
)

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator

#: After which times (seconds) the coordinator is asked again that moves, is being loaded, or does not answer.
_BACKOFFS = (0.02, 0.05, 0.1, 0.2, 0.5)
_LONGEST_BACKOFF = 1.0
#: So long (seconds) something is asked again: as long as a member waits for the answer to a request.
_PATIENCE = 30.0
_MAY_PASS = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
    errors.DisconnectError,
)

#: Asks the broker that coordinates a share-partition; False: that is this one. Raises CoordinatorNotAvailableError.
AskOther = Callable[[StateOperation, Callable[[Answer], None]], bool]


class _Line:
    """What is asked about one share-partition, one after the other: what comes later was decided later."""

    __slots__ = ("is_advancing", "is_asking", "operations", "tries")

    def __init__(self) -> None:
        self.operations: deque[StateOperation] = deque()
        #: Whether the first operation is being answered, or waits for its next try.
        self.is_asking = False
        self.is_advancing = False
        self.tries = 0


class DefaultStatePersister:
    """Asks at once, and again for a while where that may help; a service of the dispatcher.

    `ask_other` is None for a broker that is alone.
    """

    __slots__ = ("_ask_other", "_coordinator", "_failed", "_lines", "_number", "_retries")

    def __init__(self, coordinator: Callable[[], ShareCoordinator], ask_other: AskOther | None = None) -> None:
        self._coordinator = coordinator
        self._ask_other = ask_other
        self._lines: dict[SharePartitionKey, _Line] = {}
        #: What was refused, and is to be tried again; until the next tick says what time it is.
        self._failed: list[SharePartitionKey] = []
        self._retries: list[tuple[float, int, SharePartitionKey]] = []
        self._number = 0

    # --- a service

    def next_deadline(self) -> float:
        """When something is asked again, in monotonic seconds."""
        if self._failed:
            return -inf
        return self._retries[0][0] if self._retries else inf

    def tick(self, at: Instant) -> None:
        """Ask again what is due."""
        failed, self._failed = self._failed, []
        for key in failed:
            self._number += 1
            tries = self._lines[key].tries
            backoff = _BACKOFFS[tries] if tries < len(_BACKOFFS) else _LONGEST_BACKOFF
            self._lines[key].tries += 1
            heapq.heappush(self._retries, (at.now + backoff, self._number, key))
        while self._retries and self._retries[0][0] <= at.now:
            line = self._lines[heapq.heappop(self._retries)[2]]
            self._ask(line, line.operations[0], at)

    # --- one question after the other

    def _add(self, key: SharePartitionKey, asked: Asked, at: Instant, tell: Callable[[Answer], None]) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        line.operations.append(StateOperation(key, asked, tell, at))
        self._advance(line, key)

    def _advance(self, line: _Line, key: SharePartitionKey) -> None:
        if line.is_advancing:
            return
        line.is_advancing = True
        try:
            while line.operations and not line.is_asking:
                line.is_asking, line.tries = True, 0
                self._ask(line, line.operations[0], line.operations[0].at)
        finally:
            line.is_advancing = False
            if not line.operations:
                del self._lines[key]

    def _ask(self, line: _Line, operation: StateOperation, at: Instant) -> None:
        def told(answer: Answer) -> None:
            self._answered(line, operation, answer, at)

        try:
            if self._ask_other is not None and self._ask_other(operation, told):
                return
            coordinator = self._coordinator()
            answer = ask_here(coordinator, operation, at)
        except errors.KafkaError as problem:
            told(problem)
            return

        def committed(problem: errors.KafkaError | None) -> None:
            if isinstance(problem, errors.NotLeaderOrFollowerError):
                problem = errors.NotCoordinatorError(str(problem))
            told(problem or answer)

        coordinator.after_commit([operation.key], committed)

    def _answered(self, line: _Line, operation: StateOperation, answer: Answer, at: Instant) -> None:
        if isinstance(answer, _MAY_PASS) and at.now - operation.at.now < _PATIENCE:
            self._failed.append(operation.key)
            return
        line.operations.popleft()
        line.is_asking = False
        try:
            operation.tell(answer)
        finally:
            self._advance(line, operation.key)

    def _add_all(
        self,
        questions: Iterable[tuple[SharePartitionKey, Asked]],
        at: Instant,
        tell: Tell,
        forgiven: type[errors.KafkaError] | tuple[()] = (),
    ) -> None:
        """Ask about several; `tell` gets the first error when all are answered."""
        problems: list[errors.KafkaError] = []
        waiting = 1

        def told(answer: Answer) -> None:
            nonlocal waiting
            if isinstance(answer, errors.KafkaError) and not isinstance(answer, forgiven):
                problems.append(answer)
            waiting -= 1
            if not waiting:
                tell(problems[0] if problems else None)

        for key, asked in questions:
            waiting += 1
            self._add(key, asked, at, told)
        told(None)

    # --- the port

    def initialize(self, group_id: str, state_epoch: int, offsets: StartOffsets, at: Instant, tell: Tell) -> None:
        """See `Persister`."""
        questions = [
            (SharePartitionKey(group_id, topic_id, partition), InitializeState(state_epoch, start))
            for topic_id, partitions in offsets.items()
            for partition, start in partitions.items()
        ]
        self._add_all(questions, at, tell)

    def read(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        at: Instant,
        tell: Callable[[SharePartitionState | errors.KafkaError], None],
    ) -> None:
        """See `Persister`."""
        self._add(key, ReadState(leader_epoch), at, tell)  # type: ignore[arg-type]  # as it is answered

    def write(self, key: SharePartitionKey, update: StateUpdate, at: Instant, tell: Tell) -> None:
        """See `Persister`."""
        self._add(key, update, at, tell)  # type: ignore[arg-type]  # as it is answered

    def delete(self, group_id: str, partitions: Mapping[bytes, Sequence[int]], at: Instant, tell: Tell) -> None:
        """See `Persister`."""
        questions = [
            (SharePartitionKey(group_id, topic_id, partition), DeleteState())
            for topic_id, numbers in partitions.items()
            for partition in numbers
        ]
        # Where the topic is gone its states are gone with it.
        self._add_all(questions, at, tell, errors.UnknownTopicOrPartitionError)

    def read_summary(
        self, key: SharePartitionKey, at: Instant, tell: Callable[[StateSummary | errors.KafkaError], None]
    ) -> None:
        """See `Persister`."""
        self._add(key, ReadSummary(), at, tell)  # type: ignore[arg-type]  # as it is answered
