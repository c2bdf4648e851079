"""A trace goes with a record from who sends it to who processes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Tracer, get_current_span

from barnabas import Broker, Consumer, Producer, TopicPartition
from barnabas.client.opentelemetry import (
    TracingConsumerInterceptor,
    TracingProducerInterceptor,
    context_of,
    processing,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


class Recorded:
    """A tracer and the spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("test")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def recorded() -> Recorded:
    return Recorded()


def test_the_processing_of_a_record_continues_the_trace_of_its_sending(broker: Broker, recorded: Recorded) -> None:
    topic = "traced"
    with (
        Producer(
            bootstrap_servers=broker.bootstrap_servers,
            client_id="shop",
            interceptor_classes=[TracingProducerInterceptor(recorded.tracer)],
        ) as producer,
        recorded.tracer.start_as_current_span("order") as order,
    ):
        producer.send(topic, b"x", headers=[("traceparent", b"stale"), ("mine", b"kept")]).result(10)
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        interceptor_classes=[TracingConsumerInterceptor(recorded.tracer)],
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        (record,) = consumer.poll(10.0)
    with processing(record, tracer=recorded.tracer, group_id="billing"):
        pass

    (sent,), (polled,), (processed,) = (recorded.spans(f"{verb} {topic}") for verb in ("send", "poll", "process"))
    assert sent.parent is not None
    assert sent.parent.span_id == order.get_span_context().span_id
    assert sent.kind is SpanKind.PRODUCER
    assert dict(sent.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.client.id": "shop",
    }
    assert [link.context.span_id for link in polled.links] == [sent.context.span_id]
    assert polled.attributes is not None
    assert polled.attributes["messaging.batch.message_count"] == 1
    assert processed.parent is not None
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context.trace_id == order.get_span_context().trace_id
    assert processed.attributes is not None
    assert processed.attributes["messaging.kafka.offset"] == 0
    assert processed.attributes["messaging.consumer.group.name"] == "billing"
    names = [name for name, _ in record.headers]
    assert sorted(names) == ["mine", "traceparent"]


def test_a_record_without_a_trace_begins_one(broker: Broker, recorded: Recorded) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("untraced", None, headers=[("traceparent", b"\xff garbage")]).result(10)
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("untraced", 0)])
        (record,) = consumer.poll(10.0)

    assert not get_current_span(context_of(record)).get_span_context().is_valid
    with recorded.tracer.start_as_current_span("unrelated"), processing(record, tracer=recorded.tracer):
        pass

    (processed,) = recorded.spans("process untraced")
    assert processed.parent is None
    assert (processed.attributes or {})["messaging.kafka.message.tombstone"] == "true"
