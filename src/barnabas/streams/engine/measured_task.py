"""A task that measures itself, at the levels DEBUG and TRACE of metrics.recording.level; at INFO it does not exist.

Latencies are nanoseconds, ages of records and what emitting takes milliseconds, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from barnabas.streams.engine.context import TaskContext
from barnabas.streams.engine.measured_store import MeasuredRecordCache, MeasuredStore, measured_of
from barnabas.streams.engine.measuring import AGES, CALLS, SUMS, TIMES, Measuring
from barnabas.streams.engine.nodes import SourceTaskNode
from barnabas.streams.engine.processors.kstream_session_window_aggregate import KStreamSessionWindowAggregateProcessor
from barnabas.streams.engine.processors.kstream_window_aggregate import TimeWindowAggregateProcessor
from barnabas.streams.engine.processors.ktable_suppress import KTableSuppressProcessor
from barnabas.streams.engine.punctuation import Schedule
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.engine.task_node import TaskNode
from barnabas.streams.state.record_cache import RecordCache
from barnabas.streams.state.store import StateStore
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.record import Record
from barnabas.streams.topology.sensors import RecordingLevel, Sensor
from barnabas.streams.topology.stores import StoreBuilder

_EMIT = "window-aggregate-final-emit"


def make_task(topology: ProcessorTopology, id: TaskId, settings: TaskSettings, now_ms: int = 0) -> Task:
    """Return a task, one that measures itself where the settings have a clock and a level above INFO."""
    if settings.clock is None or settings.config.recording_level is RecordingLevel.INFO:
        return Task(topology, id, settings, now_ms)
    return MeasuredTask(topology, id, settings, now_ms)


class MeasuredTask(Task):
    """A task whose calls, stores, caches and nodes are counted and timed; what was counted is in `metrics.read()`."""

    def _prepare(self) -> None:
        assert self._settings.clock is not None, "make_task sees to it"
        self._clock: Callable[[], int] = self._settings.clock
        measuring = self._measuring = Measuring(
            self.metrics, str(self.id), self._clock, lambda: self._context.current_system_time_ms()
        )
        self._measured: dict[str, MeasuredStore] = {}
        task = measuring.of_task()
        self._process_latency = measuring.sensor(task, "process-latency", {"process-latency": TIMES})
        self._punctuations = measuring.sensor(task, "punctuate", {"punctuate": CALLS, "punctuate-latency": TIMES})
        self._processed = measuring.sensor(task, "process", {"process": CALLS})
        self._lateness = measuring.sensor(task, "record-lateness", {"record-lateness": TIMES})

    def _new_context(self) -> TaskContext:
        config = self._settings.config
        serdes = config.default_key_serde, config.default_value_serde
        return MeasuredContext(self, config.values, *serdes, self._measuring)

    def _new_cache(self) -> RecordCache:
        self._cache = MeasuredRecordCache(self._settings.config.cache_max_bytes, self._measuring)
        return self._cache

    def _open_store(self, store: StateStore, builder: StoreBuilder) -> None:
        super()._open_store(store, builder)
        if (measured := measured_of(store, builder, self._measuring)) is not None:
            self._measured[store.name] = measured

    def record_restoration(self, store: str, nanoseconds: int) -> None:
        """Count that a store was restored, which took so long."""
        measured = self._measured.get(store)
        if measured is not None and measured.restored is not None:
            measured.restored.record(nanoseconds)

    def _init_nodes(self) -> None:
        context: Any = self._context
        for node in self._nodes.values():
            context.add_node(node)
        super()._init_nodes()

    def processor_store(self, name: str) -> Any:
        """Return a store for processors."""
        return self._measured.get(name) or super().processor_store(name)

    def process_next(self, now_ms: int) -> bool:
        """See `Task`."""
        began = self._clock()
        if not super().process_next(now_ms):
            return False
        self._process_latency.record(self._clock() - began)
        self._processed.record()
        if (where := self._context.record_context) is not None:
            self._lateness.record(max(0, self.stream_time - where.timestamp))
        return True

    def _punctuate(self, schedule: Schedule, timestamp: int) -> None:
        began = self._clock()
        super()._punctuate(schedule, timestamp)
        self._punctuations.record(self._clock() - began)

    def _flush_stores(self) -> None:
        for name, store in self.stores.items():
            began = self._clock()
            store.flush()
            measured = self._measured.get(name)
            if measured is not None and measured.committed is not None:
                measured.committed.record(self._clock() - began)
        self._cache.tell_size()


class MeasuredContext(TaskContext):
    """A context that counts what nodes are given and send on."""

    def __init__(self, task: Any, config: Any, key_serde: Any, value_serde: Any, measuring: Measuring) -> None:
        super().__init__(task, config, key_serde, value_serde)
        self.measured = True
        self._measuring = measuring
        self._ages: dict[str, Sensor] = {}
        self._sources: dict[str, Sensor] = {}
        self._emits: dict[str, Sensor] = {}
        self._emissions: dict[str, tuple[Sensor, Sensor]] = {}

    def add_node(self, node: TaskNode) -> None:
        """Count what a node does: a source, one that nothing follows, one that suppresses, or emits windows."""
        sensor = partial(self._measuring.sensor, self._measuring.of_node(node.name))
        is_source = isinstance(node, SourceTaskNode)
        if is_source:
            self._sources[node.name] = sensor("process", {"process": CALLS})
        if is_source or not node.children:
            self._ages[node.name] = sensor("record-e2e-latency", {"record-e2e-latency": AGES}, RecordingLevel.INFO)
        processor = getattr(node, "processor", None)
        if isinstance(processor, KTableSuppressProcessor):
            self._emits[node.name] = sensor("suppression-emit", {"suppression-emit": CALLS})
        if isinstance(processor, TimeWindowAggregateProcessor | KStreamSessionWindowAggregateProcessor):
            self._emissions[node.name] = (
                sensor("emitted-records", {_EMIT: SUMS}),
                sensor("emit-final-latency", {f"{_EMIT}-latency": TIMES}),
            )

    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        """See `TaskContext`."""
        node = self.current_node
        super().forward(record, child_name)
        if child_name is not None and node is not None:
            self._sent(node, [node.child_by_name[child_name]], record)

    def forward_all(self, record: Record[Any, Any]) -> None:
        """See `TaskContext`."""
        node = self.current_node
        super().forward_all(record)
        if node is not None:
            self._sent(node, node.children, record)

    def _sent(self, node: TaskNode, children: list[TaskNode], record: Record[Any, Any]) -> None:
        if (emitted := self._emits.get(node.name)) is not None:
            emitted.record()
        if (source := self._sources.get(node.name)) is not None:
            source.record()
            self._record_age(node, record)
        for child in children:
            if not child.children:
                self._record_age(child, record)

    def _record_age(self, node: TaskNode, record: Record[Any, Any]) -> None:
        self._ages[node.name].record(self.current_system_time_ms() - record.timestamp)

    def emission(self) -> Callable[[int], None]:
        """Return what is told how many windows the current node has emitted since this was called."""
        node, clock = self.current_node, self._measuring.clock
        assert node is not None, "a node emits"
        records, latency = self._emissions[node.name]
        began = clock()

        def emitted(count: int) -> None:
            records.record(count)
            latency.record((clock() - began) / 1_000_000)

        return emitted
