"""A pytest plugin that collects what ended tests have left in circles, before it is gigabytes.

A broker in memory is a circle of few objects with many bytes; the collector counts objects, so it comes late. What it
frees stays with glibc's allocator, in pieces between others, unless that is told to give it back.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Iterator

import pytest

#: How much a process may grow before it is looked at again.
BYTES = 64 << 20


def resident() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_back() -> None:
    """Return freed memory to the system, where the C library has a call for it (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class EarlyCollection:
    """Runs a full collection after each test whose process has grown much since the last one."""

    def __init__(self) -> None:
        self._before = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """Collect no garbage meanwhile: nearly all that is made stays, and looking at it is a fifth of the work."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return (yield)
        finally:
            if was_enabled:
                gc.enable()

    def pytest_collection_finish(self) -> None:
        """Leave what the collection of tests has made out of the collector's sight: it stays to the end.

        Ten thousand tests and their modules are 1.7 million objects. While the collector counts them, it takes more
        than a second, and hardly ever comes by itself.
        """
        gc.freeze()
        self._before = resident()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self) -> Iterator[None]:
        """Collect after the fixtures have ended, and after pytest has let the log go, whose errors hold frames."""
        outcome = yield
        if resident() > self._before + BYTES:
            gc.collect()
            give_back()
            self._before = resident()
        return outcome
