"""Departures and their mean delay for each airport and three hours, as a stream with a watermark.

`python examples/spark/windowed_aggregation.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import setting

from barnabas.spark import for_bounded_out_of_orderness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Flights are sent day by day, so none is later than a day.
LATEST_SECONDS = 24 * 3600


def run(spark: SparkSession, servers: str, folder: Path) -> DataFrame:
    """Windows that the watermark has closed: the last day or so is still open when the stream ends."""
    from pyspark.sql import functions as f

    flights = setting.events(setting.stream(spark, servers, "flights", maxOffsetsPerTrigger="1500"), setting.FLIGHT)
    timed = for_bounded_out_of_orderness(LATEST_SECONDS).with_timestamp_assigner(f.col("scheduled")).apply(flights)
    counts = timed.groupBy(f.window("event_time", "3 hours"), "origin").agg(
        f.count("dep_delay").alias("departures"), f.round(f.avg("dep_delay"), 1).alias("mean_delay")
    )
    return setting.write_what_is_there(counts, folder).orderBy("window", "origin")


if __name__ == "__main__":
    with setting.spark_and_broker() as (spark, servers, folder):
        run(spark, servers, folder).show(50, truncate=False)
