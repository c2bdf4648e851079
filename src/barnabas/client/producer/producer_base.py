"""What the producers for threads and for event loops have in common: the methods that never wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.client.producer.append import RecordMetadata
from barnabas.client.producer.producer_core import ProducerCore
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.transaction_calls import TransactionCalls
from barnabas.client.telemetry.reports_telemetry import ReportsTelemetry
from barnabas.errors import IllegalArgumentError, IllegalTypeError
from barnabas.network.metric_group import Measured, MetricGroup, by_topic

if TYPE_CHECKING:
    from barnabas.client.producer.producer_parts import ProducerParts
    from barnabas.client.producer.waits import Waits
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender

if TYPE_CHECKING:
    import typing_extensions

    # What the serializers take; anything, where settings do not tell a type checker.
    K = typing_extensions.TypeVar("K", default=Any)
    V = typing_extensions.TypeVar("V", default=Any)
else:
    K = TypeVar("K")
    V = TypeVar("V")
DeliveryCallback = Callable[[RecordMetadata, "BaseException | None"], object]


class ProducerBase(ReportsTelemetry, Measured, Generic[K, V]):
    """A shell around a `ProducerCore`; a shell derives from it and says how its calls wait."""

    _core: ProducerCore
    _calls: TransactionCalls
    #: The id of the process that made the producer.
    owner: int

    def _begin_telemetry(self, parts: ProducerParts) -> ClientTelemetrySender | None:
        self._report_telemetry(
            parts.config,
            self.metric_groups,
            parts.telemetry_labels,
            parts.client,
            random=parts.environment.random,
            wall_clock_ms=parts.environment.wall_clock_ms,
        )
        return None if self._telemetry is None else self._telemetry.sender

    def _begin_calls(self, parts: ProducerParts, waits: Waits) -> None:
        self._core = ProducerCore(parts, waits)
        self._calls = TransactionCalls(self._core, waits)

    def begin_transaction(self) -> None:
        """Begin: every record from now on belongs to the transaction, until it is committed or aborted."""
        self._calls.begin()

    def metric_groups(self) -> list[MetricGroup]:
        """All that is counted, in Kafka's groups: `producer-metrics`, and those of topics and of nodes.

        Sizes are in bytes, times in milliseconds, `...-ns-total` in nanoseconds, `metadata-age` in seconds; a topic is
        forgotten when it was idle for metadata.max.idle.ms. May be called from any thread.
        """
        return self._core.metric_groups()

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's producer-topic-metrics by topic, until it was idle for metadata.max.idle.ms; from any thread."""
        return by_topic(self._core.topic_metric_groups())

    def __repr__(self) -> str:
        return f"<Producer {self._core.parts.config.client_id}>"


def record_fields(record: object, given: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Return what `send()` takes one by one, of a `ProducerRecord`, or of a topic of a subclass of str and the rest.

    Raises `IllegalTypeError` for anything else.
    """
    if isinstance(record, str):
        return str.__str__(record), *given
    if not isinstance(record, ProducerRecord):
        raise IllegalTypeError(f"topic is a topic's name or a ProducerRecord, not {type(record).__name__}")
    if any(field is not None for field in given):
        raise IllegalArgumentError("A ProducerRecord has all that is sent: give nothing but on_delivery beside it")
    return record.topic, record.value, record.key, record.partition, record.timestamp_ms, record.headers
