"""Stores that users bring: suppliers for the DSL, what keeps one store's bytes, stores of a kind of their own."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any, ClassVar

import pytest

from barnabas.errors import ConfigError
from barnabas.streams import (
    BuiltInDslStoreSuppliers,
    ContextualProcessor,
    DslStoreFormat,
    DslStoreSuppliers,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StateStore,
    StoreBuilder,
    StoreKind,
    Stores,
    StoreSupplier,
    StreamJoined,
    StreamsBuilder,
    StreamsError,
    TimeWindows,
    TopologyTestDriver,
)
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.in_memory_session import InMemorySessions
from barnabas.streams.state.in_memory_window import InMemoryWindows

CONFIG = {
    "application.id": "app",
    "bootstrap.servers": "unused:9092",
    "statestore.cache.max.bytes": 0,
    "default.key.serde": "string",
    "default.value.serde": "string",
}
SETTING = "dsl.store.suppliers.class"


class SortedList:
    """A `BytesMap` of a user's: a list that is kept sorted."""

    made: ClassVar[list[SortedList]] = []

    def __init__(self) -> None:
        self.entries: list[tuple[bytes, bytes]] = []
        SortedList.made.append(self)

    def get(self, key: bytes) -> bytes | None:
        at = bisect_left(self.entries, (key, b""))
        return self.entries[at][1] if at < len(self.entries) and self.entries[at][0] == key else None

    def put(self, key: bytes, value: bytes) -> None:
        self.delete(key)
        insort(self.entries, (key, value))

    def delete(self, key: bytes) -> bytes | None:
        found = self.get(key)
        self.entries = [entry for entry in self.entries if entry[0] != key]
        return found

    def range(self, first: Any, last: Any, reverse: bool = False, open_end: bool = False) -> Any:
        chosen = [
            entry
            for entry in self.entries
            if (first is None or entry[0] >= first)
            and (last is None or entry[0] < last or (entry[0] == last and not open_end))
        ]
        return iter(chosen[::-1] if reverse else chosen)

    def __len__(self) -> int:
        return len(self.entries)


class Own(DslStoreSuppliers):
    """Keeps all in the user's own, and notes what it was asked for."""

    asked: ClassVar[list[Any]] = []
    configured: ClassVar[list[Any]] = []

    def configure(self, configs: Any) -> None:
        Own.configured.append(configs["application.id"])

    def key_value_store(self, params: Any) -> StoreSupplier:
        Own.asked.append(params)
        return StoreSupplier(params.name, StoreKind.KEY_VALUE, persistent=False, get=SortedList)

    def window_store(self, params: Any) -> StoreSupplier:
        Own.asked.append(params)
        keeps = params.retention_period_ms
        made = Stores.in_memory_window_store(params.name, keeps, params.window_size_ms, params.retain_duplicates)
        make = lambda: InMemoryWindows(keeps, retain_duplicates=params.retain_duplicates)  # noqa: E731
        return StoreSupplier(**{**vars(made), "get": make})

    def session_store(self, params: Any) -> StoreSupplier:
        Own.asked.append(params)
        make = lambda: InMemorySessions(params.retention_period_ms)  # noqa: E731
        return StoreSupplier(params.name, StoreKind.SESSION, persistent=False, get=make)


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    Own.asked, Own.configured, SortedList.made = [], [], []


def _topology(builder: StreamsBuilder) -> Any:
    stream = builder.stream("in")
    grouped = stream.group_by_key()
    grouped.count(store="count").to_stream().to("counts", value=Serdes.long())
    for name, windows in (
        ("time", TimeWindows.of_size(10)),
        ("slide", SlidingWindows.of_time_difference(5)),
        ("session", SessionWindows.of_inactivity_gap(5)),
    ):
        kept = Materialized.as_(name).with_value_serde(Serdes.long())
        grouped.windowed_by(windows).count(kept).to_stream(lambda window, count: window.key).to(
            f"{name}s", value=Serdes.long()
        )
    other = builder.stream("other")
    options = JoinWindows.of_time_difference(10), StreamJoined.as_("join").with_name("join")
    stream.left_join(other, lambda left, right: f"{left}{right}", *options).to("joined")
    return builder.build()


def _outputs(config: dict[str, Any]) -> dict[str, list[Any]]:
    with TopologyTestDriver(_topology(StreamsBuilder()), {**CONFIG, **config}, 0) as driver:
        for time, (topic, key, value) in enumerate(
            [("in", "a", "1"), ("other", "a", "x"), ("in", "a", "2"), ("in", "b", None), ("in", "b", "3")]
        ):
            given = driver.create_input_topic(topic, Serdes.string(), Serdes.string())
            given.pipe_input(value, key, timestamp=4 * time)
        read: dict[str, list[Any]] = {}
        for topic in sorted(driver.produced_topic_names()):
            while (record := driver.read_raw(topic)) is not None:
                read.setdefault(topic, []).append((record.key, record.value, record.timestamp, record.headers))
    return read


@pytest.mark.parametrize("given", [Own, Own(), f"{__name__}:Own"])
def test_all_stores_of_the_dsl_are_the_users_where_the_setting_names_suppliers(given: Any) -> None:
    assert _outputs({SETTING: given}) == _outputs({SETTING: BuiltInDslStoreSuppliers.IN_MEMORY})

    assert sorted((type(asked).__name__, asked.name) for asked in Own.asked) == [
        ("DslKeyValueParams", "count"),
        ("DslKeyValueParams", "join-left-shared-join-store"),
        ("DslSessionParams", "session"),
        ("DslWindowParams", "join-outer-other-join-store"),
        ("DslWindowParams", "join-this-join-store"),
        ("DslWindowParams", "slide"),
        ("DslWindowParams", "time"),
    ]
    asked = {params.name: params for params in Own.asked}
    assert asked["count"].dsl_store_format is DslStoreFormat.TIMESTAMPED
    assert asked["join-this-join-store"].dsl_store_format is DslStoreFormat.PLAIN
    assert asked["join-this-join-store"].retain_duplicates
    assert asked["slide"].is_sliding_window
    assert (asked["slide"].window_size_ms, asked["slide"].retention_period_ms) == (5, 10)
    assert asked["session"].emit_strategy is EmitStrategy.ON_WINDOW_UPDATE
    assert len(SortedList.made) == 2
    assert Own.configured == ["app"]


def test_headers_are_asked_for_where_the_setting_says_so() -> None:
    _outputs({SETTING: Own, "dsl.store.format": "HEADERS"})

    formats = {params.name: params.dsl_store_format for params in Own.asked}
    assert formats.pop("join-left-shared-join-store") is DslStoreFormat.PLAIN
    assert set(formats.values()) == {DslStoreFormat.HEADERS}


@pytest.mark.parametrize(
    "kept", [Materialized.as_(Own()), Materialized.with_().with_store_type(Own()), Materialized.as_("count")]
)
def test_a_steps_suppliers_come_before_the_topologys_and_those_before_the_settings(kept: Any) -> None:
    of_the_topology = {SETTING: Own} if kept.dsl_store_suppliers is None else {SETTING: Refusing}
    builder = StreamsBuilder({"application.id": "app", **of_the_topology})
    builder.stream("in").group_by_key().count(kept).to_stream().to("out", value=Serdes.long())

    with TopologyTestDriver(builder.build(), {**CONFIG, SETTING: Refusing}, 0):
        assert len(SortedList.made) == 1


class Refusing(DslStoreSuppliers):
    """Has nothing."""


@pytest.mark.parametrize(
    ("supplied", "said"),
    [
        (None, "Wrong gave for store count None, which is no StoreSupplier"),
        (Stores.in_memory_session_store("x", 10), "Wrong gave for store count a session supplier"),
        (
            StoreSupplier("x", StoreKind.KEY_VALUE, False, get=dict),
            "no BytesMap: it has no delete, put, range",
        ),
    ],
)
def test_what_is_no_such_store_is_an_error_that_names_suppliers_and_store(supplied: Any, said: str) -> None:
    class Wrong(DslStoreSuppliers):
        def key_value_store(self, params: Any) -> Any:
            return supplied

    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(store="count")
    with pytest.raises((TypeError, ValueError, StreamsError), match=said):
        TopologyTestDriver(builder.build(), {**CONFIG, SETTING: Wrong}, 0)


def test_what_is_no_suppliers_at_all_is_an_error_of_the_settings() -> None:
    with pytest.raises(ConfigError, match=f"{SETTING}.*no DslStoreSuppliers"):
        StreamsBuilder({SETTING: dict})
    with pytest.raises(ConfigError, match=f"{SETTING}"):
        _outputs({SETTING: "com.example.Suppliers"})
    for wrong in (lambda: Materialized.with_().with_store_type(), lambda: StreamJoined().with_dsl_store_suppliers("x")):
        with pytest.raises(TypeError, match="DslStoreSuppliers"):
            wrong()


def test_a_store_of_the_users_own_is_filled_from_its_changelog() -> None:
    builder = StreamsBuilder()
    supplier = StoreSupplier("kept", StoreKind.KEY_VALUE, persistent=False, get=SortedList)
    builder.table("in", Materialized.as_(supplier).with_caching_disabled())
    with TopologyTestDriver(builder.build(), CONFIG, 0) as driver:
        driver.create_input_topic("in", Serdes.string(), Serdes.string()).pipe_input("1", "a", timestamp=7)
        store = driver.get_all_state_stores()["kept"]
        assert not store.persistent
        store.restore([ChangelogRecord(b"b", b"2", 8, []), ChangelogRecord(b"a", None, 9, [])])
        assert [(key, found.value, found.timestamp) for key, found in store.all()] == [("b", "2", 8)]


class Sets(StateStore):
    """A store of a user's own kind: the values that a key had."""

    def __init__(self) -> None:
        super().__init__("sets")
        self.values: dict[str, set[str]] = {}

    def add(self, key: str, value: str) -> int:
        self.values.setdefault(key, set()).add(value)
        self.log(f"{key}/{value}".encode(), b"")
        return len(self.values[key])

    def restore(self, records: Any) -> None:
        for record in records:
            key, _, value = record.key.decode().partition("/")
            self.values.setdefault(key, set()).add(value)


class Distinct(ContextualProcessor):
    def process(self, record: Any) -> None:
        store = self.context.get_state_store("sets")
        self.context.forward(record.with_value(str(store.add(record.key, record.value))))


@pytest.mark.parametrize("logging", [True, False])
def test_a_store_of_a_kind_of_its_own_has_a_changelog_and_is_restored(logging: bool) -> None:
    builder = StreamsBuilder()
    described = StoreBuilder.of("sets", Sets)
    builder.add_state_store(described if logging else described.with_logging_disabled())
    builder.stream("in").process(Distinct, "sets").to("out")
    with TopologyTestDriver(builder.build(), CONFIG, 0) as driver:
        given = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for value in ("x", "y", "x"):
            given.pipe_input(value, "k", timestamp=3)
        counted = driver.create_output_topic("out", Serdes.string(), Serdes.string()).read_values_to_list()
        logged = [] if not logging else [driver.read_raw("app-sets-changelog") for _ in range(3)]
        store = driver.get_state_store("sets")
    again = Sets()
    again.restore(logged)

    assert counted == ["1", "2", "2"]
    assert store.values == {"k": {"x", "y"}}
    assert again.values == (store.values if logging else {})
    assert [(record.key, record.timestamp) for record in logged[:1]] == ([(b"k/x", 3)] if logging else [])


def test_a_maker_of_another_store_is_an_error() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(StoreBuilder.of("other", Sets))
    builder.stream("in").process(Distinct, "other")
    with pytest.raises(StreamsError, match="store other must make a StateStore of that name"):
        TopologyTestDriver(builder.build(), CONFIG, 0)
    with pytest.raises(TypeError, match="sets"):
        StoreBuilder.of("sets", Sets())
