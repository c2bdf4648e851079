"""The same figures once more, by the DSL of Kafka Streams: two tables by airport and hour, joined."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from data import Tables
from produce import Topics
from pyspark.sql import SparkSession

from barnabas import AdminClient, Consumer, TopicPartition
from barnabas.errors import KafkaTimeoutError
from barnabas.streams import KafkaStreams, Materialized, Serdes, StreamsBuilder, Topology

APPLICATION = "flights-by-streams"

#: Seconds after which the application counts as stuck.
LONGEST = 600.0


def topology(tables: Tables, topics: Topics) -> Topology:
    """Return the job. Its functions travel to Spark's workers by value, for they are made in here."""
    airlines = dict(zip(tables.airlines["carrier"], tables.airlines["name"], strict=True))
    airports = dict(zip(tables.airports["faa"], tables.airports["name"], strict=True))

    def flight_of(value: bytes | None) -> dict[str, Any] | None:
        from datetime import datetime

        try:
            event = json.loads(value or b"")
            datetime.fromisoformat(event["scheduled"])
        except (ValueError, TypeError, KeyError):
            return None
        return event if event.get("carrier") and event.get("origin") else None

    def hour_of(event: dict[str, Any], time: str) -> str:
        return f"{event['origin']} {event[time][:13]}:00:00Z"

    def nothing() -> dict[str, Any]:
        return {"scheduled": 0, "departures": 0, "delay_minutes": 0, "worst_delay": None, "unknown_destinations": 0,
                "airlines": []}  # fmt: skip

    def with_flight(key: str, flight: dict[str, Any], hour: dict[str, Any]) -> dict[str, Any]:
        late = flight.get("dep_delay")
        known = [each for each in (hour["worst_delay"], None if late is None else int(late)) if each is not None]
        return {
            "scheduled": hour["scheduled"] + 1,
            "departures": hour["departures"] + (late is not None),
            "delay_minutes": hour["delay_minutes"] + int(late or 0),
            "worst_delay": max(known, default=None),
            "unknown_destinations": hour["unknown_destinations"] + (flight.get("dest") not in airports),
            "airlines": sorted({*hour["airlines"], airlines[flight["carrier"]]}),
        }

    def with_weather(hour: dict[str, Any], weather: dict[str, Any] | None) -> dict[str, Any]:
        measured = weather or {}
        return {
            **hour,
            "cancellations": hour["scheduled"] - hour["departures"],
            "with_weather": hour["scheduled"] if weather else 0,
            **{name: measured.get(name) for name in ("wind_speed", "precip", "visib")},
        }

    def named(key: str, hour: dict[str, Any]) -> dict[str, Any]:
        origin, _, when = key.partition(" ")
        return {"origin": origin, "hour": when, "airport": airports.get(origin), **hour}

    builder = StreamsBuilder()
    text, values = Serdes.string(), Serdes.json()
    delays = (
        builder.stream(topics.flights, key=Serdes.bytes(), value=Serdes.bytes())
        .map_values(flight_of)
        .filter(lambda key, flight: flight is not None and flight["origin"] != "---")
        .group_by(lambda key, flight: hour_of(flight, "scheduled"), key=text, value=values)
        .aggregate(nothing, with_flight, Materialized.as_("delays").with_value_serde(values))
    )
    weather = (
        builder.stream(topics.weather, key=Serdes.bytes(), value=values)
        .select_key(lambda key, weather: hour_of(weather, "hour"))
        .to_table(Materialized.as_("weather").with_key_serde(text).with_value_serde(values))
    )
    joined = delays.left_join(weather, with_weather)
    joined.to_stream().map_values(named).to(topics.delays_by_streams, key=text, value=values)
    return builder.build()


def run(spark: SparkSession, servers: str, tables: Tables, topics: Topics, folder: Path) -> list[dict[str, Any]]:
    """Run the job until it has read all; returns what each airport and hour came to in the end.

    Raises what ended the application before its time.
    """
    config = {"application.id": APPLICATION, "bootstrap.servers": servers, "state.dir": str(folder / "state")}
    with (
        KafkaStreams(topology(tables, topics), config, spark=spark) as streams,
        AdminClient(bootstrap_servers=servers) as admin,
        Consumer(bootstrap_servers=servers) as consumer,
    ):
        deadline = time.monotonic() + LONGEST
        while (left := to_read(admin, consumer, topics)) > 0:
            if streams.exception is not None:
                raise streams.exception
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"{APPLICATION} still has {left} records to read after {LONGEST:.0f} s")
            time.sleep(0.5)
    return last_of_each(servers, topics.delays_by_streams)


def to_read(admin: AdminClient, consumer: Consumer[Any, Any], topics: Topics) -> int:
    """Return how many records of all its topics, those between its own tasks among them, the group has not read."""
    own = [name for name in admin.list_topics() if name.startswith(APPLICATION) and name.endswith("-repartition")]
    wanted = [
        TopicPartition(topic, info.partition)
        for topic in (topics.flights, topics.weather, *own)
        for info in consumer.partitions_for(topic)
    ]
    # In this order: what a batch has written lies before the ends once its offsets are committed.
    read = admin.list_consumer_group_offsets(APPLICATION)
    ends = consumer.end_offsets(wanted)
    return sum(end - (read[place].offset if place in read else 0) for place, end in ends.items())


def last_of_each(servers: str, topic: str) -> list[dict[str, Any]]:
    """Return the last value of each key of a topic, as a reader of committed records sees it."""
    found: dict[bytes, dict[str, Any]] = {}
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        places = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < end for place, end in ends.items()):
            found |= {record.key: json.loads(record.value) for record in consumer.poll(timeout=0.5)}
    return [*found.values()]
