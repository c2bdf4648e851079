"""The time at which the broker works on something: both clocks, read together."""

from typing import NamedTuple


class Instant(NamedTuple):
    """One reading of both clocks; state machines get it as an argument and read no clock themselves.

    `now` is the monotonic clock in seconds: deadlines, sessions and everything that waits are counted by it.
    `now_ms` is the wall clock in milliseconds since the epoch: it is stored and sent, and it may jump.
    """

    now: float
    now_ms: int
