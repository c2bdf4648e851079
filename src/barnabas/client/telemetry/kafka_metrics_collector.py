"""Gives a client's metrics their names and kinds in telemetry."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.network.log_context import client_logger

if TYPE_CHECKING:
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySubscription
    from barnabas.client.telemetry.kafka_metric import KafkaMetric
    from barnabas.network.metric_group import MetricGroup

log = client_logger("barnabas.telemetry")

_DOMAIN = "org.apache.kafka"
_Key = tuple[str, tuple[tuple[str, str], ...]]


class DataPoint(NamedTuple):
    """A number of a metric at a time (epoch milliseconds); `start_ms` is where a sum begins, None for a gauge."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    value: float
    time_ms: int
    start_ms: int | None


class KafkaMetricsCollector:
    """Kafka's KafkaMetricsCollector.

    The metrics as they are asked for, sums as what came since the last time if so wanted. `read` gives the client's
    own metrics; those of the application are registered. For any thread.
    """

    def __init__(self, read: Callable[[], Iterable[MetricGroup]], wall_clock_ms: Callable[[], int]) -> None:
        self._read = read
        self._wall_clock_ms = wall_clock_ms
        self._lock = threading.Lock()
        self._registered: dict[_Key, KafkaMetric] = {}
        # With deltas: what of each sum was told last, and when; and what is being told.
        self._last: dict[_Key, tuple[float, int]] = {}
        self._next: dict[_Key, tuple[float, int]] = {}
        self._began_ms = wall_clock_ms()
        self._is_delta = False

    def register(self, metric: KafkaMetric) -> None:
        """Take a metric of the application along; one of the client's own cannot be replaced."""
        key = _key(metric.group, metric.name, metric.tags)
        with self._lock:
            if any(key == own for own, _, _ in self._own()):
                log.warning("the client has a metric %s itself; the one registered is left out", key[0])
                return
            self._registered[key] = metric

    def unregister(self, metric: KafkaMetric) -> None:
        """Leave a metric of the application out again, if it is there."""
        key = _key(metric.group, metric.name, metric.tags)
        with self._lock:
            self._registered.pop(key, None)
            self._last.pop(key, None)

    def collect(self, subscription: ClientTelemetrySubscription) -> list[DataPoint]:
        """Return what the subscription wants, without what has no value yet."""
        now_ms = self._wall_clock_ms()
        if subscription.is_delta != self._is_delta:
            self._is_delta = subscription.is_delta
            self._last.clear()
        self._next = {}
        return [
            self._point(key, value, is_total, now_ms)
            for key, value, is_total in self._all()
            if subscription.wants(key[0]) and not math.isnan(value)
        ]

    def on_accepted(self) -> None:
        """Note that what was collected last has come to its destination.

        Of what is refused, the next deltas tell again.
        """
        self._last.update(self._next)
        self._next = {}

    def _point(self, key: _Key, value: float, is_total: bool, now_ms: int) -> DataPoint:
        if not is_total:
            return DataPoint(*key, value, now_ms, None)
        if not self._is_delta:
            return DataPoint(*key, value, now_ms, self._began_ms)
        last, since_ms = self._last.get(key, (0.0, self._began_ms))
        self._next[key] = (value, now_ms)
        return DataPoint(*key, value - last, now_ms, since_ms)

    def _all(self) -> Iterator[tuple[_Key, float, bool]]:
        yield from self._own()
        with self._lock:
            registered = list(self._registered.items())
        for key, metric in registered:
            try:
                yield key, float(metric.value()), metric.is_total
            except Exception:  # one metric of the application must not keep the others back
                log.exception("the metric %s could not be read", key[0])

    def _own(self) -> Iterator[tuple[_Key, float, bool]]:
        for group, tags, values in self._read():
            for name, value in values.items():
                yield _key(group, name, tags), value, name.endswith("-total")


def _key(group: str, name: str, tags: Mapping[str, str]) -> _Key:
    """As Kafka's TelemetryMetricNamingConvention has it: `org.apache.kafka.consumer.fetch.manager.fetch.total`."""
    dotted = f"{_DOMAIN}.{group.replace('-', '.').replace('.metrics', '')}.{name.replace('-', '.')}".lower()
    return dotted, tuple(sorted((tag.replace("-", "_").lower(), value) for tag, value in tags.items()))
