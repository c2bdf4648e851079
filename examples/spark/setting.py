"""What the examples share: a broker with some days of real flights and weather in it, and a Spark that reads them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.spark import decode_json, decoded_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "flights"))

FLIGHT = "carrier string, flight int, origin string, dest string, scheduled timestamp, dep_delay double"
WEATHER = "origin string, hour timestamp, temp double, wind_speed double, precip double, visib double"


@contextmanager
def spark_and_broker(days: int = 7, **settings: str) -> Iterator[tuple[SparkSession, str, Path]]:
    """Start a Spark and a broker with the topics `flights` and `weather`; yield both and a folder for files."""
    import job

    with tempfile.TemporaryDirectory() as folder, Broker(log_retention_ms=-1) as broker:
        fill(broker.bootstrap_servers, days)
        spark = job.session(Path(folder), **settings)
        try:
            yield spark, broker.bootstrap_servers, Path(folder)
        finally:
            spark.stop()


def fill(servers: str, days: int) -> None:
    """Send so many days of flights and weather, as they happened."""
    import data
    import produce

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("flights", num_partitions=3), NewTopic("weather", num_partitions=3)])
    tables = data.load(days)
    events = data.flight_events(tables, "flights") + data.weather_events(tables, "weather")
    with Producer(bootstrap_servers=servers) as producer:
        for day in produce.by_day(events):
            produce.send_all(producer, day)


def stream(spark: SparkSession, servers: str, topic: str, format_name: str = "barnabas", **options: str) -> DataFrame:
    """Return a topic as a stream, from its beginning unless told otherwise."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest", **options}
    return spark.readStream.format(format_name).options(**given).load()


def events(frame: DataFrame, schema: str) -> DataFrame:
    """Return the fields of a topic's JSON values."""
    return decoded_rows(frame.withColumn("decoded", decode_json("value", schema))).select("decoded.value.*")


def write_what_is_there(frame: DataFrame, folder: Path) -> DataFrame:
    """Run a stream over all that its topics hold now; the rows it wrote, as a table."""
    writer = frame.writeStream.format("parquet").option("path", str(folder / "rows"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return frame.sparkSession.read.schema(frame.schema).parquet(str(folder / "rows"))
