"""The examples of examples/spark, on the first days of the flights, against the same computed with pandas."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pandas")
EXAMPLES = Path(__file__).parents[2] / "examples"
DAYS = 4


@pytest.fixture(scope="module")
def filled() -> Iterator[str]:
    """A broker with the first days' flights and weather."""
    sys.path.insert(0, str(EXAMPLES / "spark"))
    setting = import_module("setting")
    with Broker(log_retention_ms=-1) as broker:
        setting.fill(broker.bootstrap_servers, DAYS)
        yield broker.bootstrap_servers
    sys.path.remove(str(EXAMPLES / "spark"))


@pytest.fixture
def flights() -> Any:
    """The flights that were sent."""
    return import_module("data").load(DAYS)


def run(name: str, spark: SparkSession, servers: str, folder: Path) -> list[Any]:
    return import_module(name).run(spark, servers, folder).collect()  # type: ignore[no-any-return]


def test_a_backfill_reads_one_day_by_time(spark: SparkSession, filled: str, tmp_path: Path, flights: Any) -> None:
    import pandas as pd

    begin = pd.Timestamp("2013-01-02T00:00Z")
    day = flights.flights[flights.flights["scheduled"].between(begin, begin + pd.Timedelta("1D"), inclusive="left")]

    rows = run("backfill_by_timestamp", spark, filled, tmp_path)

    assert {row.carrier: row.flights for row in rows} == day.groupby("carrier").size().to_dict()


@pytest.mark.slow
def test_windows_that_the_watermark_has_closed_hold_every_departure(
    spark: SparkSession, filled: str, tmp_path: Path, flights: Any
) -> None:
    table = flights.flights.dropna(subset="dep_delay")
    expected = table.groupby([table["scheduled"].dt.floor("3h").dt.tz_convert(None), "origin"]).size().to_dict()

    rows = run("windowed_aggregation", spark, filled, tmp_path)

    found = {(row.window.start, row.origin): row.departures for row in rows if row.departures}
    assert len(found) > 3 * 8 * (DAYS - 3)
    assert all(expected[key] == count for key, count in found.items())


@pytest.mark.slow
def test_every_late_flight_meets_the_weather_of_its_hour(
    spark: SparkSession, filled: str, tmp_path: Path, flights: Any
) -> None:
    late = flights.flights[flights.flights["dep_delay"] >= 60]
    late = late.assign(hour=late["scheduled"].dt.floor("h"))
    expected = late.merge(flights.weather[["origin", "hour", "wind_speed"]], on=["origin", "hour"])

    rows = run("stream_stream_join", spark, filled, tmp_path)

    assert sorted((row.origin, row.carrier, row.flight, row.wind_speed) for row in rows) == sorted(
        zip(expected["origin"], expected["carrier"], expected["flight"], expected["wind_speed"], strict=True)
    )


@pytest.mark.slow
def test_a_stream_goes_on_with_the_other_format_where_it_stopped(
    spark: SparkSession, tmp_path: Path, flights: Any, filled: str
) -> None:
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's built-in connector is missing (Maven fetches it)")

    with Broker(log_retention_ms=-1) as broker:
        import_module("setting").fill(broker.bootstrap_servers, DAYS)
        rows = run("migrate_from_kafka_format", spark, broker.bootstrap_servers, tmp_path)

    first_day = len(import_module("data").load(1).flights)
    assert [(row["format"], row["count"]) for row in rows] == [("barnabas", first_day), ("kafka", len(flights.flights))]
