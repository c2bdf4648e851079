"""Raises an error before a chosen line of the house's code, as a signal handler does, or an unforeseen fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import barnabas

_HOME = Path(barnabas.__file__).parent


class LineErrors:
    """Counts the lines that run inside of `watching`, and raises `error` once, before line `at`.

    Only files below `rooms` (paths inside of `barnabas`) count. Inside of `sparing` nothing counts.
    """

    def __init__(self, rooms: tuple[str, ...], at: int = -1, error: Callable[[], BaseException] | None = None) -> None:
        self._rooms = tuple(str(_HOME / room) for room in rooms)
        self._at = at
        self._error = error
        self._is_spared = False
        self.count = 0
        #: Where the error was raised; empty before.
        self.place = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the lines that this thread runs meanwhile."""
        before = sys.gettrace()
        if not self.place:
            sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """Let what runs meanwhile alone."""
        before, self._is_spared = self._is_spared, True
        try:
            yield
        finally:
            self._is_spared = before

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._rooms) else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and not self._is_spared:
            self.count += 1
            if self.count == self._at and self._error is not None:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_name})"
                sys.settrace(None)
                raise self._error()
        return self._line
