"""A paused application: its next batch waits, until it goes on or is not wanted any more."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.streams.spark import batch_commits
from barnabas.streams.spark.batch_commits import BatchCommits, BatchFailedError


class Commits(BatchCommits):
    """Notes the batches that it would have computed."""

    def __init__(self) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # neither is asked
        self.batches: list[int] = []

    def _commit(self, planned: Any, batch: int) -> None:
        self.batches.append(batch)


def test_a_batch_waits_until_the_application_goes_on() -> None:
    commits = Commits()
    commits(None, 0)  # type: ignore[arg-type]  # it is not read
    commits.goes_on.clear()
    waiting = threading.Thread(target=commits, args=(None, 1))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    assert commits.batches == [0]

    commits.goes_on.set()
    waiting.join()

    assert commits.batches == [0, 1]


def test_a_query_that_is_stopped_while_it_is_paused_ends() -> None:
    commits = Commits()
    commits.goes_on.clear()
    commits.is_wanted = lambda: False

    with pytest.raises(BatchFailedError, match="batch 4"):
        commits(None, 4)  # type: ignore[arg-type]  # it is not read

    assert commits.batches == []
    assert "stopped while the application was paused" in str(commits.error)


def test_a_driver_takes_over_before_the_tasks_of_a_batch_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    task = SimpleNamespace(task=None, topic_ids={})
    monkeypatch.setattr(batch_commits, "_tasks_of", lambda planned: [task])
    monkeypatch.setattr(batch_commits.driver, "take_over", lambda place, query, run: steps.append(f"take over {run}"))
    monkeypatch.setattr(batch_commits.driver, "commit", lambda place, batch, reports: steps.append(f"commit {batch}"))
    context = SimpleNamespace(getLocalProperty=lambda name: name)
    planned: Any = SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context))
    commits = BatchCommits(None, lambda requests, is_wanted: steps.append("compute") or [])  # type: ignore[arg-type]

    commits(planned, 3)

    assert steps == [f"take over {batch_commits.RUN}", "compute", "commit 3"]
