"""The metrics of an application under the names of KIP-444: those of its client, its query, tasks, nodes and stores.

The query is the thread. Counts are those of finished batches, since this `KafkaStreams` was made; rates, averages and
maxima are of `metrics.num.samples` windows of `metrics.sample.window.ms`. What sensors in the tasks have recorded, the
engine's at DEBUG and TRACE and those of processors, comes beside.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from barnabas.network.metric_group import MetricGroup
from barnabas.network.sampled_stat import MetricConfig, Statistic
from barnabas.streams.sensor_statistics import SensorStatistics, merged
from barnabas.streams.spark.task_measures import TaskMeasures

THREAD, TASK, NODE = "thread-id", "task-id", "processor-node-id"


class _Statistics(defaultdict[tuple[str, ...], Statistic]):
    """Statistics by what they are of; the first that is recorded makes one."""

    def __init__(self, config: MetricConfig) -> None:
        super().__init__(lambda: Statistic(config))


class ApplicationMetrics:
    """Takes what the tasks have counted, and has Kafka's groups of it. For any thread."""

    def __init__(self, application: str, clock: Callable[[], float], config: MetricConfig) -> None:
        self._thread = {THREAD: application}
        self._clock = clock
        self._statistics = _Statistics(config)
        self._latest: dict[str, TaskMeasures] = {}
        self._sensors = SensorStatistics(config)
        self._counts: defaultdict[tuple[str, str, str, str, str], int] = defaultdict(int)
        self._remaining: dict[tuple[str, str], tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._records = 0
        self.failed = 0

    def took(self, measures: TaskMeasures) -> None:
        """Take what a task has counted in a batch."""
        now, task = self._clock(), measures.task
        with self._lock:
            self._latest[task] = measures
            self._records += measures.processed
            for name, value in (
                ("process", measures.processed), ("batch-latency", measures.seconds * 1000),
                ("dropped-records", measures.dropped), ("restore", measures.restored),
            ):  # fmt: skip
                self._statistics[name, task].record(value, now)
            for what, found in (("consumed", measures.consumed), ("produced", measures.produced)):
                for (node, topic), (records, size) in found.items():
                    self._counts["records", what, task, node, topic] += records
                    self._counts["bytes", what, task, node, topic] += size
                    if what == "consumed":
                        self._statistics["process", task, node].record(records, now)
            for node, age in measures.ages.items():
                self._statistics["age", task, node].record_many(*age, now)
            for store, size_found in measures.stores.items():
                if size_found.buffered is not None:
                    for name, value in zip(("count", "size"), size_found.buffered, strict=True):
                        self._statistics[f"suppression-buffer-{name}", task, store].record(value, now)
            self._sensors.take(measures.sensors, now)

    def committed(self, batch_seconds: float, commit_seconds: float) -> None:
        """Count a batch that was committed; how long it took, and its commit among that."""
        now = self._clock()
        with self._lock:
            records, self._records = self._records, 0
            self._statistics["thread", "process"].record(records, now)
            self._statistics["thread", "process-latency"].record(batch_seconds * 1000, now)
            self._statistics["thread", "commit"].record(1, now)
            self._statistics["thread", "commit-latency"].record(commit_seconds * 1000, now)

    def remains(self, task: str, store: str, end: int, records: int) -> None:
        """Note that a store is to be restored up to this offset, and how many there are to it."""
        with self._lock:
            self._remaining[task, store] = end, records

    def restored(self, task: str, store: str, offset: int | None) -> None:
        """Note how far a store is restored; None when that has ended."""
        with self._lock:
            end, _ = self._remaining.get((task, store), (0, 0))
            self._remaining[task, store] = (end, 0) if offset is None else (end, max(0, end - offset))

    def groups(self, state: int, is_running: bool) -> list[MetricGroup]:
        """Return all groups; `state` is the number of the client's."""
        with self._lock:
            client = {
                "client-state": state,
                "alive-stream-threads": int(is_running),
                "failed-stream-threads": self.failed,
            }
            found = [MetricGroup("stream-metrics", {}, client), self._of_thread()]
            for task, measures in sorted(self._latest.items()):
                found.append(self._of_task(task, measures))
                found += self._of_nodes(task)
                found += self._of_stores(task, measures)
            return merged([*found, *self._sensors.groups(self._clock())])

    def _of_thread(self) -> MetricGroup:
        now = self._clock()
        read = {name: self._statistics["thread", name].at(now) for name in
                ("process", "process-latency", "commit", "commit-latency")}  # fmt: skip
        values = {
            **read["process"].metered("process"), **read["process"].averaged("process-records"),
            **read["process-latency"].averaged("process-latency"), **read["commit"].metered("commit"),
            **read["commit-latency"].averaged("commit-latency"),
        }  # fmt: skip
        return MetricGroup("stream-thread-metrics", self._thread, values)

    def _of_task(self, task: str, measures: TaskMeasures) -> MetricGroup:
        now, values = self._clock(), dict[str, float]()
        for name in ("process", "dropped-records", "restore"):
            values |= self._statistics[name, task].at(now).metered(name)
        values |= self._statistics["batch-latency", task].at(now).averaged("batch-latency")
        left = [records for (of_task, _), (_, records) in self._remaining.items() if of_task == task]
        values["restore-remaining-records-total"] = sum(left)
        values["state-size-bytes"] = measures.disk_bytes
        return MetricGroup("stream-task-metrics", {**self._thread, TASK: task}, values)

    def _of_nodes(self, task: str) -> list[MetricGroup]:
        now, found = self._clock(), list[MetricGroup]()
        tags: Mapping[str, str]
        for node in sorted(key[2] for key in self._statistics if key[:2] == ("age", task)):
            values = {}
            if (processed := self._statistics.get(("process", task, node))) is not None:
                values = processed.at(now).metered("process")
            age = self._statistics["age", task, node].at(now)
            values |= age.averaged("record-e2e-latency") | {"record-e2e-latency-min": age.minimum}
            tags = {**self._thread, TASK: task, NODE: node}
            found.append(MetricGroup("stream-processor-node-metrics", tags, values))
        by_topic: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for (unit, what, of_task, node, topic), count in self._counts.items():
            if of_task == task:
                by_topic[node, topic][f"{unit}-{what}-total"] = count
        for (node, topic), values in sorted(by_topic.items()):
            tags = {**self._thread, TASK: task, NODE: node, "topic-name": topic}
            found.append(MetricGroup("stream-topic-metrics", tags, values))
        return found

    def _of_stores(self, task: str, measures: TaskMeasures) -> list[MetricGroup]:
        now, found = self._clock(), list[MetricGroup]()
        for store, size in sorted(measures.stores.items()):
            values: dict[str, float] = {}
            if size.entries is not None:
                values["num-keys" if size.scope.startswith("in-memory") else "estimate-num-keys"] = size.entries
            for name in ("count", "size"):
                if size.buffered is not None:
                    statistic = self._statistics[f"suppression-buffer-{name}", task, store]
                    values |= statistic.at(now).averaged(f"suppression-buffer-{name}")
            if values:
                tags = {**self._thread, TASK: task, f"{size.scope}-state-id": store}
                found.append(MetricGroup("stream-state-metrics", tags, values))
        return found
