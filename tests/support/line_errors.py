"""Raises an error before a chosen line of the house's code, as a signal handler does, or an unforeseen fault."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import barnabas

_HOME = Path(barnabas.__file__).parent
#: More places than there are, for the long form.
EVERY = 1_000_000


class LineErrors:
    """Counts the lines that run inside of `watching`, and raises `error` once, before the line numbered `at`.

    Only files whose path inside of `barnabas` begins with one of `paths` count. Inside of `sparing` nothing counts, nor
    where the interpreter lets no signal come through: at `try:`, and between the end of a `with` block and its
    `__exit__`. A run without `at` tells how many lines there are.
    """

    def __init__(self, paths: Iterable[str], at: int = -1, error: Callable[[], BaseException] | None = None) -> None:
        self._paths = tuple(str(_HOME / path) for path in paths)
        self._at = at
        self._error = error
        self._is_spared = False
        self.count = 0
        #: In a run without `at`: the numbers of each line.
        self.numbers: dict[tuple[str, int], list[int]] = {}
        #: Where the error was raised; empty before.
        self.place = ""

    @property
    def places(self) -> list[int]:
        """Where each line ran for the first time and for the last, of a run without `at`."""
        return sorted({number for numbers in self.numbers.values() for number in (numbers[0], numbers[-1])})

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
        code = frame.f_code
        return self._line if code.co_filename.startswith(self._paths) and code.co_name != "__del__" else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if event == "line" and not self._is_spared and frame.f_lasti not in _undisturbed(code):
            number, self.count = self.count, self.count + 1
            if self._at < 0:
                self.numbers.setdefault((code.co_filename, frame.f_lineno), []).append(number)
            if number == self._at and self._error is not None:
                self.place = f"{code.co_filename}:{frame.f_lineno} ({code.co_qualname})"
                sys.settrace(None)
                raise self._error()
        return self._line


def check_places(
    run: Callable[[LineErrors], Iterable[str]],
    rooms: Iterable[str],
    most: int,
    *,
    places_of: Callable[[LineErrors], Sequence[int]] = lambda counting: counting.places,
) -> None:
    """Let something run again and again, each time with an error at another place: at about so many of all places.

    `run` begins anew, checks what must be so in the end, and returns what was reported; without an error no fault is.
    """
    wanted = tuple(rooms)
    run(LineErrors(wanted))  # From the second time on nothing is imported.
    counting = LineErrors(wanted)
    assert not [line for line in run(counting) if "please report" in line]
    places = places_of(counting)
    step = max(1, len(places) // most)
    # Not from the first one on: where a run begins there is little to lose.
    for at in places[5 % step :: step]:
        errors = LineErrors(wanted, at, lambda: RuntimeError("planted"))
        run(errors)
        assert errors.place, at


@cache
def _undisturbed(code: CodeType) -> frozenset[int]:
    """Offsets of instructions that no signal comes before: `try:`, and the way back to a `with` for its `__exit__`."""
    line, entered, ends = 0, dict[int, int](), set[int]()
    starts = {offset: number for offset, _, number in code.co_lines() if number is not None}
    for each in dis.get_instructions(code):
        line = starts.get(each.offset, line)
        if each.opname in ("BEFORE_WITH", "LOAD_SPECIAL"):
            entered.setdefault(line, each.offset)
        elif each.opname == "NOP" or (each.offset in starts and each.offset > entered.get(line, each.offset)):
            ends.add(each.offset)
    return frozenset(ends)
