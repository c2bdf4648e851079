"""Flink's watermark strategies as what Spark has for them: a column of timestamps and `withWatermark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class WatermarkStrategy(NamedTuple):
    """How late rows may come, and where their time stands; `apply` it to a stream.

    Spark keeps one watermark for the whole query, which follows the latest time in all partitions: an idle partition
    never holds it up (what Flink needs `withIdleness` for), and a partition that lags by more than the delay loses
    rows. Choose the delay by how far partitions may be apart.
    """

    delay_ms: int
    assigner: Column | None = None
    column: str = "timestamp"

    def with_timestamp_assigner(self, time: Column, column: str = "event_time") -> WatermarkStrategy:
        """Take the time from the row, for instance out of its value, as a new column; else Kafka's timestamp counts."""
        return self._replace(assigner=time, column=column)

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the stream with its column of times, and the watermark on it."""
        timed = frame if self.assigner is None else frame.withColumn(self.column, self.assigner)
        return timed.withWatermark(self.column, f"{self.delay_ms} milliseconds")


def for_bounded_out_of_orderness(seconds: float) -> WatermarkStrategy:
    """Rows come at most so many seconds after later ones."""
    if seconds < 0:
        raise IllegalArgumentError(f"rows cannot be late by {seconds} s; give 0 or more")
    return WatermarkStrategy(round(seconds * 1000))


def for_monotonous_timestamps() -> WatermarkStrategy:
    """Return the strategy for times that rise from row to row, over all partitions."""
    return WatermarkStrategy(0)
