"""What the sensors of tasks tell in the course of time: their readings become metrics in Kafka's groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from barnabas.network.metric_group import MetricGroup
from barnabas.network.sampled_stat import MetricConfig, Reading, Statistic
from barnabas.streams.config import StreamsConfig
from barnabas.streams.topology.sensors import Metric, SensorReading, Stat

_VALUES: dict[Stat, Callable[[Reading], float]] = {
    Stat.AVG: lambda reading: reading.average,
    Stat.MAX: lambda reading: reading.maximum,
    Stat.MIN: lambda reading: reading.minimum,
    Stat.RATE: lambda reading: reading.recent_total / reading.seconds,
    Stat.INVOCATION_RATE: lambda reading: reading.recent_events / reading.seconds,
    Stat.CUMULATIVE_COUNT: lambda reading: reading.events,
    Stat.CUMULATIVE_SUM: lambda reading: reading.total,
}


class SensorStatistics:
    """Sensors by name; those of the same name from several tasks add up. For one thread."""

    def __init__(self, config: MetricConfig) -> None:
        self._config = config
        self._sensors: dict[str, tuple[tuple[Metric, ...], Statistic]] = {}
        self._last: dict[str, float] = {}

    def take(self, readings: Iterable[SensorReading], now: float) -> None:
        """Take what sensors have recorded until now, in seconds."""
        for name, metrics, observed in readings:
            before = self._sensors.get(name)
            statistic = Statistic(self._config) if before is None else before[1]
            self._sensors[name] = metrics, statistic
            statistic.record_many(observed.times, observed.total, observed.least, observed.greatest, now)
            if observed.times:
                self._last[name] = observed.last

    def groups(self, now: float) -> list[MetricGroup]:
        """Return the metrics of all sensors."""
        found = []
        for name, (metrics, statistic) in self._sensors.items():
            reading = statistic.at(now)
            for metric in metrics:
                last = metric.stat is Stat.VALUE
                value = self._last.get(name, math.nan) if last else _VALUES[metric.stat](reading)
                found.append(MetricGroup(metric.group, dict(metric.tags), {metric.name: value}))
        return merged(found)


def merged(groups: Iterable[MetricGroup]) -> list[MetricGroup]:
    """Bring together what has the same group and tags; of the same name the later one counts."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], tuple[Mapping[str, str], dict[str, float]]] = {}
    for group, tags, values in groups:
        found.setdefault((group, frozenset(tags.items())), (tags, {}))[1].update(values)
    return [MetricGroup(group, tags, values) for (group, _), (tags, values) in found.items()]


def metric_config(config: StreamsConfig) -> MetricConfig:
    """Return the window of the settings metrics.num.samples and metrics.sample.window.ms."""
    values = config.values
    return MetricConfig(int(values["metrics.num.samples"]), values["metrics.sample.window.ms"] / 1000)
