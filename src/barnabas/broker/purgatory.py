"""Requests that wait: for data, for the other members of a group, for a deadline (Kafka's request purgatory)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.message import Message


class DelayedOperation:
    """A response that cannot be given yet.

    A handler returns one when it has nothing to answer now. It is answered once, by whichever comes first:
    - `complete(message)`, called by the part that has the answer (a group coordinator does this);
    - `try_complete(now)`, called after something happened to one of `keys`, gives a message instead of None;
    - `on_expiration(now)`, called at `deadline` (monotonic seconds; infinity: never).
    A subclass overrides what it needs; it can wait under as many keys as it likes. When the client goes away,
    `on_cancel` is called instead and no answer is sent. What is raised on the way to an answer is a fault of this
    program: it ends the operation (`fail`), and who waits for the answer is given the fault.
    """

    __slots__ = ("_fail", "_respond", "deadline", "done", "keys", "problem", "result")

    def __init__(self, deadline: float = inf, keys: tuple[Hashable, ...] = ()):
        self.deadline = deadline
        self.keys = keys
        self.done = False
        self.result: Message | None = None
        #: The fault that has ended it.
        self.problem: Exception | None = None
        self._respond: Callable[[Message], None] | None = None
        self._fail: Callable[[Exception], None] | None = None

    def try_complete(self, now: float) -> Message | None:
        """Return the response if it can be given now, else None; called for each wake-up of one of `keys`."""
        return None

    def on_expiration(self, now: float) -> Message:
        """Return the response at the deadline. The default serves operations that have no deadline."""
        raise NotImplementedError(f"{type(self).__name__} has a deadline and does not say what happens at it")

    def answer_fault(self) -> Message | None:
        """Return the response after a fault of this program, where it has to name what waited; None: any will do."""
        return None

    def on_cancel(self) -> None:
        """Let go of what was kept for the response: the client has gone."""

    def woken_by(self, key: Hashable) -> None:
        """Told which key woke the operation, before `try_complete`; for those who wait under many keys."""

    def complete(self, message: Message) -> None:
        """Answer with `message`, before or after the operation was parked; a second answer is ignored."""
        if self.done:
            return
        self.done = True
        self.result = message
        if self._respond is not None:
            try:
                self._respond(message)
            except Exception as problem:
                if self._fail is None:
                    raise
                self._fail(problem)

    def fail(self, problem: Exception) -> None:
        """End it without an answer, for a fault of this program, before or after it was parked."""
        if self.done:
            return
        self.done = True
        self.problem = problem
        if self._fail is not None:
            self._fail(problem)

    def cancel(self) -> None:
        """Give the operation up: no answer, and the purgatory forgets it."""
        if not self.done:
            self.done = True
            self.on_cancel()


class Purgatory:
    """Parked operations, by key and by deadline.

    `mark(key)` notes that something happened to a key; `complete_marked(now)` then tries every operation that waits
    under a marked key (`marked`), once, however many of its keys were marked and however often. An operation that
    raises is failed, and the others are tried; `on_fault(operation, problem)` gets the faults that are not given to
    who waits for an answer.
    """

    __slots__ = ("_heap", "_sequence", "_watchers", "marked", "on_fault", "parked")

    def __init__(self) -> None:
        self.on_fault: Callable[[DelayedOperation, Exception], None] = _raise
        self._heap: list[tuple[float, int, DelayedOperation]] = []
        self.marked: dict[Hashable, None] = {}
        self._sequence = 0
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self.parked = 0

    def park(
        self,
        operation: DelayedOperation,
        respond: Callable[[Message], None],
        fail: Callable[[Exception], None] | None = None,
    ) -> None:
        """Keep `operation` until it is answered; `respond` gets the message, at once if it is there already.

        `fail` gets a fault in its place: of the operation, or of `respond`.
        """
        failed = fail or (lambda problem: self.on_fault(operation, problem))
        if operation.done:
            if operation.problem is not None:
                failed(operation.problem)
            elif operation.result is not None:
                respond(operation.result)
            return

        def answer(message: Message) -> None:
            self._forget(operation)
            respond(message)

        def give_up(problem: Exception) -> None:
            self._forget(operation)
            failed(problem)

        operation._respond = answer
        operation._fail = give_up
        self.parked += 1
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        if operation.deadline != inf:
            self._sequence += 1
            heapq.heappush(self._heap, (operation.deadline, self._sequence, operation))
            self._compact()

    def cancel(self, operation: DelayedOperation) -> None:
        """Forget an operation whose client is gone."""
        if not operation.done:
            operation.cancel()
            self._forget(operation)

    def watch(self, key: Hashable, watcher: DelayedOperation) -> None:
        """Have an operation that is not parked told of a key (`woken_by`), until `unwatch`."""
        self._watchers.setdefault(key, {})[watcher] = None

    def unwatch(self, key: Hashable, watcher: DelayedOperation) -> None:
        """Tell it no more."""
        self._drop(key, watcher)

    def mark(self, key: Hashable) -> None:
        """Note that something happened to `key`: data came, a topic went."""
        if key in self._watchers:
            self.marked[key] = None

    def complete_marked(self, now: float) -> None:
        """Answer the operations under marked keys that can be answered now."""
        while self.marked:
            marked, self.marked = self.marked, {}
            woken: dict[DelayedOperation, None] = {}
            for key in marked:
                for operation in tuple(self._watchers.get(key, ())):
                    try:
                        operation.woken_by(key)
                        woken[operation] = None
                    except Exception as problem:  # noqa: BLE001 - a fault of one operation must not end the others
                        self._failed(operation, problem)
            for operation in woken:
                if not operation.done:
                    try:
                        message = operation.try_complete(now)
                        if message is not None:
                            operation.complete(message)
                    except Exception as problem:  # noqa: BLE001 - as above
                        self._failed(operation, problem)

    def tick(self, now: float) -> None:
        """Answer what is past its deadline."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            operation = heapq.heappop(heap)[2]
            if not operation.done:
                try:
                    operation.complete(operation.on_expiration(now))
                except Exception as problem:  # noqa: BLE001 - a fault of one operation must not end the others
                    self._failed(operation, problem)

    def next_deadline(self) -> float:
        """When `tick` has to be called next, in monotonic seconds; infinity if nothing waits for a deadline."""
        heap = self._heap
        while heap and heap[0][2].done:
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def _failed(self, operation: DelayedOperation, problem: Exception) -> None:
        if operation.done or operation._fail is None:
            # Answered, or it only watches.
            self.on_fault(operation, problem)
            return
        answer = None
        try:
            answer = operation.answer_fault()
        except Exception as another:  # noqa: BLE001 - then it fails as others do
            self.on_fault(operation, another)
        if answer is None:
            operation.fail(problem)
        else:
            self.on_fault(operation, problem)
            operation.complete(answer)

    def _forget(self, operation: DelayedOperation) -> None:
        if operation._respond is None:
            return
        operation._respond = None
        self.parked -= 1
        for key in operation.keys:
            self._drop(key, operation)

    def _drop(self, key: Hashable, operation: DelayedOperation) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(operation, None)
            if not watchers:
                del self._watchers[key]

    def _compact(self) -> None:
        # Answered operations stay in the heap until their deadline; this keeps their number bounded.
        if len(self._heap) > 64 and len(self._heap) > 4 * self.parked:
            self._heap = [entry for entry in self._heap if not entry[2].done]
            heapq.heapify(self._heap)


def _raise(operation: DelayedOperation, problem: Exception) -> None:
    raise problem
