"""How often tasks want to run without any news, as the tasks tell it while they run.

Punctuators by the wall clock that are scheduled in `init` are known before the start; those that a processor schedules
later are heard of with what its task has counted. The driver hears it, a process that Spark has started beside it plans
the batches: what the one knows the other reads from a file. A batch that is repeated may so be planned with other
tasks, which does no harm: what was computed before was not decided.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from barnabas.spark.co_partitions import CoPartitions
from barnabas.streams.topology.processor_api import TaskId


class WallClocks:
    """The driver's side: notes what the tasks want; made with a file of its own, which `close` removes."""

    def __init__(self) -> None:
        number, name = tempfile.mkstemp(prefix="barnabas-streams-", suffix=".clocks")
        os.close(number)
        self.path = Path(name)
        self._wanted: dict[TaskId, int] = {}

    def heard(self, task: str, interval_ms: int | None) -> None:
        """Note how often a task wants to run, in milliseconds; None when it does not."""
        before = self._by_group()
        if interval_ms is None:
            self._wanted.pop(TaskId.parse(task), None)
        else:
            self._wanted[TaskId.parse(task)] = interval_ms
        if (found := self._by_group()) != before:
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(self.path)

    def _by_group(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for task, interval_ms in self._wanted.items():
            name = str(task.subtopology)
            found[name] = min(interval_ms, found.get(name, interval_ms))
        return found

    def close(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


class PlannedClocks:
    """The planner's side: the co-partitions with what the file tells by now."""

    def __init__(self, planned: CoPartitions, path: Path) -> None:
        self._planned = self._present = planned
        self._path = path
        self._text = ""

    def present(self) -> CoPartitions:
        """Return them."""
        try:
            text = self._path.read_text(encoding="utf-8")
        except OSError:
            return self._present  # the application is being closed
        if text != self._text:
            self._text = text
            self._present = _with_clocks(self._planned, json.loads(text or "{}"))
        return self._present


def _with_clocks(planned: CoPartitions, clocks: Mapping[str, int]) -> CoPartitions:
    groups = {
        name: group._replace(clock_ms=min(filter(None, (group.clock_ms, clocks.get(name))), default=None))
        for name, group in planned.groups.items()
    }
    return planned._replace(groups=groups)
