# cython: language_level=3, annotation_typing=False
"""What processors see of a task: `forward`, stores, times, schedules. Source: Kafka's ProcessorContextImpl.

C types are in `context.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from barnabas.streams.durations import as_ms
from barnabas.streams.engine.punctuation import Schedule
from barnabas.streams.errors import StreamsError
from barnabas.streams.state.read_only import ReadOnlyStore
from barnabas.streams.topology.processor_api import PunctuationType, Punctuator, RecordMetadata, TaskId

if not cython.compiled:
    from barnabas.streams.serdes.record_context import ContextHolder, RecordContext, record_context
    from barnabas.streams.topology.record import Record

if TYPE_CHECKING:
    from barnabas.streams.engine.task_node import TaskNode
    from barnabas.streams.topology.sensors import StreamsMetrics

_log = logging.getLogger("barnabas.streams")

_NO_FORWARD = (
    "ProcessorContext#forward() is not supported from this context, as the framework must ensure the key is not "
    "changed (#forward allows changing the key on messages which are sent). Use KStream.process() if you need to "
    "change the key."
)

_ILLEGAL_SCOPE = (
    "Current node is unknown. This can happen if 'forward()' is called in an illegal scope. The root cause could be "
    "that a 'Processor' instance is shared. To avoid this error, make sure that your suppliers return new instances "
    "each time they are called."
)


@cython.cclass
class TaskContext(ContextHolder):
    """The context of a task's processors, and of its stores."""

    def __init__(self, task: Any, config: Mapping[str, Any], key_serde: Any, value_serde: Any) -> None:
        super().__init__()
        self.task = task
        self.collector = task.collector
        self.key_serde = key_serde
        self.value_serde = value_serde
        self._config = config
        self.current_node: TaskNode | None = None
        self._now_ms = 0
        #: Whether the task measures itself.
        self.measured = False

    # -- what processors use

    @property
    def application_id(self) -> str:
        """The setting application.id."""
        return str(self._config["application.id"])

    @property
    def task_id(self) -> TaskId:
        """The task that runs the processor."""
        found: TaskId = self.task.id
        return found

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the current record came from; None in a punctuator."""
        context = self.record_context
        if context is None or context.topic is None:
            return None
        return RecordMetadata(context.topic, context.partition, context.offset)

    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        """Give a record to the child named, or to all children.

        Raises `StreamsError` for a child that there is not, and outside of a record, punctuation or init.
        """
        if not isinstance(record, Record):
            raise TypeError(f"forward() takes a Record, not {type(record).__name__}")
        if child_name is None:
            self.forward_all(record)
            return
        if self.current_node is None:
            raise StreamsError(_ILLEGAL_SCOPE)
        named = self.current_node.child_by_name.get(child_name)
        if named is None:
            raise StreamsError(
                f"Unknown downstream node: {child_name} either does not exist or is not connected to this processor."
            )
        self._forward_to([named], record)

    def forward_all(self, record: Record[Any, Any]) -> None:
        """Give a record to all children; for callers in C. Raises `StreamsError` as `forward` does."""
        if self.current_node is None:
            raise StreamsError(_ILLEGAL_SCOPE)
        self._forward_to(self.current_node.children, record)

    def _forward_to(self, children: list[TaskNode], record: Record[Any, Any]) -> None:
        node = self.current_node
        previous = self.record_context
        if previous is not None and _differs(record, previous):
            self.record_context = record_context(
                record.timestamp,
                previous.offset,
                previous.partition,
                previous.topic,
                record._own_headers(),
                previous.raw_key,
                previous.raw_value,
            )
        try:
            for child in children:
                self.current_node = child
                child.process(record)
        finally:
            self.record_context = previous
            self.current_node = node

    def get_state_store(self, name: str) -> Any:
        """Return a store that is connected to the processor, or a read-only view of a global one.

        Raises `StreamsError` when there is none of that name, or it is not connected.
        """
        node = self.current_node
        if node is None:
            raise StreamsError("Accessing from an unknown node")
        shared = self.task.global_store(name)
        if shared is not None:
            return ReadOnlyStore(shared)
        if name not in node.stores:
            raise StreamsError(
                f"Processor {node.name} has no access to StateStore {name} as the store is not connected to the "
                "processor. If you add stores manually via '.addStateStore()' make sure to connect the added store to "
                "the processor by providing the processor name to '.addStateStore()' or connect them via "
                "'.connectProcessorAndStateStores()'. DSL users need to provide the store name to '.process()', "
                "'.processValues()', or '.transformValues()' to connect the store to the corresponding operator, or "
                "they can provide a StoreBuilder by implementing the stores() method on the Supplier itself. If you do "
                "not add stores manually, please file a bug report at https://issues.apache.org/jira/projects/KAFKA."
            )
        return self.task.processor_store(name)

    @property
    def metrics(self) -> StreamsMetrics:
        """The sensors of the task; what yours record is told by `metric_groups()`."""
        found: StreamsMetrics = self.task.metrics
        return found

    def schedule(
        self,
        interval: timedelta | int,
        type: PunctuationType,  # Kafka's name
        callback: Punctuator,
        *,
        start_time: int | None = None,
    ) -> Schedule:
        """Call `callback` each `interval` of stream time or wall-clock time; see `ProcessingContext`.

        Raises ValueError for an interval of less than a millisecond, or a start before the epoch.
        """
        interval_ms = as_ms(interval, "interval")
        if interval_ms < 1:
            raise ValueError("The minimum supported scheduling interval is 1 millisecond.")
        if start_time is not None and start_time < 0:
            raise ValueError("The minimum supported start time is Instant.EPOCH.")
        if self.current_node is None:
            raise RuntimeError("Current node is null")
        scheduled: Schedule = self.task.schedule(self.current_node, interval_ms, type, callback, start_time)
        return scheduled

    def commit(self) -> None:
        """Ask for a commit soon."""
        self.task.commit_requested = True

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's settings."""
        return self._config

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Return the settings that begin with a prefix, without it."""
        return {name[len(prefix) :]: value for name, value in self._config.items() if name.startswith(prefix)}

    def current_system_time_ms(self) -> int:
        """Return the wall-clock time of the batch in milliseconds."""
        return self._now_ms

    def current_stream_time_ms(self) -> int:
        """Return the greatest timestamp that the task has seen; -1 before the first."""
        time: int = self.task.stream_time
        return time

    # -- what the engine and its processors use

    def set_system_time_ms(self, now_ms: int) -> None:
        """Set the wall-clock time."""
        self._now_ms = now_ms

    def drop(self, reason: str) -> None:
        """Count the current record as dropped, and log why."""
        self.record_dropped()
        context = self.record_context
        if context is None or context.topic is None:
            _log.warning("%s: skipping record due to %s. Topic, partition, and offset not known.", self._name(), reason)
        else:
            _log.warning(
                "%s: skipping record due to %s. topic=[%s] partition=[%s] offset=[%s]",
                self._name(),
                reason,
                context.topic,
                context.partition,
                context.offset,
            )

    def _name(self) -> str:
        return "" if self.current_node is None else self.current_node.name

    def record_dropped(self) -> None:
        """Count a record as dropped."""
        self.task.record_dropped()

    def emission(self) -> Callable[[int], None]:
        """Return what is told how many windows are emitted from now on; where `measured` is set."""
        raise NotImplementedError

    def changelog_topic(self, store: str) -> str:
        """Return the topic that a store's serdes are told."""
        topic: str = self.task.changelog_topic(store)
        return topic

    def set_flush_listener(self, store: Any, send_old_values: bool) -> bool:
        """Let a store's cache forward its changes from the current node; False when it has no cache."""
        listen = getattr(store, "set_flush_listener", None)
        if listen is None:  # a store of the user's own kind
            return False
        node = self.current_node

        def forward(record: Record[Any, Any]) -> None:
            previous, self.current_node = self.current_node, node
            try:
                self.forward(record)
            finally:
                self.current_node = previous

        return bool(listen(forward, send_old_values))

    def keep(self, processor: Any) -> None:
        """Keep `processor.state()` with the task's state, under its node's name."""
        self.task.keep(self.current_node, processor)

    def handle_processing_error(self, node: TaskNode, record: Record[Any, Any], problem: Exception) -> None:
        """Ask the processing exception handler."""
        self.task.handle_processing_error(node, record, problem)

    def without_forward(self) -> TaskContext:
        """Return a view that cannot forward."""
        return _NoForward(self)  # type: ignore[return-value]  # a view

    def fixed_key(self) -> TaskContext:
        """Return the view for processors that must not change keys."""
        return self


def _differs(record: Record[Any, Any], context: RecordContext) -> bool:
    """Tell whether a record has another timestamp, or other headers, than the one that is being processed."""
    if record.timestamp is not context.timestamp and record.timestamp != context.timestamp:
        return True
    if not record.header_list:
        return bool(context.header_list)
    return bool(record.header_list != context.header_list)


class _NoForward:
    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def forward(self, *_: Any) -> None:
        """Raise `StreamsError`."""
        raise StreamsError(_NO_FORWARD)
