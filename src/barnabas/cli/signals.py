"""Ending on Ctrl-C and SIGTERM where the work can be ended well."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """In a `with` block the first SIGINT or SIGTERM calls `stop`, the second raises KeyboardInterrupt.

    `code` is then the exit code that shells expect: 128 and the number of the signal.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before: dict[int, Any] = {}
        self.received = 0

    @property
    def code(self) -> int:
        """The exit code: 0 without a signal."""
        return 128 + self.received if self.received else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received:
            raise KeyboardInterrupt
        self.received = number
        self._stop()

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
