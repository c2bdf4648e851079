"""OpenTelemetry: traces that go from who sends a record to who processes it.

They travel in the record's headers. Needs the extra `opentelemetry`.

The headers are those of the propagator in use, W3C Trace Context unless another was chosen. Names and attributes are
those of OpenTelemetry's semantic conventions for messaging systems and Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import Getter, Setter
    from opentelemetry.trace import Link, Span, SpanKind, Tracer
except ImportError:
    raise ImportError(
        "barnabas.client.opentelemetry needs opentelemetry-api: pip install barnabas[opentelemetry]"
    ) from None

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.consumer_records import ConsumerRecords
    from barnabas.client.producer.producer_record import ProducerRecord, RecordHeaders

_NAME = "barnabas"


class _HeaderSetter(Setter["RecordHeaders"]):
    def set(self, carrier: RecordHeaders, key: str, value: str) -> None:
        """Set the only header of that name, in place of those of an earlier trace."""
        carrier.remove(key)
        carrier.add(key, value.encode())


class _HeaderGetter(Getter["list[tuple[str, bytes | None]]"]):
    def get(self, carrier: list[tuple[str, bytes | None]], key: str) -> list[str] | None:
        """Return the values of that name; bytes that are no text belong to another program."""
        values = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return values or None

    def keys(self, carrier: list[tuple[str, bytes | None]]) -> list[str]:
        """Return the names of all headers."""
        return [name for name, _ in carrier]


_SETTER = _HeaderSetter()
_GETTER = _HeaderGetter()


class _Tracing:
    """`tracer` is OpenTelemetry's own for this package unless another is given."""

    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = trace.get_tracer(_NAME) if tracer is None else tracer
        self._client_id = ""

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take what is needed of the client's settings."""
        self._client_id = str(settings.get("client.id") or "")

    def _attributes(self, name: str, kind: str, topic: str) -> dict[str, str | int]:
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": name,
            "messaging.operation.type": kind,
            "messaging.destination.name": topic,
        }
        if self._client_id:
            attributes["messaging.client.id"] = self._client_id
        return attributes


class TracingProducerInterceptor(_Tracing):
    """For a producer's `interceptor_classes`: a span for each send, and its context in the record's headers.

    The span covers the call, not the way to the broker: the record is on its way when it ends.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """See `ProducerInterceptor`."""
        attributes = self._attributes("send", "send", record.topic)
        if record.partition is not None:
            attributes["messaging.destination.partition.id"] = str(record.partition)
        with self._tracer.start_as_current_span(f"send {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes):
            propagate.inject(record.headers, setter=_SETTER)
        return record


class TracingConsumerInterceptor(_Tracing):
    """For a consumer's `interceptor_classes`: a span for each topic of each poll, linked to those that sent."""

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """See `ConsumerInterceptor`."""
        counts: dict[str, int] = {}
        links: dict[str, list[Link]] = {}
        for record in records:
            counts[record.topic] = counts.get(record.topic, 0) + 1
            sent_in = trace.get_current_span(context_of(record)).get_span_context()
            if record.headers and sent_in.is_valid:
                links.setdefault(record.topic, []).append(Link(sent_in))
        for topic, count in counts.items():
            attributes = self._attributes("poll", "receive", topic)
            attributes["messaging.batch.message_count"] = count
            span = self._tracer.start_span(
                f"poll {topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links.get(topic, ())
            )
            span.end()
        return records


def context_of(record: ConsumerRecord[Any, Any]) -> Context:
    """Return the context that the record was sent in; an empty one when it carries none."""
    return propagate.extract(record.headers, context=Context(), getter=_GETTER)


@contextmanager
def processing(
    record: ConsumerRecord[Any, Any], *, tracer: Tracer | None = None, group_id: str | None = None
) -> Iterator[Span]:
    """Make a span around the processing of one record, which continues the trace that it was sent in.

    for record in consumer:
        with processing(record):
            ...
    """
    attributes: dict[str, str | int] = {
        **_Tracing()._attributes("process", "process", record.topic),
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    if group_id is not None:
        attributes["messaging.consumer.group.name"] = group_id
    if record.value is None:
        attributes["messaging.kafka.message.tombstone"] = "true"
    with (tracer or trace.get_tracer(_NAME)).start_as_current_span(
        f"process {record.topic}", context=context_of(record), kind=SpanKind.CONSUMER, attributes=attributes
    ) as span:
        yield span
