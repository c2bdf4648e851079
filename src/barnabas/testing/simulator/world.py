"""Virtual time, and threads that take turns: everything that happens, happens in an order that the seed decides."""

from __future__ import annotations

import heapq
import traceback
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from math import inf
from random import Random
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from barnabas import anatomy

START = 1000.0
START_MS = 1_700_000_000_000
#: More events than any run needs in a second (they need up to 2,300): beyond, something turns and gets nowhere.
MOST_EVENTS = 10_000


class LivelockError(RuntimeError):
    """The run does not get on: within a second more happens than can."""


class Connections(Protocol):
    """What a process has to the network."""

    def close_all(self) -> None:
        """End them, as a kernel does when the process ends."""

    def vanish(self) -> None:
        """End them without a word, as a loss of power does."""


class Process:
    """A process on a machine of its own: it can be frozen, killed, and its wall clock can be wrong."""

    __slots__ = ("clock_offset_ms", "frozen_until", "is_dead", "name", "resets_connections", "selectors")

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock_offset_ms = 0
        self.frozen_until = 0.0
        self.is_dead = False
        #: Whether of a connection that it gives up nothing arrives any more that has not arrived by then.
        self.resets_connections = False
        self.selectors: list[Connections] = []


class PythonThread(Protocol):
    """A `threading.Thread` that runs as a simulated one."""

    name: str
    _simulated: SimulatedThread

    def run(self) -> None:
        """Run its target."""


class SimulatedThread:
    """A thread of a process; its code runs on a greenlet, and gives way only where it waits."""

    __slots__ = ("done", "greenlet", "ident", "joining", "name", "process", "python_thread", "turn", "woken")

    def __init__(self, name: str, process: Process, ident: int, python_thread: PythonThread | None) -> None:
        self.name = name
        self.process = process
        self.ident = ident
        self.python_thread = python_thread
        self.greenlet: greenlet | None = None
        self.done = False
        self.turn = 0
        self.woken = False
        self.joining: list[SimulatedThread] = []


class World:
    """The clock, the events to come, the threads, and the history of one run.

    `counts` says what the run really did. `violations` are what it found; they end it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        #: More events than that in a second, and the run does not get on.
        self.most_events = MOST_EVENTS
        self.now = START
        self.counts: Counter[str] = Counter()
        self.history: list[tuple[float, str, str]] = []
        self.violations: list[str] = []
        self.is_over = False
        self.by_greenlet: dict[greenlet, SimulatedThread] = {}
        self.random = self.stream("schedule")
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._sequence = 0
        self._idents = 0
        self._streams = 0
        self._digest = blake2b(digest_size=16)
        self._hub = getcurrent()

    # --- randomness

    def stream(self, name: str) -> Random:
        """Return randomness of its own, so that what one part draws does not change what another one gets."""
        return Random(f"{self.seed}/{name}")

    def next_seed(self) -> int:
        """Return a seed for a source that asked for none."""
        self._streams += 1
        return self.seed * 1_000_003 + self._streams

    # --- what happened

    def note(self, who: str, what: str) -> None:
        """Write a line into the history."""
        self.history.append((self.now, who, what))

    def digest_bytes(self, data: bytes | bytearray | memoryview) -> None:
        """Let bytes on their way count in the digest."""
        self._digest.update(data)

    def digest(self) -> str:
        """Return a fingerprint of the whole run: times, lines of the history, bytes on the network."""
        whole = self._digest.copy()
        for when, who, what in self.history:
            whole.update(f"{when!r} {who} {what}\n".encode())
        whole.update(repr(sorted(self.counts.items())).encode())
        return whole.hexdigest()

    def violate(self, what: str) -> None:
        """Note that something must not be as it is; the run ends."""
        self.violations.append(what)
        self.note("VIOLATION", what)
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.Violation(what))
        self.is_over = True

    # --- time

    def now_ms(self, process: Process | None = None) -> int:
        """Return the wall clock of a process, in epoch milliseconds."""
        offset = process.clock_offset_ms if process is not None else 0
        return START_MS + int((self.now - START) * 1000) + offset

    def wall_clock_ms(self) -> int:
        """Return the wall clock of the process whose thread asks, in epoch milliseconds."""
        thread = self.current()
        return self.now_ms(None if thread is None else thread.process)

    def at(self, when: float, action: Callable[..., object], *arguments: Any) -> None:
        """Have something happen at a time; no earlier than now."""
        self._sequence += 1
        heapq.heappush(self._events, (max(when, self.now), self._sequence, action, arguments))

    def after(self, seconds: float, action: Callable[..., object], *arguments: Any) -> None:
        """Have something happen when so many seconds have passed."""
        self.at(self.now + seconds, action, *arguments)

    def run(self) -> None:
        """Let things happen until the run is over."""
        self._hub = getcurrent()
        events = self._events
        pop = heapq.heappop
        began, most = self.now, self._sequence + self.most_events
        while events and not self.is_over:
            self.now, _, action, arguments = pop(events)
            action(*arguments)
            if self._sequence > most:
                if self.now - began < 1.0:
                    raise LivelockError(
                        f"{self.most_events} events before {self.now - START:.3f} s: something turns and turns"
                    )
                began, most = self.now, self._sequence + self.most_events

    # --- threads

    def current(self) -> SimulatedThread | None:
        """Return the thread that runs; None in events, which must not wait."""
        return self.by_greenlet.get(getcurrent())

    def spawn(
        self, name: str, process: Process, run: Callable[[], object], python_thread: PythonThread | None = None
    ) -> SimulatedThread:
        """Start a thread; it first runs a moment later."""
        self._idents += 1
        thread = SimulatedThread(name, process, self._idents, python_thread)
        thread.greenlet = greenlet(lambda: self._main(thread, run))
        self.by_greenlet[thread.greenlet] = thread
        self.after(self.random.random() * 0.0002, self._resume, thread, thread.turn)
        return thread

    def _main(self, thread: SimulatedThread, run: Callable[[], object]) -> None:
        try:
            run()
        except Exception as problem:  # noqa: BLE001 - any error is a finding of the run
            self.violate(f"{thread.name} ended with {''.join(traceback.format_exception(problem)).rstrip()}")
        thread.done = True
        for waiting in thread.joining:
            self.unpark(waiting)

    def _resume(self, thread: SimulatedThread, turn: int) -> None:
        if thread.turn != turn or thread.done:
            return
        process = thread.process
        if process.is_dead:
            return
        if process.frozen_until > self.now:
            self.at(process.frozen_until, self._resume, thread, turn)
            return
        thread.turn += 1
        assert thread.greenlet is not None
        self._hub = getcurrent()
        thread.greenlet.switch()

    def park(self, deadline: float) -> None:
        """Let others run until this thread is unparked, or until the deadline."""
        thread = self.current()
        assert thread is not None, "an event must not wait"
        if not thread.woken:
            if deadline != inf:
                self.at(deadline, self._resume, thread, thread.turn)
            self._hub.switch()
        thread.woken = False

    def unpark(self, thread: SimulatedThread) -> None:
        """Let a parked thread go on, or not wait the next time."""
        if not thread.woken:
            thread.woken = True
            self.after(self.random.random() * 0.0002, self._resume, thread, thread.turn)

    def sleep(self, seconds: float) -> None:
        """Let others run for so long."""
        deadline = self.now + seconds
        while self.now < deadline:
            self.park(deadline)

    def join(self, thread: SimulatedThread, timeout: float | None) -> None:
        """Wait until a thread has ended."""
        deadline = inf if timeout is None else self.now + timeout
        me = self.current()
        assert me is not None
        thread.joining.append(me)
        while not thread.done and self.now < deadline:
            self.park(deadline)
        thread.joining.remove(me)
