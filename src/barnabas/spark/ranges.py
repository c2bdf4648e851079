"""Offset ranges, the unit of work of a task, and their division when `minPartitions` asks for more tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets `start` to `end` of a partition, `end` not included."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets lie in the range; compacted ones count too."""
        return self.end - self.start


def divided(ranges: Iterable[OffsetRange], min_partitions: int | None) -> list[OffsetRange]:
    """Drop empty ranges; cut large ones until there are about `min_partitions`, as the built-in connector does."""
    kept = [offset_range for offset_range in ranges if offset_range.size > 0]
    if min_partitions is None or len(kept) >= min_partitions:
        return kept
    total = sum(offset_range.size for offset_range in kept)
    found: list[OffsetRange] = []
    for offset_range in kept:
        parts = max(1, round(offset_range.size / total * min_partitions))
        found += _cut(offset_range, min(parts, offset_range.size))
    return found


def _cut(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    found = []
    start = offset_range.start
    for left in range(parts, 0, -1):
        end = start + (offset_range.end - start) // left
        found.append(OffsetRange(offset_range.topic_partition, start, end))
        start = end
    return found
