"""The names and kinds of a client's metrics in telemetry, and how they are written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from barnabas import KafkaMetric
from barnabas.client.telemetry.client_telemetry_reporter import ClientTelemetryReporter
from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySubscription
from barnabas.client.telemetry.kafka_metrics_collector import DataPoint
from barnabas.network.metric_group import MetricGroup
from barnabas.records.compression import CODECS, decompress

PREFIX = "org.apache.kafka"
BEGAN_MS = 1_700_000_000_000


class Clock:
    """Epoch milliseconds."""

    def __init__(self) -> None:
        self.now_ms = BEGAN_MS

    def wall_clock_ms(self) -> int:
        return self.now_ms


class Client:
    """What is reported, and the time."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.sent = 0.0
        self.groups = [("producer-metrics", {}), ("producer-node-metrics", {"node-id": "node-1"})]
        self.reporter = ClientTelemetryReporter(
            self.metric_groups, self.labels, random=Random(1), wall_clock_ms=self.clock.wall_clock_ms
        )

    def metric_groups(self) -> list[MetricGroup]:
        values = {"record-send-total": self.sent, "record-size-avg": 2.5, "record-size-max": float("nan")}
        return [MetricGroup(group, tags, values) for group, tags in self.groups]

    def labels(self) -> Mapping[str, str | None]:
        return {"group_id": "g", "client_rack": None}

    def collect(self, **wanted: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], DataPoint]:
        points = self.reporter.collector.collect(subscription(**wanted))
        return {(point.name.removeprefix(PREFIX), point.attributes): point for point in points}


def subscription(**wanted: Any) -> ClientTelemetrySubscription:
    given = {"compression_types": (), "max_bytes": 0, "is_delta": False, "metrics": ("*",), **wanted}
    return ClientTelemetrySubscription(b"i" * 16, 1, 10.0, **given)


@pytest.fixture
def client() -> Client:
    return Client()


def test_names_are_made_of_group_and_name_and_labels_of_tags(client: Client) -> None:
    assert client.collect().keys() == {
        (".producer.record.send.total", ()),
        (".producer.record.size.avg", ()),
        (".producer.node.record.send.total", (("node_id", "node-1"),)),
        (".producer.node.record.size.avg", (("node_id", "node-1"),)),
    }


def test_totals_are_told_since_the_client_began(client: Client) -> None:
    client.sent, client.clock.now_ms = 5.0, BEGAN_MS + 20
    point = client.collect()[".producer.record.send.total", ()]

    assert (point.value, point.start_ms, point.time_ms) == (5.0, BEGAN_MS, BEGAN_MS + 20)


def test_deltas_tell_what_came_since_the_last_push_that_was_accepted(client: Client) -> None:
    def told(sent: float, now_ms: int) -> tuple[float, int | None]:
        client.sent, client.clock.now_ms = sent, BEGAN_MS + now_ms
        point = client.collect(is_delta=True)[".producer.record.send.total", ()]
        return point.value, point.start_ms

    assert told(5.0, 10) == (5.0, BEGAN_MS)
    assert told(6.0, 20) == (6.0, BEGAN_MS), "the first push was refused"
    client.reporter.on_accepted()
    assert told(9.0, 30) == (3.0, BEGAN_MS + 20)


def test_a_change_of_temporality_begins_again(client: Client) -> None:
    client.sent = 5.0
    client.collect(is_delta=True)
    client.reporter.on_accepted()
    client.collect(is_delta=False)

    assert client.collect(is_delta=True)[".producer.record.send.total", ()].value == 5.0


def test_a_metric_of_the_application_that_fails_keeps_no_other_back(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.reporter.collector.register(KafkaMetric("broken", "shop-metrics", lambda: 1 / 0))
    client.reporter.collector.register(KafkaMetric("orders", "shop-metrics", lambda: 3, is_total=True))

    assert client.collect()[".shop.orders", ()].value == 3
    assert "shop.broken could not be read" in caplog.text


def test_a_metric_of_the_client_cannot_be_replaced(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        client.reporter.collector.register(KafkaMetric("record-send-total", "producer-metrics", lambda: -1))

    assert client.collect()[".producer.record.send.total", ()].value == 0
    assert "is left out" in caplog.text


def test_a_client_that_is_gone_is_not_kept_alive() -> None:
    reporter = Client().reporter

    assert reporter.collector.collect(subscription()) == []


# The payload


@pytest.mark.parametrize("compression_type", [0, 1, 2, 3, 4])
def test_a_payload_is_otlp_in_the_first_compression_that_is_known(client: Client, compression_type: int) -> None:
    client.sent = 5.0
    payload = client.reporter.make(subscription(compression_types=(99, compression_type)))

    assert payload is not None
    assert payload.compression_type == compression_type
    data = MetricsData.FromString(bytes(decompress(CODECS[compression_type], payload.metrics)))
    (resource,) = data.resource_metrics
    assert [(label.key, label.value.string_value) for label in resource.resource.attributes] == [("group_id", "g")]
    metrics = {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}
    total = metrics[f"{PREFIX}.producer.record.send.total"].sum
    assert (total.data_points[0].as_double, total.is_monotonic, total.aggregation_temporality) == (5.0, True, 2)
    assert metrics[f"{PREFIX}.producer.record.size.avg"].gauge.data_points[0].as_double == 2.5


def test_a_payload_that_is_too_large_for_the_broker_is_not_sent(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert client.reporter.make(subscription(max_bytes=10)) is None
    assert client.reporter.make(subscription(max_bytes=10)) is None
    assert caplog.text.count("the broker allows 10") == 1, "it is said once"


def test_without_the_extra_nothing_is_sent_and_it_is_said_what_to_install(
    client: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "barnabas.client.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.common.v1.common_pb2", None)

    assert client.reporter.make(subscription()) is None
    assert "pip install barnabas[telemetry]" in caplog.text


def test_metrics_that_cannot_be_read_end_nothing_else(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.groups = None  # type: ignore[assignment]  # something that goes wrong

    assert client.reporter.make(subscription()) is None
    assert "could not be collected" in caplog.text
