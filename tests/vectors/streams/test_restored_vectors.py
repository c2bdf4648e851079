"""The same topologies with tasks that are thrown away at random and restored from their changelog topics.

This is what happens on Spark when a task comes to another process: outputs must stay what Kafka's test driver gives
without any restart, record by record. There a batch leaves out of the changelogs what it has replaced itself; so here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams.state.changelog_record import ChangelogRecord, last_of_each_key
from tests.support.restarting_driver import RestartingDriver
from tools.streams_vectors import running
from tools.streams_vectors.__main__ import difference_of, read

FILE = Path(__file__).parent / "topology-vectors.jsonl.gz"


class CountingDriver(RestartingDriver):
    """Counts the restarts of all drivers, and the changes that batches have replaced."""

    total = 0
    replaced = 0

    def close(self) -> None:
        super().close()
        CountingDriver.total += self.restarts

    def _restore(self, stores: Mapping[str, Any]) -> None:
        for name, topic in self._topology.store_to_changelog_topic.items():
            if name in stores and stores[name].last_change_counts and topic not in self._topology.source_by_topic:
                written = self._written[topic]
                kept = [change for batch in self._batches(written) for change in last_of_each_key(batch)]
                CountingDriver.replaced += len(written) - len(kept)
                self._written[topic] = kept
        super()._restore(stores)

    def _batches(self, written: list[ChangelogRecord]) -> Iterator[list[ChangelogRecord]]:
        at = 0
        while at < len(written):
            size = self._random.randint(1, 8)
            yield written[at : at + size]
            at += size


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
    assert CountingDriver.replaced > 300
