"""The telemetry of the mocks, which goes nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.client.telemetry.kafka_metric import KafkaMetric


class MockTelemetry:
    """`instance_id` is what the test says, `subscribed_metrics` what the program registered."""

    def __init__(self) -> None:
        self.instance_id: bytes | None = None
        self.subscribed_metrics: list[KafkaMetric] = []

    def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return what the test put into `instance_id`."""
        if self.instance_id is None:
            raise IllegalStateError("The mock has no instance id: put 16 bytes into its instance_id")
        return self.instance_id

    def register_metric_for_subscription(self, metric: KafkaMetric) -> None:
        """Keep the metric in `subscribed_metrics`."""
        if metric not in self.subscribed_metrics:
            self.subscribed_metrics.append(metric)

    def unregister_metric_from_subscription(self, metric: KafkaMetric) -> None:
        """Take the metric out of `subscribed_metrics`, if it is there."""
        if metric in self.subscribed_metrics:
            self.subscribed_metrics.remove(metric)
