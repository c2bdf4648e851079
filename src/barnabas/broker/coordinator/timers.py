"""Timers under keys; the caller of `pop_due(now)` drives them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from math import inf

from barnabas.broker.instant import Instant

Action = Callable[[Instant], None]


class _Timer:
    __slots__ = ("action", "deadline", "key", "queued_at")

    def __init__(self, key: Hashable, deadline: float, action: Action):
        self.key = key
        self.deadline = deadline
        self.queued_at = deadline
        self.action: Action | None = action


class TimerQueue:
    """At most one timer per key; setting one again replaces it.

    Pushing a deadline back, which every heartbeat does, touches no heap: the entry finds out when it comes up.
    """

    __slots__ = ("_heap", "_sequence", "_timers")

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[float, int, _Timer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers

    def deadline(self, key: Hashable) -> float:
        """When the timer of `key` goes off; infinity if there is none."""
        timer = self._timers.get(key)
        return inf if timer is None else timer.deadline

    def schedule(self, key: Hashable, deadline: float, action: Action) -> None:
        """Call `action` once `deadline` (monotonic seconds) has come, instead of what `key` stood for before."""
        timer = self._timers.get(key)
        if timer is not None and deadline >= timer.queued_at:
            timer.deadline = deadline
            timer.action = action
            return
        if timer is not None:
            timer.action = None
        timer = _Timer(key, deadline, action)
        self._timers[key] = timer
        self._push(timer)
        self._compact()

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if there is one."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.action = None

    def clear(self) -> None:
        """Forget all timers."""
        self._timers.clear()
        self._heap.clear()

    def next_deadline(self) -> float:
        """Return the earliest deadline; infinity if there is no timer."""
        self._bring_up_next()
        return self._heap[0][0] if self._heap else inf

    def pop_due(self, now: float) -> tuple[Hashable, Action] | None:
        """Take out the earliest timer whose deadline has come: its key and its action."""
        if self.next_deadline() > now:
            return None
        timer = heapq.heappop(self._heap)[2]
        del self._timers[timer.key]
        assert timer.action is not None, "one that was cancelled is not brought up"
        return timer.key, timer.action

    def _bring_up_next(self) -> None:
        # Brings a timer that is really due next to the top of the heap.
        heap = self._heap
        while heap:
            timer = heap[0][2]
            if timer.action is None:
                heapq.heappop(heap)
            elif timer.deadline > timer.queued_at:
                heapq.heappop(heap)
                timer.queued_at = timer.deadline
                self._push(timer)
            else:
                return

    def _push(self, timer: _Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (timer.queued_at, self._sequence, timer))

    def _compact(self) -> None:
        if len(self._heap) > 64 and len(self._heap) > 2 * len(self._timers):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
