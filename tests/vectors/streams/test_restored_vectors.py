"""The same topologies with tasks that are thrown away at random and restored from their changelog topics.

This is what happens on Spark when a task comes to another process: outputs must stay what Kafka's test driver gives
without any restart, record by record.
"""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.testing import TopologyTestDriver
from barnabas.streams.testing import topology_test_driver as module
from tools.streams_vectors import running
from tools.streams_vectors.__main__ import difference_of, read

FILE = Path(__file__).parent / "topology-vectors.jsonl.gz"


class RestoringDriver(TopologyTestDriver):
    """Makes its task anew before some inputs, from the changelogs and what the task says of its times."""

    restarts = 0

    def __init__(self, *arguments: Any) -> None:
        self._changes: dict[str, list[ChangelogRecord]] = defaultdict(list)
        super().__init__(*arguments)
        self._random = random.Random(str(sorted(self._topology.nodes)))

    def pipe_raw(self, topic: str, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        self._restore_perhaps()
        if topic in self._topology.store_to_changelog_topic.values():
            self._changes[topic].append(ChangelogRecord(key, value, timestamp, list(headers)))
        super().pipe_raw(topic, key, value, timestamp, headers)

    def advance_wall_clock_time(self, advance: Any) -> None:
        self._restore_perhaps()
        super().advance_wall_clock_time(advance)

    def _capture(self, records: Any, work: bool = True) -> None:
        for record in records:
            time = self._now_ms if record.timestamp is None else record.timestamp
            self._changes[record.topic].append(ChangelogRecord(record.key, record.value, time, list(record.headers)))
        super()._capture(records, work)

    def _restore_perhaps(self) -> None:
        old = self._task
        if old is None or self._random.random() < 0.6:
            return
        RestoringDriver.restarts += 1
        found = TaskSettings(self._config)
        if self._global is not None:
            found = found._replace(global_store=self._global.store)
        task = Task(self._topology, module._TASK, found, self._now_ms)
        for name, topic in self._topology.store_to_changelog_topic.items():
            if name in task.stores:
                task.stores[name].restore(self._changes[topic])
        task.restore_metadata(old.metadata())
        task.dropped_records = old.dropped_records
        self._task = task


def keeps_all_its_state(case: dict[str, Any]) -> bool:
    """Whether Kafka, too, would find all state after a restart: no store without a changelog, no counting processor."""
    text = str(case["steps"])
    return "'logging': False" not in text and "cancel_after" not in text


CASES = sorted(filter(keeps_all_its_state, read(FILE)), key=lambda case: case["category"])
CATEGORIES = {category: list(cases) for category, cases in groupby(CASES, key=lambda case: case["category"])}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_restored_task_goes_on_as_if_nothing_had_happened(category: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "TopologyTestDriver", RestoringDriver)
    differences = {case["name"]: difference_of(case) for case in CATEGORIES[category]}

    assert {name: text for name, text in differences.items() if text is not None} == {}


def test_tasks_were_restored() -> None:
    assert RestoringDriver.restarts > 100
