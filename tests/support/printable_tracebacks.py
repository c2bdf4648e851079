"""A pytest plugin that gives a line to every entry of a traceback, without which pytest cannot print it.

A signal handler may raise at an instruction that belongs to no line; the entry's `tb_lineno` is None then, pytest
calculates with it, and the whole run ends with an INTERNALERROR in place of the test with a failure.
"""

from __future__ import annotations

from types import TracebackType

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Mend the tracebacks of a test's exception before the report is made of it."""
    if call.excinfo is not None:
        mend(call.excinfo.value)
        if call.excinfo.tb is not call.excinfo.value.__traceback__:
            call.excinfo = pytest.ExceptionInfo.from_exception(call.excinfo.value)
    return (yield)


def mend(error: BaseException) -> None:
    """Have all tracebacks name lines: of the exception, of its causes, contexts and, in a group, its parts.

    Where an entry has no line the function's first one stands in.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _with_lines(each.__traceback__)
        waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]


def _with_lines(first: TracebackType | None) -> TracebackType | None:
    entries = []
    entry = first
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    # Typeshed does not know that None is possible.
    if all(isinstance(each.tb_lineno, int) for each in entries):
        return first
    made: TracebackType | None = None
    for each in reversed(entries):
        line: int | None = each.tb_lineno
        made = TracebackType(
            made, each.tb_frame, each.tb_lasti, each.tb_frame.f_code.co_firstlineno if line is None else line
        )
    return made
