"""When logs that the disk has failed are opened again (LogReopening)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition

#: How long a log waits before it is tried for the second time, in milliseconds; twice as long before each later one.
FIRST_WAIT_MS = 5_000
LONGEST_WAIT_MS = 60_000
#: A log that has needed no other try for so long begins with the first wait again.
CALM_MS = 600_000


class LogReopening:
    """Makes a log that fails again and again wait longer each time, whether or not it was served in between."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        #: When a log may be tried next, and how long it waits then.
        self._waits: dict[TopicPartition, tuple[int, int]] = {}

    def try_now(self, name: TopicPartition, now_ms: int) -> bool:
        """Whether it is time to open a log; what follows counts as a try."""
        next_ms, wait_ms = self._waits.get(name, (now_ms, 0))
        # A clock that was set back does not put it off.
        if now_ms < next_ms <= now_ms + wait_ms:
            return False
        wait_ms = min(2 * wait_ms, LONGEST_WAIT_MS) if wait_ms and now_ms < next_ms + CALM_MS else FIRST_WAIT_MS
        self._waits[name] = now_ms + wait_ms, wait_ms
        return True

    def forget(self, name: TopicPartition) -> None:
        """Note that a log was deleted."""
        self._waits.pop(name, None)
