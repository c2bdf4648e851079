# cython: language_level=3, annotation_typing=False
"""The nodes that a task runs: sources, processors and sinks, made from a topology's description.

C types are in `nodes.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError
from barnabas.streams.engine.record_collector import FailedProcessingError
from barnabas.streams.errors import StreamsError, TaskCorruptedError, TaskMigratedError
from barnabas.streams.serdes.serde import Serde, set_if_unset
from barnabas.streams.topology import nodes as described
from barnabas.streams.topology.processor_api import FixedKeyProcessor

if not cython.compiled:
    from barnabas.streams.engine.operator_processor import OperatorProcessor
    from barnabas.streams.engine.record import output_record, stamped_record
    from barnabas.streams.engine.task_node import TaskNode
    from barnabas.streams.serdes.serde_calls import SerdeCalls

if TYPE_CHECKING:
    from barnabas.streams.engine.record import InputRecord, StampedRecord
    from barnabas.streams.topology.record import Record

_NO_SERDE = "Please specify a {what} serde or set one through StreamsConfig#DEFAULT_{upper}_SERDE_CLASS_CONFIG"


def _serde(given: Any, default: Any, method: str, what: str, context: Any) -> Any:
    """Return a serde that has `method`, of what a node was given: a serde, a serializer, or None for the default."""
    chosen = default if given is None else given
    if chosen is None:
        raise ConfigError(_NO_SERDE.format(what=what, upper=what.upper()))
    if not hasattr(chosen, method):
        chosen = Serde(chosen, None) if method == "serialize" else Serde(None, chosen)
    set_if_unset(chosen, context.key_serde, context.value_serde)
    return chosen


@cython.cclass
class SourceTaskNode(TaskNode):
    """Deserializes records of topics and forwards them."""

    def __init__(self, node: described.SourceNode) -> None:
        super().__init__(node.name)
        self._node = node
        self.timestamp_extractor = node.timestamp_extractor
        self._keys = SerdeCalls(None)
        self._values = SerdeCalls(None)

    def init(self, context: Any) -> None:
        """Find the serdes. Raises `StreamsError` when there are none."""
        self._context = context
        node = self._node
        try:
            keys = _serde(node.key_deserializer, context.key_serde, "deserialize", "key", context)
            values = _serde(node.value_deserializer, context.value_serde, "deserialize", "value", context)
        except ConfigError as problem:
            raise StreamsError(f"Failed to initialize serdes for source node {self.name}") from problem
        self._keys, self._values = SerdeCalls(keys), SerdeCalls(values)

    def deserialize(self, record: InputRecord) -> StampedRecord:
        """Return the record with key and value, and the timestamp that it came with."""
        key = self._keys.read(record.key)
        if key is None:
            key = self._keys.deserialize(record.topic, record.key, record._own_headers())
        value = self._values.read(record.value)
        if value is None:
            value = self._values.deserialize(record.topic, record.value, record._own_headers())
        return stamped_record(record, key, value)

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record."""
        self._context.forward_all(record)


@cython.cclass
class ProcessorTaskNode(TaskNode):
    """Runs a processor."""

    def __init__(self, node: described.ProcessorNode) -> None:
        super().__init__(node.name)
        self.processor = node.supplier()
        self.stores = frozenset(node.state_store_names)
        self._process: Any = getattr(self.processor, "process", None)
        self._operator = self.processor if isinstance(self.processor, OperatorProcessor) else None
        if self._process is None:
            raise StreamsError(f"the supplier of processor {node.name} returned {self.processor!r}, not a processor")

    def init(self, context: Any) -> None:
        """Give the processor its context. Raises `StreamsError` when it fails."""
        self._context = context
        try:
            fixed = isinstance(self.processor, FixedKeyProcessor)
            self.processor.init(context.fixed_key() if fixed else context)
        except Exception as problem:
            raise StreamsError(f"failed to initialize processor {self.name}") from problem

    def process(self, record: Record[Any, Any]) -> None:
        """Let the processor take a record; what it raises goes to the processing exception handler."""
        try:
            if self._operator is not None:
                self._operator.process(record)
            else:
                self._process(record)
        except (FailedProcessingError, TaskCorruptedError, TaskMigratedError):
            raise
        except Exception as problem:  # noqa: BLE001 - the handler decides
            self._context.handle_processing_error(self, record, problem)

    def close(self) -> None:
        """Close the processor. Raises `StreamsError` when it fails."""
        try:
            self.processor.close()
        except Exception as problem:
            raise StreamsError(f"failed to close processor {self.name}") from problem


@cython.cclass
class SinkTaskNode(TaskNode):
    """Serializes records and sends them to a topic; `topic` is its name on the cluster, None for one chosen by each."""

    def __init__(self, node: described.SinkNode, topic: str | None) -> None:
        super().__init__(node.name)
        self._node = node
        self._topic = topic
        self.partitioner = node.partitioner
        self.key_serializer: Any = None
        self.value_serializer: Any = None
        self._keys = SerdeCalls(None)
        self._values = SerdeCalls(None)
        self._context: Any = None
        self._collector: Any = None

    def init(self, context: Any) -> None:
        """Find the serdes. Raises `StreamsError` when there are none."""
        self._context = context
        self._collector = context.collector
        node = self._node
        try:
            keys = _serde(node.key_serializer, context.key_serde, "serialize", "key", context)
            values = _serde(node.value_serializer, context.value_serde, "serialize", "value", context)
        except ConfigError as problem:
            raise StreamsError(f"Failed to initialize serdes for sink node {self.name}") from problem
        self.key_serializer, self.value_serializer = keys.serialize, values.serialize
        self._keys, self._values = SerdeCalls(keys), SerdeCalls(values)

    def process(self, record: Record[Any, Any]) -> None:
        """Serialize the record and send it.

        Raises `StreamsError` when it cannot be serialized and the handler does not let it pass.
        """
        context = self._context.record_context
        topic = self._topic
        if topic is None:
            topic = self._node.topic_extractor(record.key, record.value, context)  # type: ignore[misc]  # one of the two is set
            if topic is None:
                raise ValueError("Topic cannot be null.")
        headers = list(record.header_list) if record.header_list else None
        collector = self._collector
        at_key = True
        try:
            key = self._keys.written(record.key)
            if key is None:
                headers = [] if headers is None else headers
                key = self._keys.serialize(topic, record.key, headers)
            at_key = False
            value = self._values.written(record.value)
            if value is None:
                headers = [] if headers is None else headers
                value = self._values.serialize(topic, record.value, headers)
        except Exception as problem:  # noqa: BLE001 - the handler decides
            collector.handle_unserializable(self, topic, record, "key" if at_key else "value", context, problem)
            return
        context.raw_key = None
        context.raw_value = None
        partitions = (None,) if self.partitioner is None else collector.partitions(self.partitioner, topic, record)
        for partition in partitions:
            made = output_record(topic, partition, key, value, record.timestamp, headers or None)
            if collector.keeps_origins:
                made.origin = (self.name, context, collector.source)
            collector.records.append(made)


def make_nodes(topology: described.ProcessorTopology) -> dict[str, TaskNode]:
    """Return the nodes of a topology, connected, by name."""
    sinks = {name: topic for topic, name in topology.sink_topics.items()}
    made: dict[str, TaskNode] = {}
    for name, node in topology.nodes.items():
        if isinstance(node, described.SourceNode):
            made[name] = SourceTaskNode(node)
        elif isinstance(node, described.SinkNode):
            made[name] = SinkTaskNode(node, sinks.get(name))
        elif isinstance(node, described.ProcessorNode):
            made[name] = ProcessorTaskNode(node)
    for name, node in topology.nodes.items():
        for child in node.children:
            if child in made:
                made[name].add_child(made[child])
    return made
