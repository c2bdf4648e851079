"""Stores that keep headers beside value and timestamp (KIP-1271), as processors of users use them."""

import pytest

from barnabas.streams import (
    AggregationWithHeaders,
    ContextualProcessor,
    Serdes,
    SessionWindow,
    Stores,
    StreamsBuilder,
    StreamsError,
    TopologyTestDriver,
    Windowed,
)
from barnabas.streams.serdes.reader import split_headers, written_headers
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.store import ValueTimestampHeaders

CONFIG = {"application.id": "app", "bootstrap.servers": "unused:9092", "statestore.cache.max.bytes": 0}
HEADERS = [("a", b"1"), ("empty", b""), ("none", None), ("a", b"again")]
STORES = {
    "key-value": Stores.timestamped_key_value_store_with_headers_builder(
        Stores.persistent_timestamped_key_value_store_with_headers("kept"), Serdes.string(), Serdes.string()
    ),
    "window": Stores.timestamped_window_store_with_headers_builder(
        Stores.persistent_timestamped_window_store_with_headers("kept", 1000, 10), Serdes.string(), Serdes.string()
    ),
}


class Keeper(ContextualProcessor):
    """Puts what comes, or deletes it, at its key and perhaps at window 0."""

    def process(self, record):
        value = record.value and ValueTimestampHeaders(record.value, record.timestamp, record.headers)
        window = (0,) if hasattr(self.context.get_state_store("kept"), "fetch_all") else ()
        self.context.get_state_store("kept").put(record.key, value, *window)


def driver_with(builder):
    streams = StreamsBuilder()
    streams.add_state_store(builder)
    streams.stream("in", key=Serdes.string(), value=Serdes.string()).process(Keeper, "kept")
    return TopologyTestDriver(streams.build(), CONFIG, 0)


@pytest.mark.parametrize("kind", STORES)
def test_headers_come_back_from_the_store_and_from_its_changelog(kind):
    with driver_with(STORES[kind]) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        topic.pipe_input("v", "k", timestamp=7, headers=HEADERS)
        logged = driver.read_raw("app-kept-changelog")
        store = driver.get_all_state_stores()["kept"]
        at = (0,) if kind == "window" else ()
        read = store.fetch if kind == "window" else store.get
        assert read("k", *at) == ValueTimestampHeaders("v", 7, HEADERS)
        assert (logged.value, logged.timestamp, logged.headers) == (b"v", 7, HEADERS)

        topic.pipe_input(None, "k", timestamp=9, headers=[("gone", b"x")])
        tombstone = driver.read_raw("app-kept-changelog")
        assert read("k", *at) is None
        assert (tombstone.value, tombstone.timestamp, tombstone.headers) == (None, 9, [("gone", b"x")])

        store.restore([ChangelogRecord(logged.key, logged.value, logged.timestamp, logged.headers)])
        assert read("k", *at) == ValueTimestampHeaders("v", 7, HEADERS)


SESSION = Windowed("k", SessionWindow(3, 5))


class SessionKeeper(ContextualProcessor):
    """Puts what comes into one session, or removes it, by the value."""

    def process(self, record):
        store = self.context.get_state_store("kept")
        if record.value == "remove":
            store.remove(SESSION)
        else:
            store.put(SESSION, record.value and AggregationWithHeaders(record.value, record.headers))


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize(
    "supplier",
    [Stores.persistent_session_store_with_headers("kept", 1000), Stores.in_memory_session_store("kept", 1000)],
)
def test_sessions_keep_headers_and_log_them(supplier, caching):
    builder = Stores.session_store_with_headers_builder(supplier, Serdes.string(), Serdes.string())
    streams = StreamsBuilder()
    streams.add_state_store(builder.with_caching_enabled() if caching else builder)
    streams.stream("in", key=Serdes.string(), value=Serdes.string()).process(SessionKeeper, "kept")
    with TopologyTestDriver(streams.build(), CONFIG | {"statestore.cache.max.bytes": 10_000}, 0) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        topic.pipe_input("v", "k", timestamp=7, headers=HEADERS)
        logged = driver.read_raw("app-kept-changelog")
        store = driver.get_session_store_with_headers("kept")
        assert store.fetch_session("k", 3, 5) == AggregationWithHeaders("v", HEADERS)
        assert [*store.find_sessions("k", 0, 9)] == [(SESSION, AggregationWithHeaders("v", HEADERS))]
        assert driver.get_session_store("kept").fetch_session("k", 3, 5) == "v"
        assert [*driver.get_session_store("kept").fetch("k")] == [(SESSION, "v")]
        assert (logged.value, logged.timestamp, logged.headers) == (b"v", 7, HEADERS)

        for value in ("remove", None):
            topic.pipe_input(value, "k", timestamp=9, headers=[("gone", b"x")])
            tombstone = driver.read_raw("app-kept-changelog")
            assert store.fetch_session("k", 3, 5) is None
            assert (tombstone.value, tombstone.timestamp, tombstone.headers) == (None, 9, [("gone", b"x")])

        store.restore([ChangelogRecord(logged.key, logged.value, logged.timestamp, logged.headers)])
        assert store.fetch_session("k", 3, 5) == AggregationWithHeaders("v", HEADERS)


def test_headers_lie_before_the_value_as_kafka_writes_them():
    assert written_headers([]) == b"\0"
    # HeadersSerializer: size, count, then length and bytes of each name and value; -1 for none. All varints.
    assert written_headers([("ab", b"c"), ("d", None)]) == b"\x12\x04\x04ab\x02c\x02d\x01"
    assert split_headers(written_headers(HEADERS) + b"rest") == (HEADERS, len(written_headers(HEADERS)))


@pytest.mark.parametrize("cut", [b"\x12\x04\x04ab", b"\x80", b"\x06\x02\x02a\x01\x01"])
def test_headers_that_do_not_end_are_an_error(cut):
    with pytest.raises(StreamsError, match="do"):
        split_headers(cut)
