"""Which nodes of `barnabas up --brokers` are started again when their processes end, and when."""

from __future__ import annotations

#: The first pause before a start, in seconds; each start that does not last doubles it, up to the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
#: A node that has run for so long starts anew with the first pause.
_LASTING = 60.0
#: The exit code for settings or files that cannot be used: another start would end in the same way.
_UNUSABLE = 2


class RestartPolicy:
    """As `restart: on-failure` of supervisors: a process that failed is started again, one that was ended is not.

    Times are seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._started: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        self._due: dict[int, float] = {}

    def started(self, node_id: int, now: float) -> None:
        """Take note that a node begins."""
        self._started[node_id] = now
        self._due.pop(node_id, None)

    def ended(self, node_id: int, code: int, now: float) -> float | None:
        """Return after how many seconds a node is to be started again; None if it is not."""
        if code in (0, _UNUSABLE):
            return None
        lasted = now - self._started.get(node_id, now) >= _LASTING
        known = self._pauses.get(node_id)
        pause = _FIRST_PAUSE if known is None or lasted else min(2 * known, _LONGEST_PAUSE)
        self._pauses[node_id] = pause
        self._due[node_id] = now + pause
        return pause

    @property
    def is_waiting(self) -> bool:
        """Whether any node is to be started again."""
        return bool(self._due)

    def take_due(self, now: float) -> list[int]:
        """Return the nodes whose time has come, once."""
        due = sorted(node_id for node_id, at in self._due.items() if at <= now)
        for node_id in due:
            del self._due[node_id]
        return due
