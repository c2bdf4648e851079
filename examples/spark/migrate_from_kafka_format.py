"""A stream that ran with `format("kafka")` goes on with `format("barnabas")` where it stopped.

`python examples/spark/migrate_from_kafka_format.py JARS`, with the built-in connector's jars, comma-separated.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import setting

from barnabas.spark import starting_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run(spark: SparkSession, servers: str, folder: Path) -> DataFrame:
    """Every flight by the format that read it, with more flights sent between the two."""
    from pyspark.sql import functions as f

    before = setting.stream(spark, servers, "flights", "kafka")
    old = setting.write_what_is_there(before.withColumn("format", f.lit("kafka")), folder / "old")
    resend_the_first_day(servers)

    offsets = starting_offsets(folder / "old" / "checkpoint")
    after = setting.stream(spark, servers, "flights", startingOffsets=offsets)
    new = setting.write_what_is_there(after.withColumn("format", f.lit("barnabas")), folder / "new")
    return old.union(new).groupBy("format").count().orderBy("format")


def resend_the_first_day(servers: str) -> None:
    """Something new to read."""
    import data
    import produce

    from barnabas import Producer

    with Producer(bootstrap_servers=servers) as producer:
        produce.send_all(producer, data.flight_events(data.load(1), "flights"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with setting.spark_and_broker(**{"spark.jars": sys.argv[1]}) as (spark, servers, folder):
        run(spark, servers, folder).show()
