"""Faults of this program in deferred work: what runs for a connection, operation or partition after its own request.

An exception there ends the work of that one alone: it is reported once, who waits for the work is told, and all other
deferred work goes on. Who keeps deferred work of many catches what each of them raises; `run_all` is for those who
cannot report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.broker.repeated_warnings import RepeatedWarnings

#: Called with what was being done, and what it has raised.
OnFault = Callable[[str, Exception], None]


class Faults:
    """Reports faults; of one kind, at most one a second, with the number of those that were not reported.

    `report` gets the text, for the log of the operator; `now` gives the time of the present turn.
    """

    __slots__ = ("_now", "_said")

    def __init__(self, report: Callable[[str], None], now: Callable[[], float]) -> None:
        self._said = RepeatedWarnings(report)
        self._now = now

    def tell(self, what: str, problem: Exception) -> None:
        """Report that the broker has failed at something."""
        kind = f"{what}: {type(problem).__name__}"
        self._said.say(kind, fault_text(what, problem), self._now())


def fault_text(what: str, problem: Exception) -> str:
    """Return the report of a fault, with its trace."""
    import traceback

    trace = "".join(traceback.format_exception(problem)).rstrip()
    return f"the broker failed at {what}; please report this\n{trace}"


def raise_fault(what: str, problem: Exception) -> None:
    """Raise a fault again, for those whose owner reports none."""
    raise problem


def insist(call: Callable[[], object]) -> None:
    """Call, and once more if that raises, as nothing else would do it; for what may be done twice. Raises the first."""
    try:
        call()
    except Exception:
        call()
        raise


def run_all(calls: Iterable[Callable[[], object]]) -> None:
    """Call each, also if others raise; the first of these exceptions is raised when all were called."""
    first: Exception | None = None
    for call in calls:
        try:
            call()
        except Exception as problem:  # noqa: BLE001 - raised below
            first = first or problem
    if first is not None:
        raise first
