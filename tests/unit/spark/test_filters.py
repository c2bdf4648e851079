"""What pushed filters leave of the ranges of a batch query."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNotNull, LessThan, LessThanOrEqual

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.filters import range_filter
from barnabas.spark.ranges import OffsetRange

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = [OffsetRange(A0, 0, 100), OffsetRange(A1, 50, 60), OffsetRange(B0, 10, 20)]


def at_seven(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    """Every partition but b-0 has a record of that time at offset 55."""
    assert set(times.values()) == {1_370_000_000_000}
    return {partition: None if partition == B0 else 55 for partition in times}


def left(spark_filter: Any) -> tuple[list[tuple[str, int, int]], bool]:
    found = range_filter(spark_filter)
    assert found is not None
    narrowed = found.narrowed(RANGES, at_seven)
    return [(str(part.topic_partition), part.start, part.end) for part in narrowed if part.size > 0], found.is_exact


@pytest.mark.parametrize(
    ("spark_filter", "ranges"),
    [
        (EqualTo(("topic",), "b"), [("b-0", 10, 20)]),
        (In(("topic",), ("b", "c")), [("b-0", 10, 20)]),
        (EqualTo(("partition",), 1), [("a-1", 50, 60)]),
        (LessThan(("partition",), 1), [("a-0", 0, 100), ("b-0", 10, 20)]),
        (EqualTo(("offset",), 55), [("a-0", 55, 56), ("a-1", 55, 56)]),
        (GreaterThan(("offset",), 55), [("a-0", 56, 100), ("a-1", 56, 60)]),
        (GreaterThanOrEqual(("offset",), 55), [("a-0", 55, 100), ("a-1", 55, 60)]),
        (LessThan(("offset",), 15), [("a-0", 0, 15), ("b-0", 10, 15)]),
        (LessThanOrEqual(("offset",), 15), [("a-0", 0, 16), ("b-0", 10, 16)]),
        (IsNotNull(("timestamp",)), [("a-0", 0, 100), ("a-1", 50, 60), ("b-0", 10, 20)]),
    ],
)
def test_filters_on_topic_partition_and_offset_are_exact(spark_filter: Any, ranges: list[Any]) -> None:
    assert left(spark_filter) == (ranges, True)


def test_a_time_cuts_off_what_comes_before_its_first_record_and_spark_looks_again() -> None:
    time = datetime.datetime.fromtimestamp(1_370_000_000, datetime.UTC) + datetime.timedelta(microseconds=7)

    assert left(GreaterThan(("timestamp",), time)) == ([("a-0", 55, 100), ("a-1", 55, 60)], False)


@pytest.mark.parametrize(
    "spark_filter",
    [
        EqualTo(("value",), b"x"),
        IsNotNull(("value",)),
        LessThan(("timestamp",), datetime.datetime.now(datetime.UTC)),  # an earlier time may follow a later one
        EqualTo(("headers", "key"), "k"),
        EqualTo(("topic",), None),
    ],
)
def test_other_filters_are_left_to_spark(spark_filter: Any) -> None:
    assert range_filter(spark_filter) is None
