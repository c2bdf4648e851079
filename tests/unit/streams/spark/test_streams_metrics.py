"""What an application tells of itself under Kafka's names: from what its tasks have counted to Prometheus."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.network.sampled_stat import MetricConfig
from barnabas.streams import StreamsBuilder
from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.record import OutputRecord
from barnabas.streams.spark import query_plan, rows
from barnabas.streams.spark.streams_metrics import ApplicationMetrics
from barnabas.streams.spark.task_measures import Age, BatchCounts, RestoreEvent, StoreSize, TaskMeasures, entries_of
from barnabas.streams.state_restore_listener import StateRestoreListener
from barnabas.streams.topology.sensors import RecordingLevel, Stat, StreamsMetrics

TASK = {"thread-id": "app", "task-id": "0_1"}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measures(**fields: Any) -> TaskMeasures:
    given: dict[str, Any] = {
        "task": "0_1", "seconds": 0.5, "dropped": 1, "restored": 0, "consumed": {("source", "in"): (10, 100)},
        "produced": {("sink", "out"): (4, 44)}, "ages": {"source": Age(10, 500.0, 20.0, 90.0)},
        "stores": {"counts": StoreSize("lmdb", 7), "held": StoreSize("in-memory-suppression", None, (3, 300))},
        "disk_bytes": 4096,
    }  # fmt: skip
    return TaskMeasures(**{**given, **fields})


def values(found: list[MetricGroup], group: str, **tags: str) -> dict[str, float]:
    wanted = {name.replace("_", "-"): value for name, value in tags.items()}
    (only,) = [each for each in found if each.group == group and wanted.items() <= each.tags.items()]
    return dict(only.values)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> ApplicationMetrics:
    return ApplicationMetrics("app", clock, MetricConfig())


def test_counts_of_batches_are_in_kafkas_groups(metrics: ApplicationMetrics, clock: Clock) -> None:
    metrics.took(measures())
    metrics.committed(0.6, 0.1)
    clock.now += 10
    metrics.took(measures(seconds=1.5, dropped=0, restored=20))
    metrics.committed(1.6, 0.3)

    found = metrics.groups(2, is_running=True)

    assert values(found, "stream-metrics") == {"client-state": 2, "alive-stream-threads": 1, "failed-stream-threads": 0}
    thread = values(found, "stream-thread-metrics", thread_id="app")
    assert thread["process-total"] == 20
    assert thread["commit-total"] == 2
    assert thread["commit-latency-avg"] == pytest.approx(200)
    assert thread["process-latency-max"] == pytest.approx(1600)
    task = values(found, "stream-task-metrics", task_id="0_1")
    assert (task["process-total"], task["dropped-records-total"], task["restore-total"]) == (20, 1, 20)
    assert task["process-rate"] == pytest.approx(20 / 40), "over a window that has begun and one before it"
    assert task["batch-latency-avg"] == pytest.approx(1000)
    node = values(found, "stream-processor-node-metrics", processor_node_id="source")
    assert node["process-total"] == 20
    assert [node[f"record-e2e-latency-{name}"] for name in ("avg", "min", "max")] == [50, 20, 90]
    topics = [each for each in found if each.group == "stream-topic-metrics"]
    assert [(each.tags["topic-name"], dict(each.values)) for each in topics] == [
        ("out", {"records-produced-total": 8, "bytes-produced-total": 88}),
        ("in", {"records-consumed-total": 20, "bytes-consumed-total": 200}),
    ]
    assert values(found, "stream-state-metrics", lmdb_state_id="counts") == {"estimate-num-keys": 7}
    held = values(found, "stream-state-metrics", in_memory_suppression_state_id="held")
    assert (held["suppression-buffer-count-max"], held["suppression-buffer-size-avg"]) == (3, 300)


def test_what_sensors_of_several_tasks_have_recorded_adds_up(metrics: ApplicationMetrics, clock: Clock) -> None:
    for task, sizes in (("0_0", [1.0, 5.0]), ("0_1", [3.0]), ("0_0", [])):
        own = StreamsMetrics(RecordingLevel.INFO, "app")
        sensor = own.add_latency_rate_total_sensor("order", "eu", "ship", RecordingLevel.INFO)
        sensor.add("ship-weight", Stat.CUMULATIVE_SUM, group="stream-order-metrics", tags={"order-id": "eu"})
        own.add_sensor("too fine", RecordingLevel.DEBUG).add("none", Stat.AVG, group="stream-order-metrics")
        for size in sizes:
            sensor.record(size)
        metrics.took(measures(task=task, sensors=own.read()))
        clock.now += 1

    found = metrics.groups(2, is_running=True)

    assert values(found, "stream-order-metrics", thread_id="app", order_id="eu") == {
        "ship-rate": pytest.approx(3 / 33), "ship-total": 3, "ship-latency-avg": 3, "ship-latency-max": 5,
    }  # fmt: skip
    assert [dict(group.values) for group in found if dict(group.tags) == {"order-id": "eu"}] == [{"ship-weight": 9}]


def test_what_is_left_to_restore_goes_down_to_nothing(metrics: ApplicationMetrics) -> None:
    def left() -> float:
        return values(metrics.groups(1, is_running=True), "stream-task-metrics")["restore-remaining-records-total"]

    metrics.took(measures())
    metrics.remains("0_1", "a", 100, 90)
    metrics.remains("0_1", "b", 50, 50)
    seen = [left()]
    metrics.restored("0_1", "a", 70)
    seen.append(left())
    metrics.restored("0_1", "a", None)
    metrics.restored("0_1", "b", None)
    seen.append(left())

    assert seen == [140, 80, 0]


def test_prometheus_has_them_with_labels(metrics: ApplicationMetrics) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry

    from barnabas.metrics import ClientCollector

    class KafkaStreamsLike(Measured):
        def metric_groups(self) -> list[MetricGroup]:
            return metrics.groups(2, is_running=True)

    metrics.took(measures())
    registry = CollectorRegistry()
    registry.register(ClientCollector(delays=KafkaStreamsLike()))

    labels = {"client": "delays", "thread_id": "app", "task_id": "0_1"}
    assert registry.get_sample_value("kafka_streams_task_process_total", labels) == 10
    node = {**labels, "processor_node_id": "source"}
    assert registry.get_sample_value("kafka_streams_processor_node_record_e2e_latency_max", node) == 90
    store = {**labels, "lmdb_state_id": "counts"}
    assert registry.get_sample_value("kafka_streams_state_estimate_num_keys", store) == 7


def test_a_batch_counts_its_records_bytes_and_their_age_by_node() -> None:
    builder = StreamsBuilder()
    builder.stream("a").merge(builder.stream("b")).to("out")
    config = StreamsConfig({"application.id": "app", "bootstrap.servers": "x:1"})
    topology = query_plan.planned(builder.build(), config).subtopologies[0]
    counts = BatchCounts(topology, now_ms=1000)
    read = pa.RecordBatch.from_pydict({
        "topic": ["a", "b", "a"], "key": [b"k", None, b"k"], "value": [b"12", b"1", None],
        "timestamp": pa.array([900_000, 400_000, 1_000_000], pa.timestamp("us")),
    })  # fmt: skip

    counts.read(read)
    records = [OutputRecord("out", 0, b"k", b"123", 5, []), OutputRecord("app-x-changelog", 0, b"k", b"1", 5, [])]
    written = rows.output_rows(records)
    assert written is not None
    counts.wrote(written)

    sources = topology.source_by_topic
    assert counts.consumed == {(sources["a"], "a"): (2, 4), (sources["b"], "b"): (1, 1)}
    assert counts.produced == {(topology.sink_topics["out"], "out"): (1, 4)}
    sink = topology.sink_topics["out"]
    assert counts.ages == {
        sources["a"]: Age(2, 100.0, 0.0, 100.0), sources["b"]: Age(1, 600.0, 600.0, 600.0), sink: Age(1, 995, 995, 995),
    }  # fmt: skip


def test_entries_of_a_store_are_those_of_its_segments_and_no_others() -> None:
    maps = Counter({"s": 1, "s.0": 2, "s.-60000": 4, "s-latest": 8, "s2": 16, "s.x": 32, "other": 64})

    assert entries_of("s", maps) == 15


def test_a_listener_hears_of_a_restoration_by_kafkas_methods() -> None:
    heard: list[tuple[Any, ...]] = []

    class Listener(StateRestoreListener):
        def on_restore_start(self, *told: Any) -> None:
            heard.append(("start", *told))

        def on_batch_restored(self, *told: Any) -> None:
            heard.append(("batch", *told))

        def on_restore_end(self, *told: Any) -> None:
            heard.append(("end", *told))

        def on_restore_suspended(self, *told: Any) -> None:
            heard.append(("suspended", *told))

    for what, end, restored in (("start", 9, 0), ("batch", 5, 4), ("suspended", 5, 4), ("end", 9, 7)):
        RestoreEvent(what, "log", 1, "s", 0, end, restored).tell(Listener())

    place = ("log", 1)
    assert heard == [
        ("start", place, "s", 0, 9), ("batch", place, "s", 5, 4), ("suspended", place, "s", 4), ("end", place, "s", 7),
    ]  # fmt: skip
