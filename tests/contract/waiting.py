"""Waiting for what a running cluster does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(check: Callable[[], object], timeout: float = 10.0) -> None:
    """A cluster of several parts agrees after a while."""
    deadline = time.monotonic() + timeout
    while not check():
        assert time.monotonic() < deadline, "this never became true"
        time.sleep(0.05)
