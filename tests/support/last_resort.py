"""A pytest plugin that ends the process when a test goes on long after its time limit, with where each thread stands.

pytest-timeout raises an exception in the main thread, once. An event loop takes what is raised in a callback for that
callback's failure and goes on, `except BaseException` does so too, and a call into C never sees it: a run then hangs
for ever. Here a thread of C waits beside the test, and nothing that a test does keeps it from its work; xdist names
the test whose process has ended.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator

import pytest

#: What a test may take above its limit: to end what its fixtures have started, and to tell.
GRACE_SECONDS = 60.0


class LastResort:
    """Prints all threads and exits with 1 when a test is still there `grace` seconds after its time limit."""

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        # While a test runs, standard error is captured.
        self._out = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Wait beside the whole test, its fixtures included."""
        limit = limit_of(item)
        if not limit or self._out is None or item.config.getoption("usepdb", False):
            return (yield)
        faulthandler.dump_traceback_later(limit + self._grace, exit=True, file=self._out)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()


def limit_of(item: pytest.Item) -> float:
    """Return the seconds that pytest-timeout gives a test, by its mark, the command line or the settings; 0: no end."""
    mark = item.get_closest_marker("timeout")
    if mark is not None:
        return float((mark.args[0] if mark.args else mark.kwargs.get("timeout")) or 0)
    return float(item.config.getoption("timeout", None) or item.config.getini("timeout") or 0)
