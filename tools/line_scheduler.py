"""Threads that take turns line by line, in an order that a test chooses: what two threads can do to each other, again.

Real threads run the code, one at a time; before each line of the modules at hand the next one is chosen. A thread that
waits for a lock is left out until it is free. Where everybody waits, a wait with a time-out ends, if there is one.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import Any

_GIVE_UP = 20.0


class _Turn:
    """One of the threads."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.go = threading.Semaphore(0)
        self.waits_for: ScheduledLock | None = None
        self.may_time_out = False
        self.timed_out = False
        self.is_done = False
        self.result: object = None


class LineScheduler:
    """`run(*works)` gives what each of them returned, or the error that it raised."""

    def __init__(self, choices: Iterable[int], *modules: ModuleType) -> None:
        """`choices` pick among those that can go on, one for each step; after the last one the first thread does."""
        self._choices = iter(choices)
        self._files = {module.__file__ for module in modules}
        self._turns: list[_Turn] = []
        self._stopped = threading.Semaphore(0)
        self._by_thread: dict[int, _Turn] = {}

    def threading(self) -> SimpleNamespace:
        """To stand in the place of the module `threading` in the modules at hand."""
        return SimpleNamespace(
            Lock=lambda: ScheduledLock(self), get_ident=threading.get_ident, TIMEOUT_MAX=threading.TIMEOUT_MAX
        )

    def run(self, *works: Callable[[], object]) -> list[object]:
        """Run them all to their ends."""
        self._turns = [_Turn(work) for work in works]
        threads = [threading.Thread(target=self._main, args=(turn,), daemon=True) for turn in self._turns]
        for thread in threads:
            thread.start()
        while not all(turn.is_done for turn in self._turns):
            self._next().go.release()
            assert self._stopped.acquire(timeout=_GIVE_UP), "a thread neither waits nor ends"
        for thread in threads:
            thread.join()
        return [turn.result for turn in self._turns]

    def _next(self) -> _Turn:
        alive = [turn for turn in self._turns if not turn.is_done]
        ready = [turn for turn in alive if turn.waits_for is None or not turn.waits_for.is_held]
        chosen = next(self._choices, 0)
        if ready:
            return ready[chosen % len(ready)]
        ready = [turn for turn in alive if turn.may_time_out]
        assert ready, "all threads wait for each other"
        turn = ready[chosen % len(ready)]
        turn.timed_out = True
        return turn

    def _main(self, turn: _Turn) -> None:
        self._by_thread[threading.get_ident()] = turn
        turn.go.acquire()
        sys.settrace(self._trace)
        try:
            turn.result = turn.work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            turn.result = error
        finally:
            sys.settrace(None)
            turn.is_done = True
            self._stopped.release()

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self.pause()
        return self._trace

    def pause(self) -> _Turn | None:
        """Let whoever is chosen go on; None on a thread that takes no part."""
        turn = self._by_thread.get(threading.get_ident())
        if turn is not None:
            self._stopped.release()
            turn.go.acquire()
        return turn


class ScheduledLock:
    """`threading.Lock` for the threads of a scheduler."""

    def __init__(self, scheduler: LineScheduler) -> None:
        self._scheduler = scheduler
        self.is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of `threading.Lock`."""
        turn: _Turn | None = None
        while self.is_held and blocking:
            turn = self._scheduler._by_thread[threading.get_ident()]
            turn.waits_for, turn.may_time_out, turn.timed_out = self, timeout >= 0, False
            self._scheduler.pause()
            turn.waits_for, turn.may_time_out = None, False
            if turn.timed_out:
                return False
        if self.is_held:
            return False
        self.is_held = True
        return True

    def release(self) -> None:
        """As of `threading.Lock`."""
        assert self.is_held, "a lock is released that nobody holds"
        self.is_held = False

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
