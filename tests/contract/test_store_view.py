"""Views of stores: what they see of a changelog topic on a broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.streams import (
    Serdes,
    StateStoreNotAvailableError,
    StoreView,
    StreamsBuilder,
    StreamsConfig,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    UnknownStateStoreError,
)
from barnabas.streams.state.store import ValueAndTimestamp

CONFIG = {"application.id": "app", "bootstrap.servers": "unused:9092"}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(log_retention_ms=-1) as broker:
        yield broker.bootstrap_servers


def counting(store: str, size_ms: int | None = None) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", key=Serdes.string(), value=Serdes.string()).group_by_key()
    counted = grouped if size_ms is None else grouped.windowed_by(TimeWindows.of_size_and_grace(size_ms, 10_000))
    counted.count(store=store)
    return builder.build()


class Application:
    """Writes the changelog of a topology as `KafkaStreams` would, with two partitions."""

    def __init__(self, servers: str, topology: Topology, store: str) -> None:
        self.topic = f"app-{store}-changelog"
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(self.topic, num_partitions=2)])
        self.driver = TopologyTestDriver(topology, {**CONFIG, "statestore.cache.max.bytes": 0}, 0)
        self.inputs = self.driver.create_input_topic("in", Serdes.string(), Serdes.string())
        self.servers = servers

    def count(self, *keys: str, timestamp: int = 1000) -> None:
        """Count these and wait until the changes are stored."""
        for key in keys:
            self.inputs.pipe_input("v", key, timestamp=timestamp)
        with Producer(bootstrap_servers=self.servers) as producer:
            self.write(producer)

    def write(self, producer: Any) -> None:
        """Send what has changed; keys' partitions are those of their texts, as a repartition topic's would be."""
        while (change := self.driver.read_raw(self.topic)) is not None:
            partition = sum(change.key[:1]) % 2
            producer.send(
                self.topic, change.value, key=change.key, partition=partition, timestamp_ms=change.timestamp,
                headers=change.headers,
            )  # fmt: skip


def view(servers: str, topology: Topology, store: str, **options: Any) -> StoreView:
    return StoreView.open(topology, StreamsConfig(CONFIG), store, {"bootstrap.servers": servers}, **options)


def test_each_query_sees_all_that_is_committed_when_it_begins(servers: str) -> None:
    topology = counting("counts")
    application = Application(servers, topology, "counts")
    application.count("a", "b", "a")

    with view(servers, topology, "counts") as counts:
        assert (counts.get("a"), counts.get("b"), counts.get("c")) == (2, 1, None)
        application.count("a", "c")
        assert sorted(counts.all()) == [("a", 3), ("b", 1), ("c", 1)]
        assert sorted(counts.range("b", "c")) == [("b", 1), ("c", 1)]
        assert counts.approximate_num_entries() == 3


def test_a_view_may_be_allowed_to_be_old(servers: str) -> None:
    topology = counting("stale")
    application = Application(servers, topology, "stale")
    application.count("a")

    with view(servers, topology, "stale", max_staleness=1000.0) as counts:
        assert counts.get("a") == 1
        application.count("a")
        assert counts.get("a") == 1
        counts.refresh()
        assert counts.get("a") == 2


def test_what_is_not_committed_is_not_seen(servers: str) -> None:
    topology = counting("open")
    application = Application(servers, topology, "open")
    application.count("a")

    with Producer(bootstrap_servers=servers, transactional_id="t") as producer, view(servers, topology, "open") as seen:
        producer.init_transactions()
        producer.begin_transaction()
        application.inputs.pipe_input("v", "a", timestamp=1000)
        application.write(producer)
        producer.flush()
        assert seen.get("a") == 1
        producer.commit_transaction()
        assert seen.get("a") == 2


def test_timestamps_come_where_they_are_asked_for(servers: str) -> None:
    topology = counting("timed")
    Application(servers, topology, "timed").count("a", timestamp=77)

    with view(servers, topology, "timed", timestamped=True) as counts:
        assert counts.get("a") == ValueAndTimestamp(1, 77)


def test_windows_are_fetched_by_key_and_time(servers: str) -> None:
    topology = counting("windows", 100)
    application = Application(servers, topology, "windows")
    application.count("a", "b", "a", timestamp=1010)
    application.count("a", timestamp=1110)

    with view(servers, topology, "windows") as windows:
        assert [*windows.fetch("a", 1000, 1200)] == [(1000, 2), (1100, 1)]
        assert windows.fetch("b", 1000) == 1
        assert sorted((window.key, window.window.start, count) for window, count in windows.all()) == [
            ("a", 1000, 2), ("a", 1100, 1), ("b", 1000, 1),
        ]  # fmt: skip


def test_what_cannot_be_asked_says_why(servers: str) -> None:
    topology = counting("never-started")

    with pytest.raises(UnknownStateStoreError, match="there is no store counts in the topology; there are: never-st"):
        view(servers, topology, "counts")
    with pytest.raises(StateStoreNotAvailableError, match="app-never-started-changelog does not exist"):
        view(servers, topology, "never-started")
    named = counting("named")
    Application(servers, named, "named")
    with view(servers, named, "named") as counts, pytest.raises(AttributeError, match="it has all, get, prefix_scan"):
        counts.put("a", 1)
