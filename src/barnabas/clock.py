"""The wall clock, where it is read; state machines get its time as an argument."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since the epoch, as records are stamped with them. It may jump."""
    return time.time_ns() // 1_000_000
