"""A streaming query changes its format between `kafka` and `barnabas` and keeps its checkpoint: each row comes once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import Broker, Producer
from tests.peers import spark_kafka_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    bool(spark_kafka_connector.why_not()), reason="the built-in connector's jars are missing"
)


def send(servers: str, numbers: range) -> None:
    with Producer(bootstrap_servers=servers, value_serializer=str) as producer:
        for number in numbers:
            producer.send("flights", str(number))


def run(spark: SparkSession, servers: str, format_name: str, folder: Path) -> None:
    """Count the rows by parity, with state, for all that is there; complete results go to files."""
    rows = spark.readStream.format(format_name).option("kafka.bootstrap.servers", servers)
    rows = rows.option("subscribe", "flights").option("startingOffsets", "earliest").load()
    counts = rows.selectExpr("CAST(value AS STRING) AS value").dropDuplicates(["value"])
    query = (
        counts.writeStream.format("parquet")
        .options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(200)
    assert query.exception() is None


def test_a_checkpoint_goes_on_under_the_other_format_with_its_state(spark: SparkSession, tmp_path: Path) -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        for round_number, format_name in enumerate(["kafka", "barnabas", "kafka", "barnabas"]):
            # Half of them are there already: only the state from the rounds before can tell.
            send(servers, range(round_number * 10 - (5 if round_number else 0), round_number * 10 + 10))
            run(spark, servers, format_name, tmp_path)

        found = [int(row.value) for row in spark.read.parquet(str(tmp_path / "out")).collect()]

    assert sorted(found) == list(range(40))


def test_a_batch_write_needs_append_where_the_built_in_connector_does_not(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
    with Broker() as broker:
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "flights"}
        frame.write.format("kafka").options(**options).save()

        with pytest.raises(AnalysisException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            frame.write.format("barnabas").options(**options).save()
        frame.write.format("barnabas").options(**options).mode("append").save()
