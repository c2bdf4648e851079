"""The thread that drives a core."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.network.network_client import NetworkClient


class Core(Protocol):
    """A state machine with a `NetworkClient` of its own, driven by one owner until it is done."""

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to drive."""

    @property
    def network_client(self) -> NetworkClient:
        """What the core polls: where it waits."""

    def run_once(self, now: float) -> float:
        """Do what is due, then poll the network once; returns the time after that."""

    def fail(self, error: BaseException) -> None:
        """Come to an end because of an error that the core did not expect, and pass it to the application."""

    def close(self) -> None:
        """Close the connections."""


class CoreThread(threading.Thread):
    """Runs a core until it is done. It is a daemon, so a program that forgets `close` still ends."""

    def __init__(self, core: Core, clock: Callable[[], float], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._core = core
        self._clock = clock

    def run(self) -> None:
        """Drive the core. An error that it did not expect is the beginning of its end."""
        core = self._core
        try:
            now = self._clock()
            while not core.is_done:
                try:
                    now = core.run_once(now)
                except BaseException as error:  # noqa: BLE001 - the thread must not end without a word
                    core.fail(error)
                    now = self._clock()
        finally:
            core.close()
