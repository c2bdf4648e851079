"""A client's telemetry, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from weakref import WeakMethod

from barnabas.client.telemetry.client_telemetry_sender import (
    ClientTelemetrySender,
    ClientTelemetrySubscription,
    RandomSource,
    TelemetryPayload,
)
from barnabas.client.telemetry.kafka_metrics_collector import KafkaMetricsCollector
from barnabas.errors import UnsupportedCompressionTypeError
from barnabas.network.log_context import client_logger
from barnabas.records.compression import CODECS, compress

if TYPE_CHECKING:
    from barnabas.network.metric_group import MetricGroup

log = client_logger("barnabas.telemetry")


class ClientTelemetryReporter:
    """Kafka's ClientTelemetryReporter: what is told (`collector`), when (`sender`), and how it is written.

    `metrics` and `labels` are methods of the client, which is not kept alive by them; the labels are those by which the
    cluster's operators know the client, beside what a broker sees by itself.
    """

    def __init__(
        self,
        metrics: Callable[[], Iterable[MetricGroup]],
        labels: Callable[[], Mapping[str, str | None]],
        *,
        random: RandomSource,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        client_metrics = WeakMethod(metrics)

        def read() -> Iterable[MetricGroup]:
            method = client_metrics()
            return () if method is None else method()

        self._labels = WeakMethod(labels)
        self._has_told_why_not = False
        self.collector = KafkaMetricsCollector(read, wall_clock_ms)
        self.sender = ClientTelemetrySender(self, random)

    def make(self, subscription: ClientTelemetrySubscription) -> TelemetryPayload | None:
        """See `PayloadMaker`."""
        try:
            payload = self._make_payload(subscription)
        except ImportError as error:
            self._tell_why_not(str(error))
            return None
        except Exception:  # telemetry must not end the thread that also sends records
            log.exception("the metrics to push could not be collected")
            return None
        if len(payload.metrics) > subscription.max_bytes > 0:
            self._tell_why_not(f"they take {len(payload.metrics)} bytes, the broker allows {subscription.max_bytes}")
            return None
        return payload

    def on_accepted(self) -> None:
        """See `PayloadMaker`."""
        self.collector.on_accepted()

    def _make_payload(self, subscription: ClientTelemetrySubscription) -> TelemetryPayload:
        from barnabas.client.telemetry.otlp import encode

        method = self._labels()
        labels = {} if method is None else {name: label for name, label in method().items() if label}
        data = encode(self.collector.collect(subscription), labels, is_delta=subscription.is_delta)
        for compression_type in subscription.compression_types:
            if 0 <= compression_type < len(CODECS):
                try:
                    return TelemetryPayload(compression_type, compress(CODECS[compression_type], data))
                except UnsupportedCompressionTypeError:
                    # Its library is not installed; the broker knows more than one.
                    continue
        return TelemetryPayload(0, data)

    def _tell_why_not(self, reason: str) -> None:
        if not self._has_told_why_not:
            self._has_told_why_not = True
            log.warning("the broker asks for metrics of this client, which cannot be sent: %s", reason)
