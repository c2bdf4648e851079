"""What measures a task, its stores, caches and nodes: sensors with metrics in Kafka's groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.streams.topology.sensors import RecordingLevel, Sensor, Stat, StreamsMetrics

#: What the name of a metric ends with, by what it tells.
_SUFFIXES = {
    Stat.AVG: "-avg", Stat.MAX: "-max", Stat.MIN: "-min", Stat.INVOCATION_RATE: "-rate", Stat.RATE: "-rate",
    Stat.CUMULATIVE_COUNT: "-total", Stat.CUMULATIVE_SUM: "-total", Stat.VALUE: "",
}  # fmt: skip
#: What is told of calls, of sums, of times and of ages.
CALLS = (Stat.INVOCATION_RATE, Stat.CUMULATIVE_COUNT)
SUMS = (Stat.RATE, Stat.CUMULATIVE_SUM)
TIMES = (Stat.AVG, Stat.MAX)
AGES = (Stat.AVG, Stat.MIN, Stat.MAX)


class Subject(NamedTuple):
    """A task, store, cache or node that is measured: how its sensors' names begin, group and tags of its metrics."""

    name: str
    group: str
    tags: Mapping[str, str]


class Measuring(NamedTuple):
    """What measures a task: its sensors, nanoseconds of a clock that only goes on, and milliseconds of the batch."""

    metrics: StreamsMetrics
    task: str
    clock: Callable[[], int]
    now_ms: Callable[[], int]

    def of_task(self) -> Subject:
        """Return the task itself."""
        tags = {"thread-id": self.metrics.thread, "task-id": self.task}
        return Subject(f"task.{self.task}", "stream-task-metrics", tags)

    def of_store(self, name: str, scope: str) -> Subject:
        """Return a store; `scope` says of which kind it is."""
        return self._part("store", name, "stream-state-metrics", f"{scope}-state-id")

    def of_cache(self, store: str) -> Subject:
        """Return the part of a store in the task's cache."""
        return self._part("cache", store, "stream-record-cache-metrics", "record-cache-id")

    def of_node(self, name: str) -> Subject:
        """Return a node."""
        return self._part("node", name, "stream-processor-node-metrics", "processor-node-id")

    def _part(self, kind: str, name: str, group: str, tag: str) -> Subject:
        task = self.of_task()
        return Subject(f"{task.name}.{kind}.{name}", group, {**task.tags, tag: name})

    def sensor(
        self,
        what: Subject,
        name: str,
        metrics: Mapping[str, tuple[Stat, ...]],
        level: RecordingLevel = RecordingLevel.DEBUG,
    ) -> Sensor:
        """Return a sensor; what is told of a metric is told under its name with an ending."""
        sensor = self.metrics.add_sensor(f"{what.name}.{name}", level)
        for metric, stats in metrics.items():
            for stat in stats:
                sensor.add(f"{metric}{_SUFFIXES[stat]}", stat, group=what.group, tags=what.tags)
        return sensor
