"""Responses that wait until their records are committed (DeferredEventQueue)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from barnabas.broker.faults import OnFault, raise_fault, run_all
from barnabas.errors import KafkaError, UnknownServerError

T = TypeVar("T")
U = TypeVar("U")


class Deferred(Generic[T]):
    """A response that comes once: the value, or the error that took its place.

    `then(callback)` calls back with both, one of them None; at once if it is known already.
    """

    __slots__ = ("_callbacks", "is_done", "problem", "value")

    def __init__(self) -> None:
        self.is_done = False
        self.value: T | None = None
        self.problem: KafkaError | None = None
        self._callbacks: list[Callable[[T | None, KafkaError | None], None]] = []

    @classmethod
    def of(cls, value: T) -> Deferred[T]:
        """Return a response that is known."""
        made = cls()
        made.complete(value)
        return made

    def complete(self, value: T | None, problem: KafkaError | None = None) -> None:
        """Give the response; a second one is ignored, but told to who has not heard the first for a fault."""
        if not self.is_done:
            self.is_done, self.value, self.problem = True, value, problem
        run_all(self._to_call())

    def _to_call(self) -> Iterator[Callable[[], None]]:
        while self._callbacks:
            yield partial(self._callbacks.pop(0), self.value, self.problem)

    def map(
        self, shown: Callable[[T], U], instead: Callable[[KafkaError], U | None] = lambda problem: None
    ) -> Deferred[U]:
        """Return a response made of this one; `instead` may make one of an error, None leaves it an error.

        A fault in making it is raised, and is an `UnknownServerError` to who waits for it.
        """
        made: Deferred[U] = Deferred()

        def tell(value: T | None, problem: KafkaError | None) -> None:
            try:
                if problem is None:
                    made.complete(shown(cast("T", value)))
                else:
                    found = instead(problem)
                    made.complete(found, None if found is not None else problem)
            except Exception:
                made.complete(None, _fault())
                raise

        self.then(tell)
        return made

    def then(self, callback: Callable[[T | None, KafkaError | None], None]) -> None:
        """Call back when the response is known."""
        if self.is_done:
            callback(self.value, self.problem)
        else:
            self._callbacks.append(callback)


class _Waiting(NamedTuple):
    offset: int
    deferred: Deferred[Any]
    value: object


class DeferredQueue:
    """Responses in the order of the offsets that they wait for. A fault in one answer is that answer's alone."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        #: Told what an answer has raised; the others go on.
        self.on_fault: OnFault = raise_fault

    @property
    def highest_offset(self) -> int | None:
        """The last offset that a response waits for; None if none waits."""
        return self._waiting[-1].offset if self._waiting else None

    def add(self, offset: int, deferred: Deferred[T], value: T) -> None:
        """Let a response wait; offsets never become smaller."""
        self._waiting.append(_Waiting(offset, deferred, value))

    def complete_up_to(self, offset: int) -> None:
        """Give the responses whose records are committed, the first first."""
        while self._waiting and self._waiting[0].offset <= offset:
            _, deferred, value = self._waiting.popleft()
            self._complete(deferred, value, None)

    def fail_all(self, problem: KafkaError) -> None:
        """Give an error in the place of all responses."""
        waiting, self._waiting = self._waiting, deque()
        for _, deferred, _ in waiting:
            self._complete(deferred, None, problem)

    def _complete(self, deferred: Deferred[Any], value: object, problem: KafkaError | None) -> None:
        try:
            deferred.complete(value, problem)
        except Exception as fault:  # noqa: BLE001 - of this answer alone
            self.on_fault("giving the answer of the controller", fault)
            # Who waits for it would do so for ever.
            deferred.complete(None, _fault())


def _fault() -> KafkaError:
    return UnknownServerError("the controller failed at making the answer; what was asked may have been done")
