"""The streaming job: flights and weather in, delays per airport and hour out; what it cannot use, to dead letters."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data import Tables
from produce import Topics
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.streaming import StreamingQuery

from barnabas import spark as barnabas_spark

FLIGHT_SCHEMA = "carrier string, flight int, origin string, dest string, scheduled string, dep_delay double"
WEATHER_SCHEMA = "origin string, hour timestamp, temp double, wind_speed double, precip double, visib double"

#: The producer flushes day by day, so no partition is more than a day ahead; a second day is to spare.
WATERMARK = "2 days"

#: A Java that runs for a minute spends less on the quick compiler alone than the thorough one would ever give back.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def session(folder: Path, **more: str) -> SparkSession:
    """Return a local Spark on two cores, with its files in `folder` and its messages in spark.log there."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{SHORT_LIVED} -Dlog4j2.configurationFile={LOG_SETTINGS}",
        **more,
    }
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("flights")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with errors_into(folder / "spark.log"):
        spark = builder.getOrCreate()
    barnabas_spark.register(spark)
    return spark


@contextmanager
def errors_into(path: Path) -> Iterator[None]:
    """Let processes that start in the meantime write their errors to a file."""
    saved = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def read_topic(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a topic from its beginning on, as a stream."""
    return (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def parsed_flights(rows: DataFrame) -> DataFrame:
    """Flights with their fields, and in `reason` what is wrong with those that cannot be used."""
    corrupt = "_corrupt_record"
    event = F.from_json(
        F.col("value").cast("string"), f"{FLIGHT_SCHEMA}, {corrupt} string", {"columnNameOfCorruptRecord": corrupt}
    )
    scheduled = F.try_to_timestamp(F.col("event.scheduled"))
    return rows.withColumn("event", event).withColumn("scheduled", scheduled).withColumn("reason", reason())


def reason() -> Column:
    """Return the first thing that is wrong with an event; null when nothing is."""
    return (
        F.when(F.col("value").isNull(), "no value")
        .when(F.col("event._corrupt_record").isNotNull(), "not the JSON of a flight")
        .when(F.col("event.carrier").isNull(), "no carrier")
        .when(F.col("event.origin").isNull(), "no origin")
        .when(F.col("scheduled").isNull(), "no scheduled time")
    )


def delays(spark: SparkSession, servers: str, topics: Topics, tables: Tables) -> DataFrame:
    """Departures, cancellations and delays per airport and hour, with the hour's weather and the airlines' names."""
    flights = (
        parsed_flights(read_topic(spark, servers, topics.flights))
        .where("reason is null")
        .select("event.carrier", "event.origin", "event.dest", "event.dep_delay", "scheduled")
        .withColumn("hour", F.date_trunc("hour", "scheduled"))
        .withWatermark("hour", WATERMARK)
    )
    weather = (
        read_topic(spark, servers, topics.weather)
        .select(F.from_json(F.col("value").cast("string"), WEATHER_SCHEMA).alias("w"))
        .select(F.col("w.hour").alias("weather_hour"), F.col("w.origin").alias("weather_origin"), "w.wind_speed",
                "w.precip", "w.visib")
        .withWatermark("weather_hour", WATERMARK)
    )  # fmt: skip
    airlines = spark.createDataFrame(tables.airlines.rename(columns={"name": "airline"}))
    names = tables.airports[["faa", "name"]]
    airports = spark.createDataFrame(names.rename(columns={"faa": "origin", "name": "airport"}))
    destinations = spark.createDataFrame(names.rename(columns={"faa": "dest", "name": "destination"}))
    joined = (
        flights.join(F.broadcast(airlines), "carrier", "left")
        .join(F.broadcast(airports), "origin", "left")
        .join(F.broadcast(destinations), "dest", "left")
        .join(weather, (F.col("origin") == F.col("weather_origin")) & (F.col("hour") == F.col("weather_hour")), "left")
    )
    return joined.groupBy(F.window("hour", "1 hour"), "origin", "airport").agg(*measures())


def measures() -> list[Column]:
    """Return what is known of each airport and hour; `check.expected` computes the same on the data frames."""
    departed = F.col("dep_delay").isNotNull()
    return [
        F.count("*").alias("scheduled"),
        F.count_if(departed).alias("departures"),
        F.count_if(~departed).alias("cancellations"),
        F.coalesce(F.sum("dep_delay"), F.lit(0.0)).cast("long").alias("delay_minutes"),
        F.max("dep_delay").cast("long").alias("worst_delay"),
        F.count_if(F.col("destination").isNull()).alias("unknown_destinations"),
        F.count_if(F.col("weather_hour").isNotNull()).alias("with_weather"),
        F.max("wind_speed").alias("wind_speed"),
        F.max("precip").alias("precip"),
        F.min("visib").alias("visib"),
        F.array_sort(F.collect_set("airline")).alias("airlines"),
    ]


def start_delays(spark: SparkSession, servers: str, topics: Topics, tables: Tables, checkpoint: Path) -> StreamingQuery:
    """Write every finished window to the topic of delays, keyed by its airport."""
    rows = delays(spark, servers, topics, tables).withColumn("hour", F.col("window.start")).drop("window")
    value = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    records = rows.select(F.col("origin").alias("key"), value.alias("value"))
    return start("delays", records, servers, topics.delays, checkpoint)


def start_dead_letters(spark: SparkSession, servers: str, topics: Topics, checkpoint: Path) -> StreamingQuery:
    """Write every flight that cannot be used to the dead letters, as it came, with the reason in a header."""
    rows = parsed_flights(read_topic(spark, servers, topics.flights)).where("reason is not null")
    origin = F.concat_ws("-", "topic", "partition")
    headers = F.array(
        header("reason", F.col("reason")),
        header("topic-partition", origin),
        header("offset", F.col("offset").cast("string")),
    )
    records = rows.select("key", "value", headers.alias("headers"))
    return start("dead-letters", records, servers, topics.dead_letters, checkpoint)


def start(name: str, records: DataFrame, servers: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """Write records to a topic, from now on; the query remembers in a folder of its own how far it is."""
    return (
        records.writeStream.format("barnabas")
        .queryName(name)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint / name))
        .outputMode("append")
        .start()
    )


def header(name: str, value: Column) -> Column:
    """One Kafka header."""
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
