# cython: language_level=3, annotation_typing=False
"""Collects what a task sends: serialized, with a partition where a partitioner chose one.

C types are in `record_collector.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.streams.engine.exception_handlers import ErrorHandlerContext, Response, Result
from barnabas.streams.engine.record import OutputRecord
from barnabas.streams.errors import StreamsError
from barnabas.streams.serdes.record_context import RecordContext

if TYPE_CHECKING:
    from barnabas.streams.topology.processor_api import TaskId

    class Sender(Protocol):
        """The task that sends."""

        id: TaskId

        def record_dropped(self) -> None:
            """Count a record as dropped."""

    class Sink(Protocol):
        """A node of a task that writes to a topic."""

        name: str
        key_serializer: Any
        value_serializer: Any


class FailedProcessingError(StreamsError):
    """A processor failed, and its handler was asked already: the task must fail. The cause is the user's error."""

    def __init__(self, message: str, node: str | None) -> None:
        super().__init__(message)
        self.node = node
        self.has_message = bool(message)


def failed(message: str, node: str | None, cause: BaseException) -> FailedProcessingError:
    """Return the error that ends a task after its handler was asked."""
    error = FailedProcessingError(message, node)
    error.__cause__ = cause
    return error


@cython.final
@cython.cclass
class RecordCollector:
    """Holds what was sent until the task takes it.

    With `keeps_origins` records remember where they were made; `source` is the record that is being processed.
    """

    def __init__(self, task: Sender, production_handler: Any, partitions_of: Callable[[str], int]) -> None:
        self._task = task
        self._handler = production_handler
        self._partitions_of = partitions_of
        self.records: list[OutputRecord] = []
        self.keeps_origins = False
        self.source: Any = None

    def drain(self) -> list[OutputRecord]:
        """Return what was sent since the last call."""
        records = self.records
        self.records = []
        return records

    def append(self, record: OutputRecord) -> None:
        """Send a record that is serialized already."""
        self.records.append(record)

    def partitions(self, partitioner: Any, topic: str, record: Any) -> tuple[int | None, ...]:
        """Return the partitions that a partitioner chooses; none drops the record, None is the default one."""
        chosen = partitioner(topic, record.key, record.value, self._partitions_of(topic))
        if chosen is None or isinstance(chosen, int):
            return (chosen,)
        partitions = tuple(chosen)
        if not partitions:
            self._task.record_dropped()
        return partitions

    def _incompatible(self, topic: str, what: str, thing: Any, serde: Any) -> StreamsError:
        owner = getattr(serde, "__self__", serde)
        kind = f"unknown because {what} is null" if thing is None else type(thing).__name__
        return StreamsError(
            f"ClassCastException while producing data to topic {topic}. The {what} serializer {owner!r} is not "
            f"compatible to the actual {what} type: {kind}. Change the default {what} serde in StreamConfig or provide "
            f"the correct {what} serde via method parameters (for example if using the DSL, `to(topic, "
            f"Produced.with_(...))`)."
        )

    def handle_unserializable(
        self, node: Sink, topic: str, record: Any, what: str, context: RecordContext, problem: Exception
    ) -> None:
        """Ask the handler whether a record whose "key" or "value" cannot be serialized may be left out.

        Raises `StreamsError` when it may not, and for a value of a type that the serializer does not take.
        """
        if isinstance(problem, TypeError):
            is_key = what == "key"
            serde = node.key_serializer if is_key else node.value_serializer
            raise self._incompatible(topic, what, record.key if is_key else record.value, serde) from problem
        where = error_context(context, node.name, self._task.id)
        try:
            response: Response = self._handler.handle_serialization_error(where, record, problem, what)
        except Exception as fatal:
            raise failed("Fatal user code error in production error callback", node.name, fatal) from fatal
        self.records.extend(response.dead_letter_queue_records)
        if response.result is not Result.RESUME:
            raise StreamsError(
                f"Unable to serialize record. ProducerRecord(topic=[{topic}], partition=[null], "
                f"timestamp=[{record.timestamp}]"
            ) from problem
        self._task.record_dropped()


def error_context(context: RecordContext | None, node: str, task_id: Any) -> ErrorHandlerContext:
    """Return what handlers are told of where it happened."""
    if context is None:
        return ErrorHandlerContext(None, -1, -1, [], node, task_id, -1, None, None)
    return ErrorHandlerContext(
        context.topic,
        context.partition,
        context.offset,
        context.headers,
        node,
        task_id,
        context.timestamp,
        context.raw_key,
        context.raw_value,
    )
