"""A consumer that closes tells all it has counted, though one of its two clients has a push in flight (KIP-714)."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.share.share_consumer import ShareConsumer
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest
from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse
from tests.support.network_fakes import all_api_versions
from tests.support.scripted_cluster import ScriptedCluster
from tests.support.scripted_queue import ScriptedQueue

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

RECORDS = 10
#: Seconds between the arrival of a push and its answer; what was pushed counts with the answer.
TRAVEL = 0.05


class Operator:
    """Wants everything, every tenth of a second; a push on a connection that is closed before its answer is lost."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self.cluster = cluster
        self.is_silent = False
        self.arrived: list[PushTelemetryRequest] = []
        self.pushes: list[PushTelemetryRequest] = []
        cluster._handlers |= {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(telemetry=True),
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: self._subscription,
            ApiKey.PUSH_TELEMETRY: self._push,
        }

    def _subscription(self, request: Any) -> GetTelemetrySubscriptionsResponse:
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=bytes(range(16)), subscription_id=1, push_interval_ms=100, delta_temporality=True,
            telemetry_max_bytes=1 << 20, requested_metrics=["*"],
        )  # fmt: skip

    def _push(self, request: PushTelemetryRequest) -> None:
        self.arrived.append(request)
        if not self.is_silent:
            self.cluster.at(TRAVEL, lambda: self._answer(request))

    def _answer(self, request: PushTelemetryRequest) -> None:
        for selector in (self.cluster.app_selector, self.cluster.group_selector):
            for node, waiting in list(selector.waiting.items() if selector is not None else ()):
                if self._is_first(waiting, request):
                    assert selector is not None
                    selector.respond(node, PushTelemetryResponse())
                    self.pushes.append(request)

    @staticmethod
    def _is_first(waiting: deque[Any], request: PushTelemetryRequest) -> bool:
        return bool(waiting) and waiting[0][1] is request

    def total(self, name: str) -> float:
        """The sum of what all pushes told of a metric of the whole client."""
        return sum(
            point.as_double
            for push in self.pushes
            for resource in MetricsData.FromString(push.metrics).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.sum.data_points
            if not point.attributes
        )


def consumer_of(cluster: ScriptedCluster, kind: str) -> Consumer[Any, Any] | ShareConsumer[Any, Any]:
    if isinstance(cluster, ScriptedQueue):
        return cluster.share_consumer("t", group_id="g")
    return cluster.consumer("t", group_id="g", group_protocol=kind, auto_offset_reset="earliest")


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_what_was_counted_is_told_though_a_push_is_in_flight_when_it_closes(kind: str) -> None:
    cluster = ScriptedQueue() if kind == "share" else ScriptedCluster()
    operator = Operator(cluster)
    cluster.append("t", 0, *[b"x"] * RECORDS)
    consumer = consumer_of(cluster, kind)
    read = 0
    while read < RECORDS:
        read += len(list(consumer.poll(1.0)))
    so_far = len(operator.arrived)
    while len(operator.arrived) == so_far:
        cluster.sleep(0.01)
    began = cluster.now

    consumer.close()

    assert operator.pushes[-1].terminating
    group = "consumer.share" if kind == "share" else "consumer"
    assert operator.total(f"org.apache.kafka.{group}.fetch.manager.records.consumed.total") == RECORDS
    assert cluster.now - began < 1.0


@pytest.mark.parametrize("kind", ["classic", "consumer", "share"])
def test_a_broker_that_does_not_answer_a_push_keeps_a_consumer_from_closing_for_a_second_at_most(kind: str) -> None:
    cluster = ScriptedQueue() if kind == "share" else ScriptedCluster()
    operator = Operator(cluster)
    operator.is_silent = True
    cluster.append("t", 0, *[b"x"] * RECORDS)
    consumer = consumer_of(cluster, kind)
    while not operator.arrived:
        consumer.poll(0.1)
    began = cluster.now

    consumer.close()

    assert cluster.now - began < 1.5
