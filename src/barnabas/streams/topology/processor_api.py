"""The Processor API: what user code and operators implement, and what the engine gives them.

A supplier is any callable that makes a new processor: a class, a function, a lambda. One that has a method `stores()`
(KIP-401) brings its own stores. Source: Kafka's package `org.apache.kafka.streams.processor.api`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from barnabas.streams.errors import TaskIdFormatError

if TYPE_CHECKING:
    from barnabas.streams.topology.record import Record
    from barnabas.streams.topology.sensors import StreamsMetrics

K = TypeVar("K")
V = TypeVar("V")
K_in = TypeVar("K_in", contravariant=True)
V_in = TypeVar("V_in", contravariant=True)

#: Names and values, in order; a name may occur twice.
Headers = list[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """Where the record came from that is being processed."""

    topic: str
    partition: int
    offset: int


class TaskId(NamedTuple):
    """The sub-topology and the partition that a task works for; as text `0_3`."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Read `0_3`. Raises `TaskIdFormatError` for any other form."""
        parts = text.split("_") if isinstance(text, str) else []
        if len(parts) != 2 or not all(part.isdecimal() for part in parts):
            raise TaskIdFormatError(f"Task id cannot be parsed correctly from {text}; it must look like 0_3")
        return cls(int(parts[0]), int(parts[1]))


class PunctuationType(Enum):
    """The clock by which a punctuator is called."""

    STREAM_TIME = "stream-time"
    WALL_CLOCK_TIME = "wall-clock-time"


#: Called with the time of the punctuation in milliseconds.
Punctuator = Callable[[int], None]


class Cancellable(Protocol):
    """A scheduled punctuator."""

    def cancel(self) -> None:
        """Call the punctuator no more."""


class ProcessingContext(Protocol):
    """What both kinds of processors may ask of the engine."""

    @property
    def application_id(self) -> str:
        """The setting application.id."""

    @property
    def task_id(self) -> TaskId:
        """The task that runs the processor."""

    def record_metadata(self) -> RecordMetadata | None:
        """Return where the current record came from; None in a punctuator."""

    @property
    def metrics(self) -> StreamsMetrics:
        """The sensors of the task; what those of yours record is among the application's `metric_groups()`."""

    @property
    def key_serde(self) -> Any:
        """The default serde of keys."""

    @property
    def value_serde(self) -> Any:
        """The default serde of values."""

    def get_state_store(self, name: str) -> Any:
        """Return a store that is connected to the processor, or a global one.

        Raises `StreamsError` when there is none of that name, or it is not connected.
        """

    def schedule(
        self,
        interval: timedelta | int,
        type: PunctuationType,  # Kafka's name
        callback: Punctuator,
        *,
        start_time: int | None = None,
    ) -> Cancellable:
        """Call `callback` each `interval` (a timedelta or milliseconds) of stream time or wall-clock time.

        `start_time` in milliseconds is when intervals begin (KIP-1146). Raises ValueError for less than a millisecond.
        """

    def commit(self) -> None:
        """Ask for a commit soon."""

    def app_configs(self) -> Mapping[str, Any]:
        """Return the application's settings."""

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Return the settings that begin with a prefix, without it."""

    def current_system_time_ms(self) -> int:
        """Return the wall-clock time of the task in milliseconds."""

    def current_stream_time_ms(self) -> int:
        """Return the greatest timestamp that the task has seen; -1 before the first."""


class ProcessorContext(ProcessingContext, Protocol):
    """The context of a `Processor`."""

    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        """Give a record to the child named, or to all children."""


class FixedKeyProcessorContext(ProcessingContext, Protocol):
    """The context of a `FixedKeyProcessor`; a record forwarded must have the key of the one it was made of."""

    def forward(self, record: Record[Any, Any], child_name: str | None = None) -> None:
        """Give a record to the child named, or to all children."""


class Processor(Generic[K_in, V_in]):
    """Handles one record after the other of a node, in one task."""

    def init(self, context: ProcessorContext) -> None:
        """Take the context; called once, before the first record."""

    def process(self, record: Record[Any, Any]) -> None:
        """Handle one record."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process(record)")

    def close(self) -> None:
        """Give back what `init` took."""


class ContextualProcessor(Processor[K_in, V_in]):
    """A processor that keeps its context as `self.context`."""

    context: ProcessorContext

    def init(self, context: ProcessorContext) -> None:
        """Keep the context."""
        self.context = context


class FixedKeyProcessor(Generic[K_in, V_in]):
    """Handles records without changing keys, so that what follows need not be repartitioned (KIP-820)."""

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Take the context; called once, before the first record."""

    def process(self, record: Record[Any, Any]) -> None:
        """Handle one record; forward only what `record.with_value` and the like made of it."""
        raise NotImplementedError(f"{type(self).__qualname__} must define process(record)")

    def close(self) -> None:
        """Give back what `init` took."""


class ContextualFixedKeyProcessor(FixedKeyProcessor[K_in, V_in]):
    """A fixed-key processor that keeps its context as `self.context`."""

    context: FixedKeyProcessorContext

    def init(self, context: FixedKeyProcessorContext) -> None:
        """Keep the context."""
        self.context = context


#: Makes a new processor for each task. One with a method `stores()` brings store builders with it.
ProcessorSupplier = Callable[[], Processor[Any, Any]]
FixedKeyProcessorSupplier = Callable[[], FixedKeyProcessor[Any, Any]]

#: (consumer record, partition time in milliseconds) -> timestamp in milliseconds; negative: drop the record.
TimestampExtractor = Callable[[Any, int], int]

#: (topic, key, value, number of partitions) -> the partition, several (none: drop), or None for the default one.
StreamPartitioner = Callable[[str, Any, Any, int], "int | Sequence[int] | None"]

#: (key, value, record context with topic, partition, offset, timestamp, headers) -> topic.
TopicNameExtractor = Callable[[Any, Any, Any], str]
