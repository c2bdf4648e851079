"""What waits for the disk, beside the loop: flushes that are acknowledged, commits of the metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from queue import SimpleQueue

#: So many flushes may wait for the disk at the same time.
THREADS = 8

Work = Callable[[], None]

log = logging.getLogger("barnabas.broker")


class Storage(Protocol):
    """Where work that waits for the disk is done."""

    def submit(self, work: Work, done: Work) -> None:
        """Do `work`, which keeps its errors to itself; `done` is called on the loop afterwards."""

    def drain(self) -> None:
        """Return when everything that was submitted is done, and `done` was called for it."""


class InlineStorage:
    """Does the work at once: for tests, for tools, and for a simulator that gives each operation its own delay."""

    def submit(self, work: Work, done: Work) -> None:
        """See `Storage`."""
        work()
        done()

    def drain(self) -> None:
        """See `Storage`."""


class CountingStorage:
    """Passes work on, and counts what is in flight."""

    __slots__ = ("_storage", "in_flight")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.in_flight = 0

    def submit(self, work: Work, done: Work) -> None:
        """See `Storage`."""
        self.in_flight += 1

        def finish() -> None:
            self.in_flight -= 1
            done()

        self._storage.submit(work, finish)

    def drain(self) -> None:
        """See `Storage`."""
        self._storage.drain()


class GuardedStorage:
    """Passes work on; what the work or its `done` raises by a fault of this program goes to `on_fault`.

    `done` is called after work that has raised, too.
    """

    __slots__ = ("_on_fault", "_storage")

    def __init__(self, storage: Storage, on_fault: Callable[[str, Exception], None]) -> None:
        self._storage = storage
        self._on_fault = on_fault

    def submit(self, work: Work, done: Work) -> None:
        """See `Storage`."""
        problems: list[Exception] = []

        def run() -> None:
            try:
                work()
            except Exception as problem:  # noqa: BLE001 - told on the loop
                problems.append(problem)

        def finish() -> None:
            for problem in problems:
                self._on_fault("work beside the loop", problem)
            try:
                done()
            except Exception as problem:  # noqa: BLE001 - who delivers it does so for others, too
                self._on_fault("what follows work beside the loop", problem)

        self._storage.submit(run, finish)

    def drain(self) -> None:
        """See `Storage`."""
        self._storage.drain()


class StorageThreads:
    """Does the work in a few threads, which are started when they are first needed.

    `on_done` is called from one of these threads when something is done; the loop then calls `deliver`. Work that was
    submitted together may be done in any order.
    """

    def __init__(self) -> None:
        self.on_done: Callable[[], object] = lambda: None
        self._submitted: SimpleQueue[tuple[Work, Work] | None] | None = None
        self._done: SimpleQueue[Work] | None = None
        self._threads = 0
        self._in_flight = 0

    def submit(self, work: Work, done: Work) -> None:
        """See `Storage`."""
        if self._submitted is None:
            from queue import SimpleQueue

            self._submitted, self._done = SimpleQueue(), SimpleQueue()
        self._in_flight += 1
        self._submitted.put((work, done))
        if self._threads < min(self._in_flight, THREADS):
            self._start_thread(self._submitted)

    def _start_thread(self, submitted: SimpleQueue[tuple[Work, Work] | None]) -> None:
        from threading import Thread

        thread = Thread(target=self._run, args=(submitted,), name=f"storage-{self._threads + 1}", daemon=True)
        try:
            thread.start()
            self._threads += 1
        except RuntimeError:
            # The system gives no more threads. Those that there are do it; without any, it is done on the loop.
            if not self._threads and (task := submitted.get()) is not None:
                self._do(*task)

    def _run(self, submitted: SimpleQueue[tuple[Work, Work] | None]) -> None:
        while (task := submitted.get()) is not None:
            try:
                self._do(*task)
            except Exception:  # what is submitted later needs this thread
                log.exception("work beside the loop was done, and its end could not be told")

    def _do(self, work: Work, done: Work) -> None:
        assert self._done is not None
        try:
            work()
        finally:
            self._done.put(done)
            self.on_done()

    def deliver(self) -> None:
        """Call `done` of what is done by now."""
        while self._done is not None and not self._done.empty():
            self._finish()

    def drain(self) -> None:
        """See `Storage`."""
        while self._in_flight:
            self._finish()

    def close(self) -> None:
        """Do what was submitted, and end the threads; what is submitted later starts others."""
        self.drain()
        if self._submitted is not None:
            for _ in range(self._threads):
                self._submitted.put(None)
            self._threads = 0

    def _finish(self) -> None:
        assert self._done is not None
        done = self._done.get()
        self._in_flight -= 1
        done()
