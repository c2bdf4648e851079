"""Global stores: filled from all of a topic, read by every task. Source: Kafka's GlobalStateUpdateTask."""

from __future__ import annotations

from typing import Any

from barnabas.streams.engine.context import TaskContext
from barnabas.streams.engine.exception_handlers import LogAndContinueExceptionHandler
from barnabas.streams.engine.nodes import SourceTaskNode, make_nodes
from barnabas.streams.engine.record import InputRecord, OutputRecord
from barnabas.streams.engine.record_collector import RecordCollector, error_context
from barnabas.streams.engine.task import TaskSettings
from barnabas.streams.engine.task_node import TaskNode
from barnabas.streams.serdes.record_context import RecordContext
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.store import StateStore
from barnabas.streams.state.store_factory import make_store
from barnabas.streams.topology.dsl_store_suppliers import resolved
from barnabas.streams.topology.nodes import ProcessorTopology
from barnabas.streams.topology.processor_api import TaskId
from barnabas.streams.topology.record import Record
from barnabas.streams.topology.sensors import StreamsMetrics


class GlobalTask:
    """Runs the nodes that fill global stores; records that cannot be read are left out."""

    id = TaskId(-1, -1)
    stream_time = -1

    def __init__(self, topology: ProcessorTopology, settings: TaskSettings) -> None:
        config = settings.config
        self._topology = topology
        self.metrics = StreamsMetrics(config.recording_level, config.application_id)
        self.dropped_records = 0
        self.commit_requested = False
        self._handler = LogAndContinueExceptionHandler()
        self.collector = RecordCollector(self, config.production_exception_handler, settings.partitions_of)
        self._context = _GlobalContext(self, config.values, config.default_key_serde, config.default_value_serde)
        self._nodes = make_nodes(topology)
        self.stores: dict[str, StateStore] = {}
        backend = settings.backend or MemoryBackend()
        for name, builder in topology.global_stores.items():
            builder = resolved(builder, config.dsl_store_suppliers, with_headers=config.stores_headers)
            store = make_store(builder, backend)
            store.logged = False
            store.init(self._context)
            self.stores[name] = store
        for node in self._nodes.values():
            self._context.current_node = node
            node.init(self._context)
        self._context.current_node = None

    def process(self, record: InputRecord, now_ms: int) -> list[OutputRecord]:
        """Take a record of a global topic; return records for a dead-letter queue."""
        name = self._topology.source_of(record.topic)
        source = None if name is None else self._nodes[name]
        if not isinstance(source, SourceTaskNode):
            raise KeyError(f"no global store is filled from topic {record.topic}")
        context = self._context
        where = RecordContext(
            record.timestamp, record.offset, record.partition, record.topic, record.headers, record.key, record.value
        )
        try:
            read = source.deserialize(record)
        except Exception as problem:  # noqa: BLE001 - the handler decides
            response = self._handler.handle_error(error_context(where, source.name, self.id), record, problem)
            self.record_dropped()
            return list(response.dead_letter_queue_records)
        context.record_context = where
        context.current_node = source
        context.set_system_time_ms(now_ms)
        try:
            source.process(Record(read.key, read.value, record.timestamp, record.headers))
        finally:
            context.current_node = None
        return self.collector.drain()

    def processor_store(self, name: str) -> StateStore:
        """Return a store for processors."""
        return self.stores[name]

    def store(self, name: str) -> StateStore | None:
        """Return a store; None when there is none of that name."""
        return self.stores.get(name)

    def global_store(self, name: str) -> StateStore | None:
        """Return None: processors here may write."""
        return None

    def changelog_topic(self, store: str) -> str:
        """Return the topic that a store is filled from."""
        return self._topology.store_to_changelog_topic.get(store, store)

    def record_dropped(self) -> None:
        """Count a record as dropped."""
        self.dropped_records += 1

    def keep(self, node: TaskNode | None, processor: Any) -> None:
        """Do nothing: processors here have no times."""

    def handle_processing_error(self, node: TaskNode, record: Record[Any, Any], problem: Exception) -> None:
        """Raise the error: no handler is asked."""
        raise problem

    def schedule(self, *_: Any) -> Any:
        """Raise NotImplementedError: there are no punctuators here."""
        raise NotImplementedError("this should not happen: schedule() not supported in global processor context.")

    def close(self) -> None:
        """Close processors and stores."""
        for node in self._nodes.values():
            node.close()
        for store in self.stores.values():
            store.close()


class _GlobalContext(TaskContext):
    def current_stream_time_ms(self) -> int:
        """Raise NotImplementedError: there is none."""
        raise NotImplementedError("There is no concept of stream-time for a global processor.")
