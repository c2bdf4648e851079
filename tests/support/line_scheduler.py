"""Threads that take turns line by line, in an order that a test chooses: what threads can do to each other, again.

Real threads run the code, one at a time; before each line of the modules at hand the next one is chosen. A thread that
waits is left out until what it waits for is there. Time passes only where everybody waits.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from random import Random
from types import FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import Any

_GIVE_UP = 20.0
# Divisible by every number of threads that a test has.
_CHOICES = 12
_FOR_EVER = float("inf")


def turns(seed: int) -> Iterator[int]:
    """Whose turn it is, for ever: another one before each line."""
    source = Random(seed)
    return iter(lambda: source.randrange(_CHOICES), None)


def strides(seed: int) -> Iterator[int]:
    """Whose turn it is and for how many lines: some stop at each line, where others get through whole functions."""
    source = Random(seed)
    more = (0, 0, 1, 3, 10, 30, 100, 300)
    return iter(lambda: source.randrange(_CHOICES) + _CHOICES * source.choice(more), None)


class _AbandonedError(BaseException):
    """The run is given up, and with it this thread."""


class _Turn:
    """One of the threads."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.go = threading.Semaphore(0)
        self.is_free: Callable[[], bool] | None = None
        self.deadline = _FOR_EVER
        self.interrupts: list[Callable[[], object]] = []
        self.is_done = False
        self.result: object = None

    def can_go_on(self, now: float) -> bool:
        return self.is_free is None or bool(self.interrupts) or self.is_free() or self.deadline <= now


class LineScheduler:
    """`run(*works)` gives what each of them returned, or the error that it raised; a failed assertion ends the run."""

    def __init__(
        self,
        choices: Iterable[int],
        *modules: ModuleType,
        let_pass: Callable[[float], float] | None = None,
        most_steps: int = 1_000_000,
    ) -> None:
        """`choices` pick among those that can go on; after the last one the first thread does.

        A choice is a number: its remainder by 12 says who, the rest for how many lines more. `let_pass(until)` has
        time pass, at most until then, and tells how far it came. More than `most_steps` lines are no progress.
        """
        self.now = 0.0
        self._choices = iter(choices)
        self._files = {module.__file__ for module in modules}
        self._let_pass = let_pass or self._jump
        self._steps_left = most_steps
        self._lines_left = 0
        # What is asked to choose, and what happens while time passes, may run through the modules at hand as well.
        self._is_choosing = False
        self._turns: list[_Turn] = []
        self._over = threading.Semaphore(0)
        self._failure: AssertionError | None = None
        self._by_thread: dict[int, _Turn] = {}

    def threading(self) -> SimpleNamespace:
        """To stand in the place of the module `threading` in the modules at hand."""
        return SimpleNamespace(
            Lock=lambda: ScheduledLock(self), get_ident=threading.get_ident, TIMEOUT_MAX=threading.TIMEOUT_MAX
        )

    def run(self, *works: Callable[[], object]) -> list[object]:
        """Run them all, and those that they `spawn`, to their ends."""
        self._turns = [_Turn(work) for work in works]
        threads = [self._start(turn) for turn in self._turns]
        self._next().go.release()
        left = self._steps_left
        while not self._over.acquire(timeout=_GIVE_UP):
            assert self._steps_left < left, "a thread neither waits nor ends"
            left = self._steps_left
        for thread in threads if self._failure is None else ():
            thread.join()
        if self._failure is not None:
            raise self._failure
        return [turn.result for turn in self._turns[: len(works)]]

    def spawn(self, work: Callable[[], object]) -> _Turn:
        """One thread more, from one of those that run."""
        turn = _Turn(work)
        self._turns.append(turn)
        self._start(turn)
        return turn

    def interrupt(self, number: int, handler: Callable[[], object]) -> None:
        """Have a thread run a signal's handler before its next line, even if it waits."""
        self._turns[number].interrupts.append(handler)

    def wait(self, is_free: Callable[[], bool], deadline: float = _FOR_EVER) -> bool:
        """Let the others run until something is so, or a time has come; tells whether it is so."""
        turn = self._by_thread[threading.get_ident()]
        while not is_free():
            if deadline <= self.now:
                return False
            turn.is_free, turn.deadline = is_free, deadline
            self._lines_left = 0
            self.pause()
            turn.is_free = None
        return True

    def pause(self) -> None:
        """Let whoever is chosen go on; does nothing on a thread that takes no part."""
        turn = self._by_thread.get(threading.get_ident())
        if turn is None or self._is_choosing:
            return
        if self._failure is not None:
            raise _AbandonedError
        self._hand_over(turn)
        while turn.interrupts:
            turn.interrupts.pop(0)()

    def _start(self, turn: _Turn) -> threading.Thread:
        thread = threading.Thread(target=self._main, args=(turn,), daemon=True)
        thread.start()
        return thread

    def _main(self, turn: _Turn) -> None:
        turn.go.acquire()
        self._by_thread[threading.get_ident()] = turn
        sys.settrace(self._trace)
        try:
            if self._failure is None:
                turn.result = turn.work()
        except _AbandonedError:
            pass
        except AssertionError as failure:
            self._give_up(failure)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            turn.result = error
        finally:
            sys.settrace(None)
            del self._by_thread[threading.get_ident()]
            turn.is_done = True
            self._lines_left = 0
            if self._failure is None:
                self._hand_over(turn)

    def _hand_over(self, turn: _Turn) -> None:
        """Choose who goes on; comes back when it is this one's turn again, or at once when it has ended."""
        self._steps_left -= 1
        if self._lines_left and turn.can_go_on(self.now) and self._steps_left:
            self._lines_left -= 1
            return
        if all(other.is_done for other in self._turns):
            self._over.release()
            return
        try:
            assert self._steps_left > 0, "the threads do not come to an end"
            chosen = self._next()
        except AssertionError as failure:
            self._give_up(failure)
            if not turn.is_done:
                raise _AbandonedError from failure
            return
        if chosen is not turn:
            chosen.go.release()
            if not turn.is_done:
                turn.go.acquire()
                if self._failure is not None:
                    raise _AbandonedError

    def _give_up(self, failure: AssertionError) -> None:
        self._failure = failure
        for turn in self._turns:
            turn.go.release()
        self._over.release()

    def _next(self) -> _Turn:
        self._is_choosing = True
        try:
            return self._choose()
        finally:
            self._is_choosing = False

    def _choose(self) -> _Turn:
        while True:
            alive = [turn for turn in self._turns if not turn.is_done]
            ready = [turn for turn in alive if turn.can_go_on(self.now)]
            if ready:
                choice = next(self._choices, 0)
                self._lines_left = choice // _CHOICES
                return ready[choice % _CHOICES % len(ready)]
            self.now = self._let_pass(min(turn.deadline for turn in alive))

    def _jump(self, until: float) -> float:
        assert until < _FOR_EVER, "all threads wait for each other"
        return until

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self.pause()
        return self._trace


class ScheduledLock:
    """`threading.Lock` for the threads of a scheduler."""

    def __init__(self, scheduler: LineScheduler) -> None:
        self._scheduler = scheduler
        self.is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of `threading.Lock`."""
        if self.is_held and blocking:
            deadline = _FOR_EVER if timeout < 0 else self._scheduler.now + timeout
            self._scheduler.wait(lambda: not self.is_held, deadline)
        if self.is_held:
            return False
        self.is_held = True
        return True

    def release(self) -> None:
        """As of `threading.Lock`."""
        assert self.is_held, "a lock is released that nobody holds"
        self.is_held = False

    def locked(self) -> bool:
        """As of `threading.Lock`."""
        return self.is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
