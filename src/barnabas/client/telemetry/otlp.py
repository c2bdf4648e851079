"""Metrics in the format of OpenTelemetry (OTLP), through its own library (extra `telemetry`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

try:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import (
        AGGREGATION_TEMPORALITY_CUMULATIVE,
        AGGREGATION_TEMPORALITY_DELTA,
        Metric,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
    )
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
except ImportError:
    raise ImportError("pushing client metrics needs opentelemetry-proto: pip install barnabas[telemetry]") from None

if TYPE_CHECKING:
    from barnabas.client.telemetry.kafka_metrics_collector import DataPoint

_NANOS_PER_MS = 1_000_000


def encode(points: Iterable[DataPoint], labels: Mapping[str, str], *, is_delta: bool) -> bytes:
    """MetricsData, with one metric for each name and a data point for each of its label sets.

    `labels` are those of the resource, which is the client.
    """
    temporality = AGGREGATION_TEMPORALITY_DELTA if is_delta else AGGREGATION_TEMPORALITY_CUMULATIVE
    metrics: dict[str, Metric] = {}
    for point in points:
        metric = metrics.setdefault(point.name, Metric(name=point.name))
        number = NumberDataPoint(
            attributes=_attributes(point.attributes),
            time_unix_nano=point.time_ms * _NANOS_PER_MS,
            as_double=point.value,
        )
        if point.start_ms is None:
            metric.gauge.data_points.append(number)
        else:
            number.start_time_unix_nano = point.start_ms * _NANOS_PER_MS
            metric.sum.aggregation_temporality = temporality
            metric.sum.is_monotonic = True
            metric.sum.data_points.append(number)
    resource = Resource(attributes=_attributes(labels.items()))
    scope = ScopeMetrics(metrics=metrics.values())
    data = MetricsData(resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope])])
    return data.SerializeToString()


def _attributes(labels: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in labels]
