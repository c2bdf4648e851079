"""Queries that did not start because Spark's Python worker took too long: nothing has happened yet, so once more."""

from __future__ import annotations

#: What Spark says when a worker has not answered within ten seconds, which no setting of its changes.
_NOT_STARTED = "Python worker failed to connect back"


class SlowStarts:
    """Says whether a query that failed is to be started again without asking; `most` times in a row."""

    def __init__(self, most: int = 3) -> None:
        self._most = most
        self._seen = 0

    def is_one(self, error: BaseException, *, has_begun: bool) -> bool:
        """Whether the query only did not start in time, and may try again."""
        if has_begun:
            self._seen = 0
        if has_begun or _NOT_STARTED not in str(error) or self._seen >= self._most:
            return False
        self._seen += 1
        return True
