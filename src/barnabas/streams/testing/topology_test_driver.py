"""Runs a topology in the process, record by record. Source: Kafka's TopologyTestDriver."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from barnabas.clock import wall_clock_ms
from barnabas.streams.config import StreamsConfig
from barnabas.streams.durations import Duration, as_ms, point_ms
from barnabas.streams.engine.global_task import GlobalTask
from barnabas.streams.engine.measured_task import make_task
from barnabas.streams.engine.processors.emit_on_close import EMIT_INTERVAL_AGGREGATION, EMIT_INTERVAL_OUTER_JOIN
from barnabas.streams.engine.task import TaskSettings
from barnabas.streams.errors import TopologyError
from barnabas.streams.state.key_value import KeyValueStore, TimestampedKeyValueStore
from barnabas.streams.state.read_only import ReadOnlyPlainSessionStore, ReadOnlyPlainStore
from barnabas.streams.state.session import SessionStore
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.versioned import VersionedKeyValueStore
from barnabas.streams.state.window import TimestampedWindowStore, WindowStore
from barnabas.streams.testing.record_pipe import RecordPipe
from barnabas.streams.testing.test_topics import TestInputTopic, TestOutputTopic
from barnabas.streams.topology.nodes import SourceNode
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.processor_topology import build_global_state_topology, build_topology
from barnabas.streams.topology.sensors import Metric, Observed, SensorReading, Stat
from barnabas.streams.topology.topology import Topology

if TYPE_CHECKING:
    from barnabas.metrics import MetricGroup
    from barnabas.streams.sensor_statistics import SensorStatistics

_TASK = TaskId(0, 0)


class TopologyTestDriver(RecordPipe):
    """Runs a topology with one partition of each topic.

    The wall clock begins at `initial_wall_clock_time` (a datetime or milliseconds; else now), and only
    `advance_wall_clock_time` moves it. Raises `ConfigError` and `StreamsError` for settings and processors that fail.
    """

    def __init__(
        self,
        topology: Topology,
        config: Mapping[str, Any] | None = None,
        initial_wall_clock_time: datetime | int | None = None,
    ) -> None:
        given = {
            "application.id": f"dummy-topology-test-driver-app-id-{random.randrange(1 << 31)}",
            "bootstrap.servers": "dummy-bootstrap-host:0",
            EMIT_INTERVAL_AGGREGATION: 0,
            EMIT_INTERVAL_OUTER_JOIN: 0,
            **(config or {}),
        }
        self._config = StreamsConfig(given)
        super().__init__(_clock(initial_wall_clock_time))
        builder = topology.builder
        builder.rewrite_topology(self._config.values)
        self._topology = build_topology(builder)
        global_topology = build_global_state_topology(builder)
        settings = self._task_settings()
        if global_topology is not None:
            shared = self._global = GlobalTask(global_topology, TaskSettings(self._config))
            self._global_topics = frozenset(global_topology.source_by_topic)
            settings = settings._replace(global_store=shared.store)
        reads = any(isinstance(node, SourceNode) for node in self._topology.nodes.values())
        self._task = make_task(self._topology, _TASK, settings, self._now_ms) if reads else None
        self._sensors: SensorStatistics | None = None
        self._told_dropped = 0
        self._closed = False

    def _task_settings(self) -> TaskSettings:
        return TaskSettings(self._config, clock=time.perf_counter_ns)

    # -- topics

    def create_input_topic(
        self,
        topic: str,
        key_serde: Any,
        value_serde: Any,
        start_timestamp: datetime | int | None = None,
        auto_advance: Duration = 0,
    ) -> TestInputTopic:
        """Return what pipes records into a topic; serdes, or serializers as `barnabas.serializers` describes them.

        Records without a timestamp get `start_timestamp` (else the wall clock's time), and `auto_advance` more each.
        """
        start = self._now_ms if start_timestamp is None else start_timestamp
        return TestInputTopic(self, topic, key_serde, value_serde, start, auto_advance)

    def create_output_topic(self, topic: str, key_serde: Any, value_serde: Any) -> TestOutputTopic:
        """Return what reads a topic; serdes, or deserializers as `barnabas.serializers` describes them."""
        return TestOutputTopic(self, topic, key_serde, value_serde)

    def _find_source(self, topic: str) -> str | None:
        for known in self._topology.source_by_topic:
            if known != topic and _is_pattern_for(known, topic):
                raise TopologyError(
                    f"Topology add source of type String for topic: {known} cannot contain regex pattern for input "
                    f"record topic: {topic} and hence cannot process the message."
                )
        return self._topology.source_of(topic)

    def _partition_of(self, topic: str) -> str:
        """Return what offsets are counted by: of topics that a pattern matches the pattern, as in Kafka's driver."""
        name = None if topic in self._topology.source_by_topic else self._find_source(topic)
        node = None if name is None else self._topology.nodes[name]
        pattern = node.pattern if isinstance(node, SourceNode) else None
        return topic if pattern is None else pattern.pattern

    # -- time

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """Move the wall clock on, and call punctuators that are due. Raises ValueError for a negative duration."""
        ms = as_ms(advance, "advance")
        if ms < 0:
            raise ValueError("Sleep ms cannot be negative.")
        self._read_sensors()
        self._now_ms += ms
        if self._task is not None:
            self._task.punctuate_system_time(self._now_ms)
            self._capture(self._task.commit())
        self._work_off()

    # -- metrics

    def metric_groups(self) -> list[MetricGroup]:
        """Return the metrics of the task under Kafka's names: dropped records, and what sensors have recorded.

        Those of the engine record at `metrics.recording.level` DEBUG or TRACE; rates are by the driver's wall clock.
        """
        from barnabas.streams.sensor_statistics import merged

        self._read_sensors()
        found = [] if self._sensors is None else self._sensors.groups(self._now_ms / 1000)
        return merged(found)

    def _read_sensors(self) -> None:
        tasks = (self._task, self._global)
        readings = [reading for task in tasks if task is not None for reading in task.metrics.read()]
        if self._task is not None:
            readings.append(self._dropped_since())
        if readings and self._sensors is None:
            from barnabas.streams.sensor_statistics import SensorStatistics, metric_config

            self._sensors = SensorStatistics(metric_config(self._config))
        if self._sensors is not None:
            self._sensors.take(readings, self._now_ms / 1000)

    def _dropped_since(self) -> SensorReading:
        """Return what a sensor would tell that is recorded for each record that is dropped."""
        tags = (("thread-id", self._config.application_id), ("task-id", str(_TASK)))
        stats = (("dropped-records-rate", Stat.RATE), ("dropped-records-total", Stat.CUMULATIVE_SUM))
        metrics = tuple(Metric(name, "stream-task-metrics", tags, stat) for name, stat in stats)
        dropped = self._task.dropped_records if self._task is not None else 0
        new, self._told_dropped = dropped - self._told_dropped, dropped
        return SensorReading("dropped-records", metrics, Observed(int(new > 0), new, new, new, new))

    # -- stores

    @property
    def dropped_records(self) -> int:
        """How many records were dropped: the metric dropped-records-total, summed."""
        task = 0 if self._task is None else self._task.dropped_records
        return task + (0 if self._global is None else self._global.dropped_records)

    def get_all_state_stores(self) -> dict[str, Any]:
        """Return all stores by name."""
        stores: dict[str, Any] = dict(self._global.stores) if self._global is not None else {}
        if self._task is not None:
            stores |= self._task.stores
        return stores

    def get_state_store(self, name: str) -> Any:
        """Return a store of the user's own kind; None when there is none of that name.

        Raises ValueError for one of Kafka's kinds, and names the method for it.
        """
        store = self._store(name)
        for kind, method in _GETTERS:
            if isinstance(store, kind):
                raise ValueError(f"Store {name} should be accessed via {method}()")
        return store

    def get_key_value_store(self, name: str) -> Any:
        """Return a key-value store, one with timestamps as its values alone; None when there is none."""
        store = self._store(name)
        if isinstance(store, TimestampedKeyValueStore):
            return ReadOnlyPlainStore(store, "use get_timestamped_key_value_store to change the store")
        return store if isinstance(store, KeyValueStore) else None

    def get_timestamped_key_value_store(self, name: str) -> TimestampedKeyValueStore | None:
        """Return a key-value store with timestamps; None when there is none."""
        store = self._store(name)
        return store if isinstance(store, TimestampedKeyValueStore) else None

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore | None:
        """Return a versioned store; None when there is none."""
        store = self._store(name)
        return store if isinstance(store, VersionedKeyValueStore) else None

    def get_window_store(self, name: str) -> Any:
        """Return a window store, one with timestamps as its values alone; None when there is none."""
        store = self._store(name)
        if isinstance(store, TimestampedWindowStore):
            return ReadOnlyPlainStore(store, "use get_timestamped_window_store to change the store")
        return store if isinstance(store, WindowStore) else None

    def get_timestamped_window_store(self, name: str) -> TimestampedWindowStore | None:
        """Return a window store with timestamps; None when there is none."""
        store = self._store(name)
        return store if isinstance(store, TimestampedWindowStore) else None

    def get_session_store(self, name: str) -> Any:
        """Return a session store, one with headers as its aggregations alone; None when there is none."""
        store = self._store(name)
        if isinstance(store, SessionStore) and store.with_headers:
            return ReadOnlyPlainSessionStore(store, "use get_session_store_with_headers to change the store")
        return store if isinstance(store, SessionStore) else None

    def get_session_store_with_headers(self, name: str) -> SessionStore | None:
        """Return a session store with headers; None when there is none."""
        store = self._store(name)
        return store if isinstance(store, SessionStore) and store.with_headers else None

    def _store(self, name: str) -> StateStore | None:
        if self._task is not None:
            self._task.store_context()
            if name in self._task.stores:
                return self._task.stores[name]
        return None if self._global is None else self._global.store(name)

    # -- end

    def close(self) -> None:
        """Close processors and stores; what they send then can still be read. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._task is not None:
            self._task.close()
            self._capture(self._task.commit(), work=False)
        if self._global is not None:
            self._global.close()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_GETTERS: tuple[tuple[type, str], ...] = (
    (VersionedKeyValueStore, "get_versioned_key_value_store"),
    (TimestampedKeyValueStore, "get_timestamped_key_value_store"),
    (KeyValueStore, "get_key_value_store"),
    (TimestampedWindowStore, "get_timestamped_window_store"),
    (WindowStore, "get_window_store"),
    (SessionStore, "get_session_store"),
)


def _clock(start: datetime | int | None) -> int:
    if start is None:
        return wall_clock_ms()
    return point_ms(start, "initial_wall_clock_time")


def _is_pattern_for(known: str, topic: str) -> bool:
    """Tell whether a name that was meant as a topic is a regular expression for another one."""
    if known.replace("-", "").replace("_", "").isalnum():
        return False
    try:
        return re.fullmatch(known, topic) is not None
    except re.error:
        return False
