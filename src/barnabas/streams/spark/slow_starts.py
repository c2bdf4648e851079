"""Queries that did not start because Spark's Python worker took too long: nothing has happened yet, so once more."""

from __future__ import annotations

from zlib import crc32

#: What Spark says when a worker has not answered within ten seconds, which no setting of its changes.
_NOT_STARTED = "Python worker failed to connect back"

#: The longest delay in seconds.
_LONGEST = 30.0


class SlowStarts:
    """Says when a query that failed is to be started again without asking; `most` times in a row.

    Each time it waits about twice as long, and one application not as long as another: workers that are started at the
    same time take the time from each other.
    """

    def __init__(self, application: str, most: int = 6) -> None:
        self._share = 0.5 + crc32(application.encode()) / 2**32
        self._most = most
        self._seen = 0

    def delay(self, error: BaseException, *, has_begun: bool) -> float | None:
        """Return in how many seconds the query is to be started again; None: it failed otherwise, or too often."""
        if has_begun:
            self._seen = 0
        if has_begun or _NOT_STARTED not in str(error) or self._seen >= self._most:
            return None
        self._seen += 1
        return min(_LONGEST, self._share * (1 << self._seen - 1))
