"""What a task tells of itself at the levels above INFO, and what processors record: checked by the test driver."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from barnabas.errors import ConfigError
from barnabas.streams import (
    ContextualProcessor,
    EmitStrategy,
    Materialized,
    PunctuationType,
    Record,
    RecordingLevel,
    Sensor,
    Serdes,
    SessionWindows,
    Stat,
    StreamsBuilder,
    StreamsMetrics,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.measured_task import make_task
from barnabas.streams.engine.record import InputRecord
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.processor_topology import build_topology

CONFIG = {
    "application.id": "app", "bootstrap.servers": "x:1", "default.key.serde": "string", "default.value.serde": "string",
    "statestore.cache.max.bytes": 0,
}  # fmt: skip
#: How a rate is divided while the driver's clock stands still: by the window that was before, and the one begun.
SECONDS = 30


def driver(topology: Topology, level: str = "DEBUG", **config: Any) -> TopologyTestDriver:
    return TopologyTestDriver(topology, {**CONFIG, "metrics.recording.level": level, **config}, 0)


def send(driver: TopologyTestDriver, *records: tuple[str, str, int]) -> None:
    topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
    for key, value, timestamp in records:
        topic.pipe_input(value, key, timestamp=timestamp)


def values(driver: TopologyTestDriver, group: str, **tags: str) -> dict[str, float]:
    wanted = {name.replace("_", "-"): value for name, value in tags.items()}
    (only,) = [each for each in driver.metric_groups() if each.group == group and wanted.items() <= each.tags.items()]
    return dict(only.values)


def counting(*options: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(*options).to_stream().map_values(str).to("out")
    return builder.build()


RECORDS = [("a", "1", 5), ("b", "2", 3), ("a", "3", 9)]


def test_the_calls_of_a_store_are_counted_and_timed() -> None:
    with driver(counting(Materialized.as_("counts"))) as found:
        send(found, *RECORDS)
        told = values(found, "stream-state-metrics", lmdb_state_id="counts")

    assert told["put-rate"] * SECONDS == pytest.approx(3)
    assert told["get-rate"] * SECONDS == pytest.approx(3)
    assert told["delete-rate"] == 0
    assert 0 < told["put-latency-avg"] <= told["put-latency-max"]
    assert math.isnan(told["delete-latency-max"])
    assert told["num-open-iterators"] == 0
    assert "record-e2e-latency-avg" not in told, "that is of level TRACE"


def test_the_age_of_records_is_told_by_stores_at_trace_and_by_ends_of_a_topology() -> None:
    with driver(counting(Materialized.as_("counts")), "TRACE") as found:
        found.advance_wall_clock_time(100)
        send(found, *RECORDS)
        told = values(found, "stream-state-metrics", lmdb_state_id="counts")
        source = values(found, "stream-processor-node-metrics", processor_node_id="KSTREAM-SOURCE-0000000000")
        sink = values(found, "stream-processor-node-metrics", processor_node_id="KSTREAM-SINK-0000000004")

    ages = {"record-e2e-latency-min": 91, "record-e2e-latency-max": 97, "record-e2e-latency-avg": (95 + 97 + 91) / 3}
    assert ages.items() <= told.items()
    assert source == {"process-rate": pytest.approx(3 / SECONDS), "process-total": 3, **ages}
    assert sink == ages, "the sum of a key keeps the greatest time"


def test_a_task_tells_how_late_records_are_and_how_long_it_takes() -> None:
    with driver(counting()) as found:
        send(found, *RECORDS)
        told = values(found, "stream-task-metrics")

    assert (told["record-lateness-avg"], told["record-lateness-max"]) == (pytest.approx(2 / 3), 2)
    assert told["process-latency-max"] > 0
    assert (told["punctuate-total"], told["dropped-records-total"]) == (0, 0)


def test_hits_of_a_cache_are_told_as_the_share_until_then() -> None:
    with driver(counting(Materialized.as_("counts")), **{"statestore.cache.max.bytes": 1000}) as found:
        send(found, ("a", "1", 5), ("a", "2", 5))
        told = values(found, "stream-record-cache-metrics", record_cache_id="counts")

    # Looked up: missed, found when it was flushed, found, found when it was flushed.
    assert told == {
        "hit-ratio-min": 1 / 2,
        "hit-ratio-max": 3 / 4,
        "hit-ratio-avg": pytest.approx((1 / 2 + 2 / 3 + 3 / 4) / 3),
    }


def test_what_suppress_holds_back_and_emits_is_counted() -> None:
    builder = StreamsBuilder()
    windows = (
        builder.stream("in", key=Serdes.string(), value=Serdes.string())
        .group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(10))
    )
    windows.count().suppress(Suppressed.until_window_closes().with_name("late")).to_stream(lambda key, count: key.key)
    with driver(builder.build()) as found:
        send(found, ("a", "1", 1), ("b", "1", 2), ("a", "1", 12))
        told = values(found, "stream-processor-node-metrics", processor_node_id="late")
        held = values(found, "stream-state-metrics", in_memory_suppression_state_id="late-store")

    assert told == {"suppression-emit-rate": pytest.approx(2 / SECONDS), "suppression-emit-total": 2}
    assert held["suppression-buffer-count-max"] == 3
    assert held["suppression-buffer-size-max"] > 0


@pytest.mark.parametrize(
    "windows", [TimeWindows.of_size_with_no_grace(10), SessionWindows.of_inactivity_gap_with_no_grace(2)]
)
def test_windows_that_are_emitted_when_they_close_are_counted(windows: Any) -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key().windowed_by(windows)
    kept, emit = Materialized.as_("kept").with_retention(3_600_000), "window-aggregate-final-emit"
    grouped.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE).count(kept).to_stream(lambda key, count: key.key)
    with driver(builder.build()) as found:
        send(found, ("a", "1", 1), ("b", "1", 2), ("a", "1", 32))
        (told,) = [dict(each.values) for each in found.metric_groups() if f"{emit}-total" in each.values]

    assert told[f"{emit}-total"] == 2
    assert told[f"{emit}-latency-max"] >= 0


class Shipping(ContextualProcessor[str, str]):
    """Counts orders and their weights, and holds an iterator."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.weights = context.metrics.add_sensor("weights", RecordingLevel.INFO)
        self.weights.add("weight-total", Stat.CUMULATIVE_SUM, group="shop", tags={"land": "at"})
        self.weights.add("weight-now", Stat.VALUE, group="shop", tags={"land": "at"})
        tags = {"land": "at"}
        level = RecordingLevel.DEBUG
        self.shipped = context.metrics.add_latency_rate_total_sensor("order", "eu", "ship", level, tags)
        self.both = context.metrics.add_sensor("both", RecordingLevel.INFO, self.weights, self.shipped)
        self.open = context.get_state_store("orders").all() if "orders" in context.current_node.stores else None
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now: None)

    def process(self, record: Record[str, str]) -> None:
        self.both.record(float(record.value))
        self.context.forward(record)


def shipping() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").process(Shipping).to("out")
    return builder.build()


def test_sensors_of_a_processor_record_at_their_level() -> None:
    with driver(shipping(), "INFO") as found:
        send(found, *RECORDS)
        assert values(found, "shop") == {"weight-total": 6, "weight-now": 3}
        assert [each for each in found.metric_groups() if each.group == "stream-order-metrics"] == []
    with driver(shipping(), "DEBUG") as found:
        send(found, *RECORDS)
        told = values(found, "stream-order-metrics", thread_id="app", order_id="eu", land="at")
        found.advance_wall_clock_time(25)
        assert values(found, "stream-task-metrics")["punctuate-total"] == 1

    assert told == {
        "ship-rate": pytest.approx(3 / SECONDS), "ship-total": 3, "ship-latency-avg": 2, "ship-latency-max": 3,
    }  # fmt: skip


def test_an_iterator_is_open_until_it_is_closed_or_read_to_its_end() -> None:
    ends = []

    class Reader(ContextualProcessor[str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.get_state_store("seen")
            store.put(record.key, record.value)
            found = store.all()
            if record.value == "read":
                assert [key for key, _ in found] == ["a", "b"]
            elif record.value == "close":
                assert found.has_next()
                found.close()
            ends.append(found)

    from barnabas.streams import Stores

    builder = StreamsBuilder()
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("seen"), Serdes.string(), Serdes.string())
    builder.add_state_store(store)
    builder.stream("in").process(Reader, "seen")
    with driver(builder.build()) as found:
        send(found, ("a", "leave", 1), ("b", "read", 2), ("a", "close", 3))
        told = values(found, "stream-state-metrics", in_memory_state_id="seen")

    assert (told["num-open-iterators"], round(told["all-rate"] * SECONDS)) == (1, 2)
    assert told["iterator-duration-max"] > 0


def test_two_sensors_cannot_have_the_same_metric_and_one_that_is_removed_tells_no_more() -> None:
    metrics = StreamsMetrics(RecordingLevel.INFO, "app")
    one = metrics.add_sensor("one", RecordingLevel.INFO).add("m", Stat.MAX, group="g", tags={"a": "1", "b": "2"})
    other = metrics.add_sensor("other", RecordingLevel.INFO)

    with pytest.raises(ValueError, match="A metric named 'm' already exists in group 'g'"):
        other.add("m", Stat.MIN, group="g", tags={"b": "2", "a": "1"})
    assert metrics.add_sensor("one", RecordingLevel.INFO) is one
    metrics.remove_sensor(one)
    one.record(5)
    other.add("m", Stat.MIN, group="g", tags={"a": "1", "b": "2"}).record(3)

    assert [(each.sensor, each.observed.total) for each in metrics.read()] == [("other", 3)]


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.recording\.level"):
        driver(counting(), "FINE")


def task_at(level: str) -> tuple[Task, Counter[str]]:
    """A task that counts its keys, and how often it has asked the clock."""
    asked = Counter[str]()

    def clock() -> int:
        asked["clock"] += 1
        return asked["clock"]

    config = StreamsConfig({**CONFIG, "metrics.recording.level": level})
    builder = counting(Materialized.as_("counts")).builder
    builder.rewrite_topology(config.values)
    return make_task(build_topology(builder), TaskId(0, 0), TaskSettings(config, clock=clock)), asked


def test_nothing_is_measured_at_info(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Counter[str]()
    real = Sensor.record
    monkeypatch.setattr(Sensor, "record", lambda self, value=1.0: (recorded.update([self.name]), real(self, value))[1])
    counts = {}
    for level in ("INFO", "DEBUG"):
        task, asked = task_at(level)
        task.process([InputRecord("in", 0, at, at, b"k", b"v", []) for at in range(10)], 0)
        counts[level] = asked["clock"], recorded.total()
        if level == "INFO":
            assert type(task) is Task, "not even a class that could measure"
            assert task.processor_store("counts") is task.stores["counts"]
        task.close()

    assert counts["INFO"] == (0, 0)
    assert min(counts["DEBUG"]) > 50
