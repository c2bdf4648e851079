"""What became of the lines that `produce` read."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from barnabas.cli.output import error_line, note, print_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from barnabas.client.producer.append import RecordMetadata

#: This many failed lines are reported one by one as they fail; the others by reason at the end.
REPORTED_AT_ONCE = 10
PROGRESS_INTERVAL = 0.2
_CLEAR_LINE = "\r\x1b[K"


class Report:
    """Counts lines and keeps which failed, and why; callbacks come from the Sender thread."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shows_progress = sys.stderr.isatty() and not sys.stdin.isatty() and not quiet
        self._lock = threading.Lock()
        self._failures: dict[str, list[int]] = {}
        self._failed = 0
        self._delivered = 0
        self._read = 0
        self._started = time.monotonic()
        self._next_progress = self._started + PROGRESS_INTERVAL

    def note(self, text: str) -> None:
        """Say something to the person at the terminal."""
        if not self._quiet:
            note(text)

    def read(self, number: int) -> None:
        """Note that a line was understood and is about to be sent."""
        self._read += 1
        if self._shows_progress and number % 100 == 0 and time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + PROGRESS_INTERVAL
            sys.stderr.write(f"{_CLEAR_LINE}{self._progress(number)}")
            sys.stderr.flush()

    def _progress(self, number: int) -> str:
        rate = self._delivered / max(1e-9, time.monotonic() - self._started)
        failed = f", {self._failed:,} failed" if self._failed else ""
        return f"{number:,} lines read, {self._delivered:,} acknowledged{failed}, {rate:,.0f}/s"

    def callback(self, number: int) -> Callable[[RecordMetadata | None, BaseException | None], None]:
        """Return what to call with the result of a line."""

        def delivered(metadata: RecordMetadata | None, error: BaseException | None) -> None:
            if error is None:
                self._delivered += 1
            else:
                self.fail(number, error)

        return delivered

    def fail(self, number: int, problem: BaseException) -> None:
        """Note that a line was not sent, or not acknowledged."""
        reason = error_line(problem)
        with self._lock:
            self._failed += 1
            self._failures.setdefault(reason, []).append(number)
            if self._failed <= REPORTED_AT_ONCE:
                clear = _CLEAR_LINE if self._shows_progress else ""
                sys.stderr.write(f"{clear}barnabas produce: line {number}: {reason}\n")

    def finish(self, topic: str, form: str) -> int:
        """Say what became of all lines; gives the exit code."""
        if self._shows_progress:
            sys.stderr.write(_CLEAR_LINE)
        if self._failed > REPORTED_AT_ONCE:
            for reason, numbers in self._failures.items():
                sys.stderr.write(f"barnabas produce: lines {ranges_text(numbers)} failed: {reason}\n")
        total = self._delivered + self._failed
        if form == "json":
            failures = [{"error": reason, "lines": ranges_text(numbers)} for reason, numbers in self._failures.items()]
            print_json({"topic": topic, "delivered": self._delivered, "failed": self._failed, "failures": failures})
        elif self._failed:
            note(f"{self._delivered} of {total} records sent to {topic}, {self._failed} failed")
        elif self._shows_progress:
            note(f"{self._delivered} records sent to {topic}")
        return 1 if self._failed else 0


def ranges_text(numbers: list[int]) -> str:
    """Numbers as ranges: `1-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)
