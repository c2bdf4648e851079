"""Threads that run one at a time, in the order a test chooses: every interleaving is the same each time.

A step of a thread ends where it would have to wait: for the monitor, or inside it. Real threads run the code, but only
the one that was given the baton; so a test knows who waits for what, and needs no sleeping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

_GIVE_UP = 10.0
_stages: list[Stage] = []


class LeftAloneError(BaseException):
    """Ends the thread of an actor that still waits when its test is over."""


def end_all() -> None:
    """End every actor that still waits, as no test runs it any more; they are gone on return."""
    while _stages:
        for actor in _stages.pop().actors:
            actor.end()


class Actor:
    """One thread of a test; `run` lets it go on until it waits or has ended."""

    def __init__(self, stage: Stage, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.state = "new"  # then: running, blocked (at the monitor's door), waiting (inside it), done
        self.result: Any = None
        self.error: BaseException | None = None
        self._stage = stage
        self._is_left = False
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, args=(work,), daemon=True)

    def run(self) -> str:
        """Go on as far as possible; returns the state."""
        if self.state == "new":
            self.state = "running"
            self._stage.current = self
            self._thread.start()
        elif self._stage.may_go_on(self):
            self.state = "running"
            self._stage.current = self
            self._go.release()
        else:
            return self.state
        assert self._stage.stopped.acquire(timeout=_GIVE_UP), f"{self.name} neither waits nor ends"
        return self.state

    def pause(self, state: str) -> None:
        """Called by the thread itself where it must wait."""
        self.state = state
        self._stage.stopped.release()
        self._go.acquire()
        if self._is_left:
            raise LeftAloneError(self.name)

    def end(self) -> None:
        """Let the thread end where it waits."""
        self._is_left = True
        self._go.release()
        if self._thread.ident is not None:
            self._thread.join(_GIVE_UP)

    def _main(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.state = "done"
        self._stage.stopped.release()


class Stage:
    """A monitor like `threading.Condition`, and the actors that meet in it."""

    def __init__(self) -> None:
        self.stopped = threading.Semaphore(0)
        self.current: Actor | None = None
        self.owner: Actor | None = None
        self.notified: set[Actor] = set()
        self.waiting: list[Actor] = []
        self.notifications = 0
        self._hold_inside: set[str] = set()
        self.actors: list[Actor] = []
        _stages.append(self)

    def actor(self, name: str, work: Callable[[], Any]) -> Actor:
        """A thread that has not begun yet."""
        self.actors.append(Actor(self, name, work))
        return self.actors[-1]

    def hold_inside(self, actor: Actor) -> None:
        """Stop this actor for once right after it got the lock: others then find the door closed."""
        self._hold_inside.add(actor.name)

    def may_go_on(self, actor: Actor) -> bool:
        """Whether what the actor waits for has come."""
        if actor.state == "held":
            return True
        if actor.state == "blocked":
            return self.owner is None
        return actor.state == "waiting" and actor in self.notified and self.owner is None

    # --- the monitor

    def __enter__(self) -> bool:
        actor = self._me()
        while self.owner is not None:
            actor.pause("blocked")
        self.owner = actor
        if actor.name in self._hold_inside:
            self._hold_inside.discard(actor.name)
            actor.pause("held")
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.owner is self._me(), "only the owner may leave the monitor"
        self.owner = None

    def wait(self) -> None:
        """Let go of the lock until notified and run again."""
        actor = self._me()
        assert self.owner is actor, "only the owner may wait in the monitor"
        self.owner = None
        self.waiting.append(actor)
        actor.pause("waiting")
        self.waiting.remove(actor)
        self.notified.discard(actor)
        self.owner = actor

    def notify_all(self) -> None:
        """Let all who wait go on, when they are run."""
        assert self.owner is self._me(), "only the owner may notify"
        self.notifications += 1
        self.notified.update(self.waiting)

    def _me(self) -> Actor:
        assert self.current is not None
        return self.current
