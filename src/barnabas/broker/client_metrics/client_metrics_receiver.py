"""Shows the metrics that clients push among the broker's own (extras `metrics` and `telemetry`)."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, MetricsData
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as PushedMetric
    from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

    from barnabas.broker.client_metrics.client_metrics_manager import TelemetryClient

# Of all clients together: some 200 bytes each.
_MOST_VALUES: Final = 500_000
_LONGEST: Final = 256
_DOMAIN: Final = "org.apache.kafka."
_Key = tuple[str, bool, tuple[tuple[str, str], ...]]
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]")


class _Pushed:
    """What one client has told; the keys are a metric's name, whether it is a sum, and its labels."""

    __slots__ = ("keep_until", "values")

    def __init__(self) -> None:
        self.values: dict[_Key, float] = {}
        self.keep_until = 0.0


class ClientMetricsReceiver(Collector):
    """Keeps the last value of every metric of every client, until the client has not pushed for a while.

    `org.apache.kafka.producer.record.send.total` becomes `kafka_client_producer_record_send_total`, with the labels
    `client_id`, `client_instance_id`, and those that the client gives. What all clients make it keep is bounded: who
    was heard longest ago goes first. `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], most_values: int = _MOST_VALUES) -> None:
        self._clock = clock
        self._most_values = most_values
        self._clients: OrderedDict[str, _Pushed] = OrderedDict()
        self._value_count = 0

    def export(self, client: TelemetryClient, metrics: bytes, now: float, keep_until: float) -> None:
        """See `Receiver`."""
        try:
            data = MetricsData.FromString(metrics)
        except DecodeError as problem:
            raise ValueError(f"it is no MetricsData of OpenTelemetry: {problem}") from problem
        pushed = self._clients.setdefault(client.client_instance_id, _Pushed())
        pushed.keep_until = keep_until
        known = len(pushed.values)
        # The broker's own labels win: a client cannot pass for another one.
        own = {"client_id": client.client_id, "client_instance_id": client.client_instance_id}
        for resource in data.resource_metrics:
            labels = {**_labels(resource.resource.attributes), **own}
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    _add_points(pushed.values, metric, labels)
        self._value_count += len(pushed.values) - known
        self._clients.move_to_end(client.client_instance_id)
        if self._value_count > self._most_values:
            self._make_room(now)

    def _forget(self, now: float) -> None:
        for name in [name for name, pushed in self._clients.items() if pushed.keep_until <= now]:
            self._value_count -= len(self._clients.pop(name).values)

    def _make_room(self, now: float) -> None:
        self._forget(now)
        while self._value_count > self._most_values:
            _, oldest = self._clients.popitem(last=False)
            self._value_count -= len(oldest.values)

    def describe(self) -> Iterable[Metric]:
        """Nothing is promised before clients have told anything."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All values now."""
        self._forget(self._clock())
        families: dict[str, Metric] = {}
        for pushed in self._clients.values():
            for (name, is_sum, labels), value in pushed.values.items():
                kind = "counter" if is_sum else "gauge"
                family = families.setdefault(name, Metric(name, f"{name}, as clients tell it", kind))
                # What two clients call by the same name is of one kind, or Prometheus could not read it.
                if family.type == kind:
                    family.add_sample(f"{name}_total" if is_sum else name, dict(labels), value)
        yield from families.values()


def _add_points(values: dict[_Key, float], metric: PushedMetric, labels: Mapping[str, str]) -> None:
    is_sum = metric.HasField("sum")
    if not is_sum and not metric.HasField("gauge"):
        return
    points = metric.sum.data_points if is_sum else metric.gauge.data_points
    is_delta = is_sum and metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
    # The prefix keeps them apart from what the broker counts itself.
    name = f"kafka_client_{_legal(metric.name.removeprefix(_DOMAIN)).removesuffix('_total')}"
    for point in points:
        key = (name, is_sum, tuple({**_labels(point.attributes), **labels}.items()))
        value = _value(point)
        if is_delta:
            values[key] = values.get(key, 0.0) + value
        elif not math.isnan(value):
            values[key] = value


def _value(point: NumberDataPoint) -> float:
    return point.as_double if point.HasField("as_double") else float(point.as_int)


def _labels(attributes: Iterable[KeyValue]) -> dict[str, str]:
    return {_legal(label.key): label.value.string_value[:_LONGEST] for label in attributes}


def _legal(name: str) -> str:
    """Return what Prometheus takes for a name, which never begins with a digit or two underscores."""
    legal = _NOT_IN_NAMES.sub("_", name)[:_LONGEST].lstrip("_0123456789")
    return legal or "unnamed"
