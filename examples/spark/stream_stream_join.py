"""Each delayed flight with the weather at its airport in that hour: two topics, joined as streams.

`python examples/spark/stream_stream_join.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, servers: str, folder: Path) -> DataFrame:
    """Flights that left an hour late or more; each finds its hour's weather, or waits a day for it."""
    from pyspark.sql import functions as f

    flights = setting.events(setting.stream(spark, servers, "flights"), setting.FLIGHT)
    late = (
        flights.where("dep_delay >= 60")
        .withColumn("hour", f.date_trunc("hour", "scheduled"))
        .withWatermark("hour", "1 day")
    )
    weather = setting.events(setting.stream(spark, servers, "weather"), setting.WEATHER)
    weather = weather.withWatermark("hour", "1 day")
    joined = late.join(weather, ["origin", "hour"]).select(
        "hour", "origin", "carrier", "flight", "dep_delay", "wind_speed", "visib"
    )
    return setting.write_what_is_there(joined, folder).orderBy("hour", "origin", "carrier", "flight")


if __name__ == "__main__":
    with setting.spark_and_broker() as (spark, servers, folder):
        run(spark, servers, folder).show(50, truncate=False)
