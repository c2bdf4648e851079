"""What callers of `Selector.wakeup` and the thread that polls do to each other, line by line; without sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from barnabas.network import selector as selector_module
from barnabas.network.selector import Selector
from tests.support.line_scheduler import LineScheduler, strides

CALLS = 4


class Pipe:
    """A pair of sockets, and the one thing that a selector looks at."""

    def __init__(self, scheduler: LineScheduler) -> None:
        self._scheduler = scheduler
        self._waiting = b""

    def setblocking(self, _flag: bool) -> None:
        """It never blocks."""

    def send(self, data: bytes) -> int:
        """Leave a byte for the other end."""
        self._waiting += data
        return len(data)

    def recv(self, _size: int) -> bytes:
        """Take what was left."""
        if not self._waiting:
            raise BlockingIOError
        data, self._waiting = self._waiting, b""
        return data

    def register(self, *_arguments: object) -> None:
        """There is nothing else to look at."""

    def select(self, timeout: float) -> list[Any]:
        """Wait until something was left."""
        is_ready = self._scheduler.wait(lambda: bool(self._waiting), self._scheduler.now + timeout)
        return [(SimpleNamespace(data=None), 1)] if is_ready else []


@pytest.mark.parametrize("callers", [1, 2])
def test_no_wakeup_is_lost_between_two_polls(callers: int) -> None:
    for seed in range(300):
        scheduler = LineScheduler(strides(seed), selector_module)
        pipe = Pipe(scheduler)
        with (
            mock.patch.object(selector_module, "socket", SimpleNamespace(socketpair=lambda pipe=pipe: (pipe, pipe))),
            mock.patch.object(selector_module, "selectors", SimpleNamespace(DefaultSelector=lambda pipe=pipe: pipe)),
        ):
            selector = Selector()
        said: list[int] = []
        seen: list[int] = [0]

        def call(
            said: list[int] = said,
            seen: list[int] = seen,
            selector: Selector = selector,
            scheduler: LineScheduler = scheduler,
        ) -> None:
            for _ in range(CALLS):
                said.append(1)
                number = len(said)
                selector.wakeup()
                scheduler.wait(lambda number=number: seen[0] >= number)

        def poll(said: list[int] = said, seen: list[int] = seen, selector: Selector = selector) -> None:
            while seen[0] < CALLS * callers:
                selector.poll(60.0, 0.0)
                seen[0] = len(said)

        ends = scheduler.run(poll, *[call] * callers)

        assert ends == [None] * (1 + callers)
        assert scheduler.now == 0.0, f"seed {seed}: a poll waited although there was something to see"
