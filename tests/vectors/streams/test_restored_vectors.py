"""The same topologies with tasks that are thrown away at random and restored from their changelog topics.

This is what happens on Spark when a task comes to another process: outputs must stay what Kafka's test driver gives
without any restart, record by record.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.restarting_driver import RestartingDriver
from tools.streams_vectors import running
from tools.streams_vectors.__main__ import difference_of, read

FILE = Path(__file__).parent / "topology-vectors.jsonl.gz"


class CountingDriver(RestartingDriver):
    """Counts the restarts of all drivers."""

    total = 0

    def close(self) -> None:
        super().close()
        CountingDriver.total += self.restarts


def keeps_all_its_state(case: dict[str, Any]) -> bool:
    """Whether Kafka, too, would find all state after a restart: no store without a changelog, no counting processor."""
    text = str(case["steps"])
    return "'logging': False" not in text and "cancel_after" not in text


CASES = sorted(filter(keeps_all_its_state, read(FILE)), key=lambda case: case["category"])
CATEGORIES = {category: list(cases) for category, cases in groupby(CASES, key=lambda case: case["category"])}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_restored_task_goes_on_as_if_nothing_had_happened(category: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "TopologyTestDriver", CountingDriver)
    differences = {case["name"]: difference_of(case) for case in CATEGORIES[category]}

    assert {name: text for name, text in differences.items() if text is not None} == {}


def test_tasks_were_restored() -> None:
    assert CountingDriver.total > 100
