"""`LagClock`: how long a group is behind, told by when partitions ended where."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypedDict

from barnabas.protocol.topic_partition import TopicPartition

#: Ends that are remembered of a partition; of more, every second of the older ones goes.
MOST_REMEMBERED = 120


class Delay(NamedTuple):
    """How long ago the oldest unread record was written; `is_at_least` where the cluster was not looked at then."""

    ms: int
    is_at_least: bool


class DelayRow(TypedDict):
    """A `Delay` in a document."""

    ms: int
    isAtLeast: bool


def delay_row(delay: Delay | None) -> DelayRow | None:
    """Return a delay as it stands in a document."""
    return None if delay is None else {"ms": delay.ms, "isAtLeast": delay.is_at_least}


class LagClock:
    """Remembers when partitions ended where, as often as they are looked at.

    A record was written between the last look at which the partition ended before it and the first at which it
    ended after it; in between it is taken to have grown evenly.
    """

    def __init__(self) -> None:
        self._looks: dict[TopicPartition, tuple[list[int], list[int]]] = {}

    def saw(self, at_ms: int, ends: Mapping[TopicPartition, int], wanted: Iterable[TopicPartition]) -> None:
        """Remember where `wanted` partitions end now; those that are wanted no more are forgotten."""
        self._looks = {
            partition: self._with(partition, at_ms, ends[partition]) for partition in wanted if partition in ends
        }

    def _with(self, partition: TopicPartition, at_ms: int, end: int) -> tuple[list[int], list[int]]:
        times, ends = self._looks.get(partition, ([], []))
        if ends and end < ends[-1]:
            # Another topic of that name, or records were lost: what was seen is of no use.
            times, ends = [], []
        if len(ends) > 1 and ends[-2] == end:
            times[-1] = at_ms
        else:
            times.append(at_ms)
            ends.append(end)
        if len(ends) > MOST_REMEMBERED:
            older = len(ends) // 2
            del times[1:older:2], ends[1:older:2]
        return times, ends

    def delay(self, partition: TopicPartition, offset: int, now_ms: int) -> Delay | None:
        """Return how long the record at `offset` has waited: zero where there is none, None where nothing is known."""
        if partition not in self._looks:
            return None
        times, ends = self._looks[partition]
        after = bisect_right(ends, offset)
        if after == len(ends):
            return Delay(0, is_at_least=False)
        if after == 0:
            return Delay(max(0, now_ms - times[0]), is_at_least=True)
        share = (offset + 1 - ends[after - 1]) / (ends[after] - ends[after - 1])
        written = times[after - 1] + round(share * (times[after] - times[after - 1]))
        return Delay(max(0, now_ms - written), is_at_least=False)

    def longest(self, committed: Mapping[TopicPartition, int], now_ms: int) -> Delay | None:
        """Return the longest delay of a group's partitions, None where none is known."""
        found = [self.delay(partition, offset, now_ms) for partition, offset in committed.items()]
        return max((delay for delay in found if delay is not None), default=None)
