"""Followers that are about to ask for one more partition, and whose Fetch should not wait meanwhile.

A follower has one Fetch in flight at each leader. Where that waits for other partitions (`replica.fetch.wait.max.ms`,
half a second) while this broker begins to lead one more of those that it follows, it could ask for that one only with
the Fetch after it, and no producer with acks=all is answered before. So a Fetch that waits is answered as soon as there
is such a partition. The follower may learn of it later than the leader, and ask once more without it: the Fetches after
that wait ever longer, from 10 ms on, for as long as it has been, until they wait as long as they may. That is a handful
of empty answers for each such change, whichever software the follower is.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

#: How long a Fetch waits at least, in seconds.
_SHORTEST = 0.01


class FetchesOf(NamedTuple):
    """The key in the purgatory under which the Fetches of a follower wait for another partition."""

    broker_id: int


class AwaitedFollowers:
    """By follower, how often it was given something to ask for; `mark` is the purgatory's."""

    __slots__ = ("_mark", "_times")

    def __init__(self, mark: Callable[[Hashable], None]) -> None:
        self._mark = mark
        self._times: dict[int, int] = {}

    def add(self, followers: Iterable[int]) -> None:
        """Take note of a partition that these brokers follow from now on here."""
        for broker_id in followers:
            self._times[broker_id] = self._times.get(broker_id, 0) + 1
            self._mark(FetchesOf(broker_id))

    def times(self, broker_id: int) -> int:
        """Return how often there was such a partition for a follower."""
        return self._times.get(broker_id, 0)


class Patience:
    """How long the next Fetch of a session may wait: hardly after its follower was given another partition.

    A new session begins so, too: its follower may not know yet of one that it was given before.
    """

    __slots__ = ("_since", "_times")

    def __init__(self) -> None:
        self._times, self._since = -1, -inf

    def left(self, times: int, now: float) -> float:
        """Return the time in seconds; `times` is what `AwaitedFollowers` has counted."""
        if times != self._times:
            self._times, self._since = times, now
        return max(_SHORTEST, now - self._since)
