"""A TopologyTestDriver whose task is thrown away at random; a new one goes on from the changelog topics."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from barnabas.streams.engine.task import Task
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.testing import TopologyTestDriver


class RestartingDriver(TopologyTestDriver):
    """Makes its task anew before some inputs, from the changelogs and what the task says of its times.

    A `seed` of None draws the places of the restarts from the topology.
    """

    seed: int | None = None

    def __init__(self, *arguments: Any) -> None:
        self._written: dict[str, list[ChangelogRecord]] = defaultdict(list)
        self.restarts = 0
        super().__init__(*arguments)
        self._random = random.Random(str(sorted(self._topology.nodes)) if self.seed is None else self.seed)

    def pipe_raw(self, topic: str, key: Any, value: Any, timestamp: int, headers: Any) -> None:
        """Restart before the record, or not."""
        self._restart_perhaps()
        if key is not None:
            self._written[topic].append(ChangelogRecord(key, value, timestamp, list(headers)))
        super().pipe_raw(topic, key, value, timestamp, headers)

    def advance_wall_clock_time(self, advance: Any) -> None:
        """Restart before the clock goes on, or not."""
        self._restart_perhaps()
        super().advance_wall_clock_time(advance)

    def _capture(self, records: Any, work: bool = True) -> None:
        for record in records:
            if record.key is not None:
                time = self._now_ms if record.timestamp is None else record.timestamp
                made = ChangelogRecord(record.key, record.value, time, list(record.headers))
                self._written[record.topic].append(made)
        super()._capture(records, work)

    def _restart_perhaps(self) -> None:
        old = self._task
        if old is None or self._random.random() < 0.6:
            return
        self.restarts += 1
        self._new_task(old.metadata())
        self._task.dropped_records = old.dropped_records

    def _new_task(self, metadata: Any) -> None:
        old = self._task
        self._task = Task(self._topology, old.id, old._settings, self._now_ms)
        self._restore(self._task.stores)
        self._task.restore_metadata(metadata)

    def _restore(self, stores: Mapping[str, Any]) -> None:
        for name, topic in self._topology.store_to_changelog_topic.items():
            if name in stores:
                stores[name].restore(self._written[topic])
