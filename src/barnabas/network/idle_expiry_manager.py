"""When connections were used last (Selector.IdleExpiryManager in Kafka)."""

from __future__ import annotations

import math
from collections.abc import Callable


class IdleExpiryManager:
    """Finds the connections that were not used for `connections_max_idle` seconds; a negative number is for ever."""

    def __init__(self, connections_max_idle: float) -> None:
        self._max_idle = connections_max_idle if connections_max_idle >= 0 else math.inf
        self._last_used: dict[int, float] = {}
        self._next_check = -math.inf

    def on_used(self, node_id: int, now: float) -> None:
        """Note that the connection was made, or carried something."""
        self._last_used[node_id] = now

    def forget(self, node_id: int) -> bool:
        """Forget a connection that is over; return False if there was none."""
        return self._last_used.pop(node_id, None) is not None

    def idle(self, now: float, is_busy: Callable[[int], object]) -> list[int]:
        """Return the connections to close; one that waits for an answer is not idle."""
        if now < self._next_check or self._max_idle == math.inf:
            return []
        oldest, found = now, []
        for node_id, used_at in self._last_used.items():
            if is_busy(node_id):
                continue
            if now - used_at >= self._max_idle:
                found.append(node_id)
            else:
                oldest = min(oldest, used_at)
        self._next_check = oldest + self._max_idle
        return found
