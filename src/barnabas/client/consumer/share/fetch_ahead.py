"""How far ahead of the application records are fetched: by the pace at which it takes them."""

from __future__ import annotations

from math import inf
from typing import Final

#: The next records are fetched ahead of an application that needs less time (seconds) for those that it has; no more
#: of them than it will take in that time.
SOON: Final = 0.5
#: So many polls are fetched for at once, at most.
MOST_POLLS: Final = 8
#: So many where the application takes those of a fetch faster than the broker brings the next.
MOST_AT_ONCE: Final = 32
#: What is said of records waits for the next fetch where the application will have come for it within this time.
_AT_ONCE: Final = 0.005


class FetchAhead:
    """Knows when the application came and went, and how many records it got. Times are monotonic seconds.

    What waits here is locked, so that no other member can have it: how much that may be doubles with each poll that
    comes soon, and is nothing after one that does not. With `is_strict` nothing is fetched ahead.
    """

    __slots__ = ("_is_strict", "_max_poll_records", "_most", "_polls", "_spent", "is_hurried", "left_at")

    def __init__(self, max_poll_records: int, *, is_strict: bool) -> None:
        self._max_poll_records = max_poll_records
        self._is_strict = is_strict
        #: When the application went with what it got.
        self.left_at = -inf
        self._polls = 0
        self._most = MOST_POLLS
        # Seconds that the application needed for what it got last.
        self._spent = inf
        #: Whether the application will have taken all that waits here before anything is worth a request of its own.
        self.is_hurried = False

    def came(self, now: float) -> None:
        """Note that the application asks for records."""
        spent = self._spent = now - self.left_at
        self.is_hurried = spent * MOST_POLLS <= _AT_ONCE
        if not self.is_hurried:
            self._most = MOST_POLLS
        if spent > SOON or self._is_strict:
            self._polls = 0
        else:
            taken_soon = self._most if spent * self._most <= SOON else int(SOON / spent)
            self._polls = max(1, min(2 * self._polls, taken_soon))

    def went(self, now: float) -> None:
        """Note that the application has what it gets."""
        self.left_at = now

    def waited(self, seconds: float) -> None:
        """Note that all was taken that was fetched ahead, and how long the application waited for more."""
        if self._polls == self._most and seconds > self._spent:
            self._most = min(2 * self._most, MOST_AT_ONCE)

    def polls(self, handed_out: int, waiting: int) -> int:
        """Return for how many polls to fetch now, with so many records handed out and so many waiting here.

        0 where the application is slow, where a fetch waits here still, and where it got too few records to expect that
        there are more, or so many that each fetch brings enough.
        """
        most = self._max_poll_records
        if handed_out < most // 2:
            self._polls = 0
        is_enough = handed_out > 2 * most or waiting > (self._polls - 1) * most
        return 0 if is_enough else self._polls

    def found_nothing(self) -> None:
        """Note that there was nothing to hand out."""
        self._polls = 0
