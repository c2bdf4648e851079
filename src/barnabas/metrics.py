"""The numbers that clients keep: their groups, metrics of your own, and Prometheus."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from barnabas.client.prometheus import ClientCollector
    from barnabas.client.telemetry.kafka_metric import KafkaMetric
    from barnabas.network.metric_group import Measured, MetricGroup

__all__ = [
    "ClientCollector",
    "KafkaMetric",
    "Measured",
    "MetricGroup",
]

_HOMES = {
    "barnabas.client.prometheus": "ClientCollector",
    "barnabas.client.telemetry.kafka_metric": "KafkaMetric",
    "barnabas.network.metric_group": "Measured MetricGroup",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
