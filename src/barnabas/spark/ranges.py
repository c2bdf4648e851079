"""Offset ranges and how they become the work of tasks: large ones are cut, small ones are read together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def divided(
    ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None = None
) -> list[OffsetRange]:
    """Drop empty ranges; cut those above `max_records`, then large ones until there are about `min_partitions`.

    The built-in connector's own calculation, which counts offsets for records.
    """
    found: list[OffsetRange] = []
    for offset_range in ranges:
        if offset_range.size > 0:
            found += _cut(offset_range, 1 if max_records is None else -(-offset_range.size // max_records))
    if min_partitions is None or len(found) >= min_partitions:
        return found
    return _spread(found, min_partitions)


def packed(ranges: Sequence[OffsetRange], least: int) -> list[tuple[OffsetRange, ...]]:
    """Return the ranges of each task: one of `least` offsets or more is a task's own, smaller ones share a task.

    Those that share are neighbours, so that a partition stays with the same others from micro-batch to micro-batch.
    """
    alone = [(offset_range,) for offset_range in ranges if offset_range.size >= least]
    small = [offset_range for offset_range in ranges if offset_range.size < least]
    total = sum(offset_range.size for offset_range in small)
    shares = max(1, total // least)
    groups: dict[int, list[OffsetRange]] = {}
    before = 0
    for offset_range in small:
        groups.setdefault((2 * before + offset_range.size) * shares // (2 * total), []).append(offset_range)
        before += offset_range.size
    return alone + [tuple(group) for group in groups.values()]


def _spread(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Cut in proportion to size. What would stay whole anyway counts as one, and the others share the rest."""
    total = sum(offset_range.size for offset_range in ranges)
    whole = [offset_range for offset_range in ranges if _share(offset_range, total, wanted) == 1]
    kept = {offset_range.topic_partition for offset_range in whole}
    total -= sum(offset_range.size for offset_range in whole)
    left = max(wanted - len(whole), 1)
    found: list[OffsetRange] = []
    for offset_range in ranges:
        found += _cut(offset_range, 1 if offset_range.topic_partition in kept else _share(offset_range, total, left))
    return [offset_range for offset_range in found if offset_range.size > 0]


def _share(offset_range: OffsetRange, total: int, wanted: int) -> int:
    return max(1, (2 * offset_range.size * wanted + total) // (2 * total))


def _cut(offset_range: OffsetRange, parts: int) -> list[OffsetRange]:
    found = []
    start = offset_range.start
    for left in range(parts, 0, -1):
        end = start + (offset_range.end - start) // left
        found.append(OffsetRange(offset_range.topic_partition, start, end))
        start = end
    return found
