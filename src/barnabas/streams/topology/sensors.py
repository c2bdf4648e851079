"""What a task counts of itself and of the user's processors. Source: Kafka's Sensor, Metrics and StreamsMetrics.

A sensor adds up what is recorded; what becomes of it in the course of time (rates, averages of a window) is worked out
where the readings arrive, as a task knows no clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

Tags = tuple[tuple[str, str], ...]


class RecordingLevel(IntEnum):
    """How much is recorded: the setting metrics.recording.level. A sensor counts at its own level and above."""

    INFO = 0
    DEBUG = 1
    TRACE = 2


class Stat(Enum):
    """What a metric tells of the values that its sensor has recorded; those of Kafka's `metrics.stats`."""

    #: Of the window (`metrics.num.samples` times `metrics.sample.window.ms`).
    AVG = "Avg"
    MAX = "Max"
    MIN = "Min"
    #: The sum by second, and how often was recorded by second.
    RATE = "Rate"
    INVOCATION_RATE = "Rate of WindowedCount"
    #: Of all that was recorded ever.
    CUMULATIVE_COUNT = "CumulativeCount"
    CUMULATIVE_SUM = "CumulativeSum"
    #: What was recorded last.
    VALUE = "Value"


class Metric(NamedTuple):
    """A metric of a sensor: its name, group and tags, as Kafka's MetricName, and what it tells."""

    name: str
    group: str
    tags: Tags
    stat: Stat


class Observed(NamedTuple):
    """What was recorded: how often, the sum, the least, the greatest and the last value (not a number before)."""

    times: int = 0
    total: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf
    last: float = math.nan


class SensorReading(NamedTuple):
    """A sensor by its name, its metrics, and what it has recorded since it was read last."""

    sensor: str
    metrics: tuple[Metric, ...]
    observed: Observed


class Sensor:
    """Adds up values; what it records its parents record, too. Belongs to one task."""

    def __init__(self, owner: StreamsMetrics, name: str, records: bool, parents: tuple[Sensor, ...]) -> None:
        self.name = name
        #: Whether it is of a level that is recorded.
        self.records = records
        self._owner = owner
        self._parents = parents
        self._metrics: tuple[Metric, ...] = ()
        self._clear()

    def _clear(self) -> None:
        self._count, self._total, self._least, self._greatest, self._last = Observed()

    def should_record(self) -> bool:
        """Tell whether it is of a level that is recorded."""
        return self.records

    def record(self, value: float = 1.0) -> None:
        """Count a value, unless the sensor is of a level that is not recorded."""
        if not self.records:
            return
        self._count += 1
        self._total += value
        self._least = min(value, self._least)
        self._greatest = max(value, self._greatest)
        self._last = value
        for parent in self._parents:
            parent.record(value)

    def add(self, name: str, stat: Stat, *, group: str, tags: Mapping[str, str] | None = None) -> Sensor:
        """Tell `stat` of the values as a metric; returns the sensor.

        Raises ValueError when another sensor of the task has a metric of that name, group and tags.
        """
        metric = Metric(name, group, tuple((tags or {}).items()), stat)
        if self._owner.claim(metric, self):
            self._metrics = (*self._metrics, metric)
        return self

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What is told of its values."""
        return self._metrics

    def read(self) -> SensorReading:
        """Return what was recorded since this was called last."""
        found = Observed(self._count, self._total, self._least, self._greatest, self._last)
        self._clear()
        return SensorReading(self.name, self._metrics, found)


class StreamsMetrics:
    """The sensors of a task: the engine's, and those of processors (`context.metrics`).

    `thread` is the tag thread-id. Sensors of the same name of several tasks of an application are told as one.
    """

    def __init__(self, level: RecordingLevel, thread: str) -> None:
        self.level = level
        self.thread = thread
        self._sensors: dict[str, Sensor] = {}
        self._claimed: dict[tuple[str, str, frozenset[tuple[str, str]]], Sensor] = {}

    def add_sensor(self, name: str, recording_level: RecordingLevel, *parents: Sensor) -> Sensor:
        """Return a sensor without metrics, to be added with `Sensor.add`; the one that there is of that name."""
        found = self._sensors.get(name)
        if found is None:
            found = self._sensors[name] = Sensor(self, name, recording_level <= self.level, parents)
        return found

    def add_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Return a sensor with the metrics OPERATION-rate and -total: how often it recorded, by second and in all.

        Their group is stream-SCOPE-metrics, their tags are thread-id, SCOPE-id with the entity's name, and `tags`.
        """
        sensor = self.add_sensor(f"external.{entity_name}.{operation_name}", recording_level)
        group, all_tags = self._place(scope_name, entity_name, tags)
        sensor.add(f"{operation_name}-rate", Stat.INVOCATION_RATE, group=group, tags=all_tags)
        return sensor.add(f"{operation_name}-total", Stat.CUMULATIVE_COUNT, group=group, tags=all_tags)

    def add_latency_rate_total_sensor(
        self,
        scope_name: str,
        entity_name: str,
        operation_name: str,
        recording_level: RecordingLevel,
        tags: Mapping[str, str] | None = None,
    ) -> Sensor:
        """Return a sensor as `add_rate_total_sensor` does, with OPERATION-latency-avg and -max of its values beside."""
        sensor = self.add_rate_total_sensor(scope_name, entity_name, operation_name, recording_level, tags)
        group, all_tags = self._place(scope_name, entity_name, tags)
        sensor.add(f"{operation_name}-latency-avg", Stat.AVG, group=group, tags=all_tags)
        return sensor.add(f"{operation_name}-latency-max", Stat.MAX, group=group, tags=all_tags)

    def _place(self, scope: str, entity: str, tags: Mapping[str, str] | None) -> tuple[str, dict[str, str]]:
        return f"stream-{scope}-metrics", {"thread-id": self.thread, f"{scope}-id": entity, **(tags or {})}

    def remove_sensor(self, sensor: Sensor) -> None:
        """Record and tell no more of a sensor."""
        sensor.records = False
        self._sensors.pop(sensor.name, None)
        self._claimed = {metric: owner for metric, owner in self._claimed.items() if owner is not sensor}

    def claim(self, metric: Metric, sensor: Sensor) -> bool:
        """Let a metric be this sensor's, False if it is already. Raises ValueError when it is another one's."""
        key = metric.name, metric.group, frozenset(metric.tags)
        owner = self._claimed.setdefault(key, sensor)
        if owner is not sensor:
            raise ValueError(
                f"A metric named '{metric.name}' already exists in group '{metric.group}', can't register another one."
            )
        return metric not in sensor.metrics

    def read(self) -> tuple[SensorReading, ...]:
        """Return what was recorded since this was called last; sensors of levels that are not recorded are left out."""
        return tuple(sensor.read() for sensor in self._sensors.values() if sensor.records)
