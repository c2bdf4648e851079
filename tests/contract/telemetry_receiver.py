"""Apache Kafka with a plugin that keeps what clients push (tests/interop/java/TelemetryReceiver.java)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from tests.peers import apache_kafka, foreign_programs


class Push(NamedTuple):
    """One push of a client; `metrics` by name, `labels` those of the resource."""

    instance_id: str
    is_last: bool
    labels: Mapping[str, str]
    metrics: Mapping[str, list[Metric]]

    def kinds(self) -> dict[str, tuple[object, ...]]:
        """By name: sum or gauge, and of a sum its temporality and whether it only grows."""
        return {name: _kind(metrics[0]) for name, metrics in self.metrics.items()}

    def value(self, name: str, **attributes: str) -> float:
        """The number of the one data point that has these attributes."""
        (point,) = (
            point
            for metric in self.metrics[name]
            for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points
            if {attribute.key: attribute.value.string_value for attribute in point.attributes} == attributes
        )
        return point.as_double


class TelemetryReceiver:
    """A running broker and the folder into which it puts what it is given."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._folder = folder

    def pushes(self, client_id: str) -> list[Push]:
        """What a client has pushed so far, the oldest first."""
        return [_read(path) for path in sorted(self._folder.glob("*.otlp")) if path.name.split("@")[1] == client_id]

    def has_last_push(self, client_id: str) -> bool:
        """Whether the client has said that it closes."""
        return any(self._folder.glob(f"*@{client_id}@*@last.otlp"))


@contextmanager
def running() -> Iterator[TelemetryReceiver]:
    """Start the broker; raises `CannotBuildError` where Java or its compiler is missing."""
    class_path = foreign_programs.java_class_path()
    with tempfile.TemporaryDirectory(prefix="telemetry-") as folder:
        settings = {"metric.reporters": "TelemetryReceiver", "telemetry.receiver.folder": folder}
        with apache_kafka.ApacheKafka(settings, class_path=class_path) as kafka:
            yield TelemetryReceiver(kafka.bootstrap_servers, Path(folder))


def _read(path: Path) -> Push:
    _, _, instance_id, kind = path.name.removesuffix(".otlp").split("@")
    data = MetricsData.FromString(path.read_bytes())
    metrics: dict[str, list[Metric]] = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                metrics.setdefault(metric.name, []).append(metric)
    attributes = data.resource_metrics[0].resource.attributes if data.resource_metrics else ()
    labels = {attribute.key: attribute.value.string_value for attribute in attributes}
    return Push(instance_id, kind == "last", labels, metrics)


def _kind(metric: Metric) -> tuple[object, ...]:
    if metric.HasField("gauge"):
        return ("gauge",)
    return "sum", metric.sum.aggregation_temporality, metric.sum.is_monotonic
