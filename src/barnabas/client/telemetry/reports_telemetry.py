"""What producer, consumer and admin client have in common about telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.arguments import as_seconds
from barnabas.client.telemetry.client_telemetry_reporter import ClientTelemetryReporter
from barnabas.errors import IllegalStateError, KafkaTimeoutError
from barnabas.network.telemetry_sender import TelemetrySender

if TYPE_CHECKING:
    from barnabas.client.steps import Steps
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender, RandomSource
    from barnabas.client.telemetry.kafka_metric import KafkaMetric
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.metric_group import MetricGroup
    from barnabas.network.network_client import NetworkClient

Poll = Callable[[float, float], object]


class ReportsTelemetry:
    """A client that tells its metrics to the cluster, as far as the cluster's operators ask for them (KIP-714)."""

    _telemetry: ClientTelemetryReporter | None = None

    def _report_telemetry(
        self,
        config: ClientConfig,
        metrics: Callable[[], Iterable[MetricGroup]],
        labels: Callable[[], Mapping[str, str | None]],
        client: NetworkClient,
        *,
        random: RandomSource,
        wall_clock_ms: Callable[[], int],
    ) -> None:
        """Begin, unless `enable.metrics.push` is off. `metrics` and `labels` are methods, held weakly."""
        if config.get_bool("enable.metrics.push"):
            self._telemetry = ClientTelemetryReporter(metrics, labels, random=random, wall_clock_ms=wall_clock_ms)
            client.telemetry_sender = TelemetrySender(self._telemetry.sender)

    def register_metric_for_subscription(self, metric: KafkaMetric) -> None:
        """Have a metric of the application pushed with the client's own (KIP-1076), if it is subscribed to.

        A metric of the same name, group and tags takes the place of an earlier one; those of the client itself cannot
        be replaced. Without effect when `enable.metrics.push` is off.
        """
        if self._telemetry is not None:
            self._telemetry.collector.register(metric)

    def unregister_metric_from_subscription(self, metric: KafkaMetric) -> None:
        """Push the metric no longer; one that is not registered is left alone."""
        if self._telemetry is not None:
            self._telemetry.collector.unregister(metric)

    def _telemetry_sender(self, timeout: float | None) -> ClientTelemetrySender:
        if timeout is not None:
            as_seconds(timeout)
        if self._telemetry is None:
            raise IllegalStateError(
                "The client has no instance id, as it sends no telemetry: enable.metrics.push is off"
            )
        return self._telemetry.sender


def answered(sender: ClientTelemetrySender, waited: float, why_not: str) -> bytes:
    """Return the client's id, after so many seconds of waiting for it.

    Raises `KafkaTimeoutError`, `IllegalStateError` when the client was closed meanwhile, `UnsupportedVersionError`.
    """
    sender.is_awaited = False
    found = sender.instance_id()
    if found is not None:
        return found
    if sender.is_done:
        raise IllegalStateError("The client is closed, and a broker never gave it an instance id")
    raise KafkaTimeoutError(f"No broker gave the client an instance id within {waited:g} s{why_not}")


def client_instance_id(
    sender: ClientTelemetrySender, client: NetworkClient, poll: Poll, clock: Callable[[], float], timeout: float
) -> Steps[bytes]:
    """Ask for the client's id, for clients that drive the network in their calls; see `answered`."""
    deadline = clock() + timeout
    sender.ask_for_instance_id()
    while not sender.has_answer() and (now := clock()) < deadline:
        poll(deadline - now, now)
        yield None
    return answered(sender, timeout, client.failure_to_connect)


def begin_last_push(telemetry: ClientTelemetryReporter | None, now: float) -> None:
    """Have no push begin but the last, before one of a client's connections ends that a push may be in flight on.

    What such a push told is in none that follows: it may have come to the broker.
    """
    if telemetry is not None:
        telemetry.sender.initiate_close(now)


def last_push(
    telemetry: ClientTelemetryReporter | None, poll: Poll, clock: Callable[[], float], deadline: float
) -> Steps[None]:
    """Return the push before the end, for clients that drive the network in their calls."""
    if telemetry is None:
        return
    sender = telemetry.sender
    sender.initiate_close(clock())
    while not sender.is_done and (now := clock()) < deadline:
        poll(deadline - now, now)
        yield None
