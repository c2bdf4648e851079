# cython: language_level=3, annotation_typing=False
"""A task: the nodes and stores of a sub-topology for one partition. Source: Kafka's StreamTask.

C types are in `task.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.config import StreamsConfig
from barnabas.streams.engine.exception_handlers import Response, Result
from barnabas.streams.engine.nodes import make_nodes
from barnabas.streams.engine.punctuation import PunctuationQueue, Schedule
from barnabas.streams.engine.record_collector import FailedProcessingError, error_context, failed
from barnabas.streams.engine.record_deserializer import handle_deserialization_failure
from barnabas.streams.engine.timestamp_extractors import FailOnInvalidTimestamp
from barnabas.streams.errors import StreamsError, TaskCorruptedError, TaskMigratedError, TopologyError
from barnabas.streams.state.changelog_record import last_of_each_key
from barnabas.streams.state.key_value import KeyValueStore, TimestampedKeyValueStore
from barnabas.streams.state.memory import Backend, MemoryBackend
from barnabas.streams.state.record_cache import RecordCache
from barnabas.streams.state.session import SessionStore
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.store_factory import cache_interval_ms, make_store
from barnabas.streams.state.window import JoinWindowStore, TimestampedWindowStore, WindowStore
from barnabas.streams.topology.dsl_store_suppliers import resolved
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.origins import note_origin
from barnabas.streams.topology.processor_api import PunctuationType, Punctuator, TaskId
from barnabas.streams.topology.sensors import StreamsMetrics
from barnabas.streams.topology.stores import StoreBuilder

if not cython.compiled:
    from barnabas.streams.engine.context import TaskContext
    from barnabas.streams.engine.nodes import SourceTaskNode
    from barnabas.streams.engine.partition_group import PartitionGroup, Stamp
    from barnabas.streams.engine.record import append_changes
    from barnabas.streams.engine.record_collector import RecordCollector
    from barnabas.streams.serdes.record_context import RecordContext, record_context
    from barnabas.streams.topology.record import make_record

if TYPE_CHECKING:
    from barnabas.streams.engine.record import InputRecord, OutputRecord, StampedRecord
    from barnabas.streams.engine.task_node import TaskNode
    from barnabas.streams.topology.record import Record


#: Kinds of stores that hold back what is in their cache only.
_CACHED = (
    KeyValueStore,
    TimestampedKeyValueStore,
    WindowStore,
    JoinWindowStore,
    TimestampedWindowStore,
    SessionStore,
)


class TaskSettings(NamedTuple):
    """What a task is told beside its topology.

    `partitions_of` returns how many partitions a topic has, for partitioners; `global_store` finds a global store.
    `keeps_origins` says whether sent records remember where they were made, `logs_last_changes` whether changelogs get
    but the last of several changes of a key. `clock` gives nanoseconds that only go on, for what is measured at the
    levels DEBUG and TRACE (`make_task`).
    """

    config: StreamsConfig
    backend: Backend | None = None
    global_store: Callable[[str], StateStore | None] = lambda name: None
    partitions_of: Callable[[str], int] = lambda topic: 1
    keeps_origins: bool = False
    clock: Callable[[], int] | None = None
    logs_last_changes: bool = False


@cython.cclass
class SourceStamp(Stamp):
    """Stamps the records of a task's source; `default` is the extractor where the source has none."""

    def __init__(self, task: Task, source: SourceTaskNode, default: Any) -> None:
        self._task = task
        self._source = source
        self._extract = source.timestamp_extractor or default
        self._is_usual = type(self._extract) is FailOnInvalidTimestamp

    def stamp(self, raw: InputRecord, partition_time: int) -> StampedRecord | None:
        """See `Stamp`. Raises `StreamsError` when the extractor fails, and when no handler lets the record pass."""
        try:
            record = self._source.deserialize(raw)
        except Exception as problem:  # noqa: BLE001 - the handler decides
            self._task.handle_deserialization_error(self._source, raw, problem)
            return None
        if self._is_usual and record.timestamp >= 0:
            return record
        try:
            timestamp = self._extract(record, partition_time)
        except StreamsError:
            raise
        except Exception as problem:
            raise StreamsError(f"Fatal user code error in TimestampExtractor callback for record {raw}.") from problem
        if timestamp < 0:
            self._task.record_dropped()
            return None
        record.timestamp = timestamp
        return record


@cython.cclass
class Task:
    """Runs the nodes of a sub-topology for one partition.

    `process` takes the records that wait and returns what is sent. Between two calls all of its state lies in its
    stores and in `metadata()`. Raises `StreamsError` when a processor cannot be initialized.
    """

    def __init__(self, topology: ProcessorTopology, id: TaskId, settings: TaskSettings, now_ms: int = 0) -> None:
        config = settings.config
        self.id = id
        self.dropped_records = 0
        self.commit_requested = False
        self._topology = topology
        self._changelogs = topology.store_to_changelog_topic
        self._partition = id.partition
        self._settings = settings
        self._logs_last_changes = settings.logs_last_changes
        self.collector = RecordCollector(self, config.production_exception_handler, settings.partitions_of)
        self.collector.keeps_origins = settings.keeps_origins
        self._now_ms = now_ms
        #: What processors count of themselves, and a `MeasuredTask` of itself.
        self.metrics = StreamsMetrics(config.recording_level, config.application_id)
        self._prepare()
        self._context = self._new_context()
        self._group = PartitionGroup(self._stamp)
        self._stream_time_queue = PunctuationQueue()
        self._queues = {
            PunctuationType.STREAM_TIME: self._stream_time_queue,
            PunctuationType.WALL_CLOCK_TIME: PunctuationQueue(),
        }
        self._kept: dict[str, Any] = {}
        self._sources: dict[str, SourceTaskNode] = {}
        self._nodes = make_nodes(topology)
        self.stores = self._open_stores(settings.backend or MemoryBackend())
        self._all_stores = list(self.stores.values())
        self._holding_back = [store for store in self._all_stores if not _holds_nothing_back(store)]
        self._init_nodes()

    def _prepare(self) -> None:
        """Do what comes before the context is made."""

    def _new_context(self) -> TaskContext:
        config = self._settings.config
        return TaskContext(self, config.values, config.default_key_serde, config.default_value_serde)

    def _new_cache(self) -> RecordCache:
        return RecordCache(self._settings.config.cache_max_bytes)

    def _open_stores(self, backend: Backend) -> dict[str, StateStore]:
        stores = {}
        config = self._settings.config
        shared = self._new_cache()
        for name, builder in self._topology.state_stores.items():
            builder = resolved(builder, config.dsl_store_suppliers, with_headers=config.stores_headers)
            store = make_store(builder, backend)
            if builder.caching and shared.max_bytes > 0:
                store.enable_cache(shared, cache_interval_ms(builder))
            self._open_store(store, builder)
            stores[name] = store
        return stores

    def _open_store(self, store: StateStore, builder: StoreBuilder) -> None:
        store.init(self._context)

    def processor_store(self, name: str) -> Any:
        """Return a store for processors."""
        return self.stores[name]

    def _init_nodes(self) -> None:
        context = self._context
        context.set_system_time_ms(self._now_ms)
        for node in self._nodes.values():
            context.record_context = RecordContext(self._now_ms, -1, -1, None, [])
            context.current_node = node
            try:
                node.init(context)
            finally:
                context.current_node = None
                context.record_context = None

    # -- processing

    def process(self, records: Iterable[InputRecord], now_ms: int) -> list[OutputRecord]:
        """Process records and call punctuators that are due; return what was sent, changelog records at the end.

        Raises `StreamsError` as Kafka's StreamTask does; then the task must be restored before it goes on.
        """
        self.add_records(records)
        self.work_off(now_ms)
        self.punctuate_system_time(now_ms)
        return self.commit()

    def add_records(self, records: Iterable[InputRecord]) -> None:
        """Add records to the queues of their partitions, each partition's in the order of offsets."""
        group = self._group
        for record in records:
            group.add(record)

    def add_record(self, record: InputRecord) -> None:
        """Add one record."""
        self._group.add(record)

    def work_off(self, now_ms: int) -> None:
        """Process all records that wait, and call punctuators that are due by stream time."""
        while self.process_next(now_ms):
            self.punctuate_stream_time()

    def process_in_order(self, records: list[InputRecord], now_ms: int) -> None:
        """Process records in the order in which they are given; times of different topics do not count."""
        at, count = 0, len(records)
        while at < count:
            topic = records[at].topic
            while at < count:
                record = records[at]
                if record.topic != topic:
                    break
                self._group.add(record)
                at += 1
            self.work_off(now_ms)

    def process_next(self, now_ms: int) -> bool:
        """Process the record whose turn it is; False when none waits."""
        record = self._group.next_record()
        if record is None:
            return False
        self._now_ms = now_ms
        raw = record.raw
        context = self._context
        node = self._source(raw.topic)
        context.record_context = record_context(
            record.timestamp, raw.offset, raw.partition, raw.topic, raw.header_list, raw.key, raw.value
        )
        context.current_node = node
        context.set_system_time_ms(now_ms)
        self.collector.source = raw
        try:
            node.process(make_record(record.key, record.value, record.timestamp, raw.header_list))
        except FailedProcessingError as problem:
            raise self._failure(problem, record) from problem.__cause__
        except StreamsError:
            raise
        except Exception as problem:
            raise self._caught(_name(context.current_node), record) from problem
        finally:
            context.current_node = None
        return True

    def _failure(self, problem: FailedProcessingError, record: StampedRecord) -> StreamsError:
        if problem.has_message:
            return StreamsError(str(problem))
        return self._caught(problem.node, record)

    def _caught(self, node: str | None, record: StampedRecord) -> StreamsError:
        error = StreamsError(
            f"Exception caught in process. taskId={self.id}, processor={node}, topic={record.topic}, "
            f"partition={record.partition}, offset={record.offset}"
        )
        if node is not None and (described := self._topology.nodes.get(node)) is not None:
            note_origin(error, node, described.made_at)
        return error

    def commit(self) -> list[OutputRecord]:
        """Flush caches and buffers; return what was sent since the last commit, changelog records at the end."""
        self._flush_stores()
        sent = self.collector.drain()
        for store in self._all_stores:
            changes = store.changes()
            if changes:
                if self._logs_last_changes and store.last_change_counts:
                    changes = last_of_each_key(changes)
                append_changes(sent, self._changelogs[store.name], self._partition, changes)
        self.commit_requested = False
        return sent

    def _flush_stores(self) -> None:
        for store in self._holding_back:
            store.flush()

    def waits(self) -> bool:
        """Tell whether a record waits to be processed."""
        return self._group.waits()

    @property
    def stream_time(self) -> int:
        """The greatest timestamp that was processed, in milliseconds; -1 before the first."""
        return self._group.stream_time

    def _source(self, topic: str) -> SourceTaskNode:
        known = self._sources.get(topic)
        if known is None:
            known = self._sources[topic] = self._find_source(topic)
        return known

    def _find_source(self, topic: str) -> SourceTaskNode:
        name = self._topology.source_of(topic)
        node = None if name is None else self._nodes[name]
        if not isinstance(node, SourceTaskNode):
            raise TopologyError(
                f"Topic {topic} is unknown to the topology. This may happen if different instances of the same "
                "application execute different Topologies. Note that Topologies are only identical if all operators "
                "are added in the same order."
            )
        return node

    def _stamp(self, topic: str) -> Stamp:
        return SourceStamp(self, self._source(topic), self._settings.config.default_timestamp_extractor)

    # -- punctuation

    def schedule(
        self, node: TaskNode, interval_ms: int, kind: PunctuationType, punctuator: Punctuator, start: int | None
    ) -> Schedule:
        """Add a punctuator of a node."""
        wall = kind is PunctuationType.WALL_CLOCK_TIME
        time = (self._now_ms + interval_ms if wall else 0) if start is None else start
        schedule = Schedule(node, time, interval_ms, punctuator)
        now = self._now_ms if wall else self.stream_time
        if start is not None and start < now:
            schedule.advance(now)
        return self._queues[kind].add(schedule)

    def punctuate_stream_time(self) -> bool:
        """Call punctuators that are due by stream time; tell whether there were any."""
        now = self._group.stream_time
        queue = self._stream_time_queue
        return not queue.is_empty() and now >= 0 and queue.punctuate(now, self._punctuate)

    def punctuate_system_time(self, now_ms: int) -> bool:
        """Call punctuators that are due by the wall clock; tell whether there were any."""
        self._now_ms = now_ms
        return self._queues[PunctuationType.WALL_CLOCK_TIME].punctuate(now_ms, self._punctuate)

    def wall_clock_intervals(self) -> list[int]:
        """Return the intervals of all punctuators by the wall clock, in milliseconds."""
        return [found.interval_ms for found in self._queues[PunctuationType.WALL_CLOCK_TIME].schedules()]

    def _punctuate(self, schedule: Schedule, timestamp: int) -> None:
        context = self._context
        node = schedule.node
        context.record_context = where = RecordContext(timestamp, -1, -1, None, [])
        context.current_node = node
        context.set_system_time_ms(self._now_ms)
        try:
            schedule.punctuator(timestamp)
        except FailedProcessingError as problem:
            raise self._punctuation_error(node) from problem.__cause__
        except (TaskCorruptedError, TaskMigratedError):
            raise
        except Exception as problem:
            if not self._may_resume(node.name, where, None, problem):
                raise self._punctuation_error(node) from problem
        finally:
            context.current_node = None

    def _punctuation_error(self, node: TaskNode) -> StreamsError:
        return StreamsError(f"task [{self.id}] Exception caught while punctuating processor '{node.name}'")

    # -- errors

    def record_dropped(self) -> None:
        """Count a record as dropped."""
        self.dropped_records += 1

    def handle_processing_error(self, node: TaskNode, record: Record[Any, Any], problem: Exception) -> None:
        """Ask the processing exception handler. Raises `FailedProcessingError` when the task must fail."""
        name = _name(self._context.current_node)
        if not self._may_resume(name or node.name, self._context.record_context, record, problem):
            raise failed("", name, problem) from problem

    def _may_resume(self, node: str, where: RecordContext | None, record: Any, problem: Exception) -> bool:
        handler = self._settings.config.processing_exception_handler
        try:
            response: Response = handler.handle_error(error_context(where, node, self.id), record, problem)
            result = response.result
        except Exception as fatal:
            raise failed("Fatal user code error in processing error callback", node, fatal) from fatal
        for sent in response.dead_letter_queue_records:
            self.collector.append(sent)
        if result is Result.FAIL:
            return False
        self.record_dropped()
        return True

    def handle_deserialization_error(self, source: TaskNode, raw: InputRecord, problem: Exception) -> None:
        """Ask the handler whether a record that cannot be read may be left out; raises `StreamsError` when not."""
        where = RecordContext(raw.timestamp, raw.offset, raw.partition, raw.topic, raw.headers, raw.key, raw.value)
        handler = self._settings.config.deserialization_exception_handler
        at = error_context(where, source.name, self.id)
        handle_deserialization_failure(handler, at, raw, problem, self.collector.append)
        self.record_dropped()

    # -- state

    def global_store(self, name: str) -> StateStore | None:
        """Return a global store; None when there is none of that name."""
        return self._settings.global_store(name)

    def changelog_topic(self, store: str) -> str:
        """Return the changelog topic of a store; the name that it would have, for one that is not logged."""
        topic = self._topology.store_to_changelog_topic.get(store)
        return topic or f"{self._settings.config.application_id}-{store}-changelog"

    def keep(self, node: TaskNode | None, processor: Any) -> None:
        """Keep the times of a processor, `state()`, with the task's."""
        self._kept[_name(node) or ""] = processor

    def metadata(self) -> bytes:
        """Return all times of the task, its operators and stores, and when punctuators are due: JSON in UTF-8."""
        partition_times = [[*name, time] for name, time in self._group.partition_times().items()]
        return json.dumps(
            {
                "stream_time": self.stream_time,
                "partition_times": partition_times,
                "operators": {name: processor.state() for name, processor in self._kept.items()},
                "stores": {name: times for name, store in self.stores.items() if (times := store.times())},
                "punctuations": {kind.value: queue.times() for kind, queue in self._queues.items()},
            },
            separators=(",", ":"),
        ).encode()

    def restore_metadata(self, data: bytes) -> None:
        """Take what `metadata` returned, after the stores were restored."""
        state = json.loads(data)
        times = {(topic, partition): time for topic, partition, time in state["partition_times"]}
        self._group.restore(state["stream_time"], times)
        for name, kept in state["operators"].items():
            if name in self._kept:
                self._kept[name].restore(kept)
        for name, times in state["stores"].items():
            if name in self.stores:
                self.stores[name].restore_times(times)
        for kind, queue in self._queues.items():
            queue.restore_times(state["punctuations"].get(kind.value, []))

    def close(self) -> None:
        """Close processors and stores. Raises the last `StreamsError` of a processor, after all were closed."""
        problem: StreamsError | None = None
        for node in self._nodes.values():
            self._context.current_node = node
            try:
                node.close()
            except StreamsError as found:
                problem = found
            finally:
                self._context.current_node = None
        for store in self.stores.values():
            store.close()
        if problem is not None:
            raise problem

    def store_context(self) -> TaskContext:
        """Return the context of the stores, as queries from outside need it between records."""
        self._context.record_context = RecordContext(0, -1, -1, None, [])
        return self._context


def _name(node: TaskNode | None) -> str | None:
    return None if node is None else node.name


def _holds_nothing_back(store: StateStore) -> bool:
    """Tell whether a store is of a kind that holds back what is in its cache only, and has none."""
    return type(store) in _CACHED and getattr(store, "_cache", store) is None


def settings_of(config: Mapping[str, Any]) -> TaskSettings:
    """Return a task's settings for an application's settings. Raises `ConfigError` for wrong ones."""
    return TaskSettings(StreamsConfig(config))
