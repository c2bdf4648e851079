"""Filters that Spark pushes down to a batch query, as ranges of offsets that need not be read."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.schema import COLUMNS

OffsetsForTimes = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | None]]

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda actual, wanted: actual == wanted,
    In: lambda actual, wanted: actual in wanted,
    GreaterThan: lambda actual, wanted: actual > wanted,
    GreaterThanOrEqual: lambda actual, wanted: actual >= wanted,
    LessThan: lambda actual, wanted: actual < wanted,
    LessThanOrEqual: lambda actual, wanted: actual <= wanted,
}
#: First and last offset that a comparison with an offset lets through, None where it does not bound them.
_OFFSET_BOUNDS: dict[type[Filter], Callable[[int], tuple[int | None, int | None]]] = {
    EqualTo: lambda offset: (offset, offset),
    GreaterThan: lambda offset: (offset + 1, None),
    GreaterThanOrEqual: lambda offset: (offset, None),
    LessThan: lambda offset: (None, offset - 1),
    LessThanOrEqual: lambda offset: (None, offset),
}
_NEVER_NULL = {*COLUMNS} - {"key", "value"}


class RangeFilter:
    """What a filter leaves of a set of ranges. When it is exact, Spark need not look at the rows again."""

    is_exact = True

    def narrowed(self, ranges: list[OffsetRange], offsets_for_times: OffsetsForTimes) -> list[OffsetRange]:
        """Return the ranges, or parts of them, that may hold rows which pass."""
        return ranges


class PartitionFilter(RangeFilter):
    """Keeps or drops whole partitions by topic or number."""

    def __init__(self, field: str, compare: Callable[[Any, Any], bool], value: Any) -> None:
        """`field` is `topic` or `partition`."""
        self._field = field
        self._compare = compare
        self._value = value

    def narrowed(self, ranges: list[OffsetRange], offsets_for_times: OffsetsForTimes) -> list[OffsetRange]:
        """See `RangeFilter`."""
        return [found for found in ranges if self._compare(getattr(found.topic_partition, self._field), self._value)]


class OffsetFilter(RangeFilter):
    """Cuts ranges at offsets."""

    def __init__(self, first: int | None, last: int | None) -> None:
        """Both are let through."""
        self._first = first
        self._last = last

    def narrowed(self, ranges: list[OffsetRange], offsets_for_times: OffsetsForTimes) -> list[OffsetRange]:
        """See `RangeFilter`."""
        return [
            found._replace(
                start=found.start if self._first is None else max(found.start, self._first),
                end=found.end if self._last is None else min(found.end, self._last + 1),
            )
            for found in ranges
        ]


class SinceFilter(RangeFilter):
    """Leaves out what comes before the first record of a time or later.

    There is no such filter for an end: times need not rise with offsets, so an earlier record may follow a later one.
    """

    is_exact = False

    def __init__(self, time_ms: int) -> None:
        """Epoch milliseconds."""
        self._time_ms = time_ms

    def narrowed(self, ranges: list[OffsetRange], offsets_for_times: OffsetsForTimes) -> list[OffsetRange]:
        """See `RangeFilter`."""
        wanted = {found.topic_partition: self._time_ms for found in ranges if found.size > 0}
        first = offsets_for_times(wanted)
        kept = []
        for found in ranges:
            since = first.get(found.topic_partition)
            if since is not None:
                kept.append(found._replace(start=max(found.start, since)))
        return kept


def range_filter(spark_filter: Filter) -> RangeFilter | None:
    """Return what a filter means for ranges; None when it means nothing for them."""
    attribute: tuple[str, ...] = getattr(spark_filter, "attribute", ())
    if len(attribute) != 1:
        return None
    name: str = attribute[0]
    kind = type(spark_filter)
    if kind is IsNotNull and name in _NEVER_NULL:
        return RangeFilter()
    value = getattr(spark_filter, "value", None)
    if name in ("topic", "partition") and kind in _COMPARISONS and value is not None:
        return PartitionFilter(name, _COMPARISONS[kind], value)
    if name == "offset" and kind in _OFFSET_BOUNDS and isinstance(value, int):
        return OffsetFilter(*_OFFSET_BOUNDS[kind](value))
    if name == "timestamp" and kind in (EqualTo, GreaterThan, GreaterThanOrEqual):
        return _since(value)
    return None


def _since(value: object) -> SinceFilter | None:
    """Return the milliseconds in which the time lies, or those before it: Kafka's times are no finer."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    elapsed = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    time_ms = elapsed // datetime.timedelta(milliseconds=1)
    return SinceFilter(time_ms) if time_ms >= 0 else None
