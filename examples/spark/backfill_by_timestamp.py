"""One day of the past again, found by time: what each carrier was late by on 2 January 2013.

`python examples/spark/backfill_by_timestamp.py`
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = datetime(2013, 1, 2, tzinfo=UTC)


def run(spark: SparkSession, servers: str, folder: Path) -> DataFrame:
    """Return the brokers find the first offset of the day and of the next; nothing else is read.

    An offset found by time is the first record that is as late or later, so what came out of order lies with its
    neighbours; the filter makes the borders exact.
    """
    from pyspark.sql import functions as f

    begin, end = DAY, DAY + timedelta(days=1)
    times = {"startingTimestamp": begin, "endingTimestamp": end}
    rows = (
        spark.read.format("barnabas")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": "flights"})
        .options(**{name: str(int(time.timestamp() * 1000)) for name, time in times.items()})
        .load()
    )
    flights = setting.events(rows.where((f.col("timestamp") >= begin) & (f.col("timestamp") < end)), setting.FLIGHT)
    return (
        flights.groupBy("carrier")
        .agg(f.count("*").alias("flights"), f.round(f.avg("dep_delay"), 1).alias("mean_delay"))
        .orderBy("carrier")
    )


if __name__ == "__main__":
    with setting.spark_and_broker() as (spark, servers, folder):
        run(spark, servers, folder).show()
