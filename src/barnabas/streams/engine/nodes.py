"""The nodes that a task runs: sources, processors and sinks, made from a topology's description."""

from __future__ import annotations

from typing import Any

from barnabas.errors import ConfigError
from barnabas.streams.engine.record import InputRecord, StampedRecord
from barnabas.streams.engine.record_collector import FailedProcessingError
from barnabas.streams.errors import StreamsError, TaskCorruptedError, TaskMigratedError
from barnabas.streams.serdes.serde import Serde, set_if_unset
from barnabas.streams.topology import nodes as described
from barnabas.streams.topology.processor_api import FixedKeyProcessor, Record

_NO_SERDE = "Please specify a {what} serde or set one through StreamsConfig#DEFAULT_{upper}_SERDE_CLASS_CONFIG"


def _method(given: Any, default: Any, method: str, what: str, context: Any) -> Any:
    """Return `serialize` or `deserialize` of what a node was given: a serde, a serializer, or None for the default."""
    chosen = default if given is None else given
    if chosen is None:
        raise ConfigError(_NO_SERDE.format(what=what, upper=what.upper()))
    if not hasattr(chosen, method):
        chosen = Serde(chosen, None) if method == "serialize" else Serde(None, chosen)
    set_if_unset(chosen, context.key_serde, context.value_serde)
    return getattr(chosen, method)


class TaskNode:
    """What all nodes of a task have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[TaskNode] = []
        self.child_by_name: dict[str, TaskNode] = {}
        self.stores: frozenset[str] = frozenset()

    def add_child(self, child: TaskNode) -> None:
        """Add a node that records are forwarded to."""
        self.children.append(child)
        self.child_by_name[child.name] = child

    def init(self, context: Any) -> None:
        """Make the node ready for records."""

    def process(self, record: Record[Any, Any]) -> None:
        """Take a record."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what `init` took."""


class SourceTaskNode(TaskNode):
    """Deserializes records of topics and forwards them."""

    def __init__(self, node: described.SourceNode) -> None:
        super().__init__(node.name)
        self._node = node
        self.timestamp_extractor = node.timestamp_extractor
        self._deserialize_key: Any = None
        self._deserialize_value: Any = None
        self._context: Any = None

    def init(self, context: Any) -> None:
        """Find the serdes. Raises `StreamsError` when there are none."""
        self._context = context
        node = self._node
        try:
            self._deserialize_key = _method(node.key_deserializer, context.key_serde, "deserialize", "key", context)
            self._deserialize_value = _method(
                node.value_deserializer, context.value_serde, "deserialize", "value", context
            )
        except ConfigError as problem:
            raise StreamsError(f"Failed to initialize serdes for source node {self.name}") from problem

    def deserialize(self, record: InputRecord) -> StampedRecord:
        """Return the record with key and value, and the timestamp that it came with."""
        key = self._deserialize_key(record.topic, record.key, record.headers)
        value = self._deserialize_value(record.topic, record.value, record.headers)
        return StampedRecord(
            record.topic, record.partition, record.offset, record.timestamp, key, value, record.headers, record
        )

    def process(self, record: Record[Any, Any]) -> None:
        """Forward the record."""
        self._context.forward(record)


class ProcessorTaskNode(TaskNode):
    """Runs a processor."""

    def __init__(self, node: described.ProcessorNode) -> None:
        super().__init__(node.name)
        self.processor = node.supplier()
        self.stores = frozenset(node.state_store_names)
        self._context: Any = None
        self._process: Any = getattr(self.processor, "process", None)
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


class SinkTaskNode(TaskNode):
    """Serializes records and sends them to a topic; `topic` is its name on the cluster, None for one chosen by each."""

    def __init__(self, node: described.SinkNode, topic: str | None) -> None:
        super().__init__(node.name)
        self._node = node
        self._topic = topic
        self.partitioner = node.partitioner
        self.key_serializer: Any = None
        self.value_serializer: Any = None
        self._context: Any = None
        self._send: Any = None

    def init(self, context: Any) -> None:
        """Find the serdes. Raises `StreamsError` when there are none."""
        self._context = context
        self._send = context.collector.send
        node = self._node
        try:
            self.key_serializer = _method(node.key_serializer, context.key_serde, "serialize", "key", context)
            self.value_serializer = _method(node.value_serializer, context.value_serde, "serialize", "value", context)
        except ConfigError as problem:
            raise StreamsError(f"Failed to initialize serdes for sink node {self.name}") from problem

    def process(self, record: Record[Any, Any]) -> None:
        """Send the record."""
        context = self._context.record_context
        topic = self._topic
        if topic is None:
            topic = self._node.topic_extractor(record.key, record.value, context)  # type: ignore[misc]
            if topic is None:
                raise ValueError("Topic cannot be null.")
        self._send(self, topic, record, context)


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
