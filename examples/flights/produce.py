"""Sends the year through the broker, day after day, as it happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from data import Event, Tables, closing_events, flight_events, malformed_events, weather_events

from barnabas import Producer

DAY_MS = 24 * 60 * 60 * 1000


class Topics(NamedTuple):
    """The topics of the demo."""

    flights: str = "flights"
    weather: str = "weather"
    delays: str = "delays"
    dead_letters: str = "flights-dead-letters"
    delays_by_streams: str = "delays-by-streams"


class Sent(NamedTuple):
    """How many records of which kind were acknowledged."""

    flights: int
    weather: int
    malformed: int
    closing: int


def by_day(events: list[Event]) -> Iterator[list[Event]]:
    """Return the events of one day after the other."""
    events.sort(key=lambda event: event.timestamp_ms)
    for _, group in groupby(events, key=lambda event: event.timestamp_ms // DAY_MS):
        yield list(group)


def send_year(tables: Tables, topics: Topics, servers: str, on_progress: Callable[[int], None]) -> Sent:
    """Send everything, then the closing events; returns when all is acknowledged, raises what the first failure raised.

    Each day is flushed before the next begins, so that no partition runs more than a day ahead of another: that is
    what lets the job promise that no row comes too late for its watermark.
    """
    flights = flight_events(tables, topics.flights)
    weather = weather_events(tables, topics.weather)
    midway = flights[len(flights) // 2].timestamp_ms
    malformed = [event for event, _reason in malformed_events(topics.flights, midway)]
    done = 0
    with Producer(bootstrap_servers=servers, client_id="flights-demo") as producer:
        for day in by_day(flights + weather + malformed):
            send_all(producer, day)
            done += len(day)
            on_progress(done)
        closing = closing_events(topics.flights, topics.weather)
        send_all(producer, closing)
        on_progress(done + len(closing))
    return Sent(len(flights), len(weather), len(malformed), len(closing))


def send_all(producer: Producer, events: list[Event]) -> None:
    """Send events and wait until every one is acknowledged."""
    futures = [
        producer.send(event.topic, event.value, key=event.key, timestamp_ms=event.timestamp_ms) for event in events
    ]
    producer.flush()
    for future in futures:
        future.result()
