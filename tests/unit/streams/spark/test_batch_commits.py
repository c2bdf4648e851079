"""A paused application: its next batch waits, until it goes on or is not wanted any more."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.decision import COMPLETE, Decision, TaskState
from barnabas.streams.spark import batch_commits
from barnabas.streams.spark.batch_commits import BatchCommits, BatchFailedError, Staging
from barnabas.streams.spark.batch_stages import PlannedBatch, Remains, Work
from barnabas.streams.spark.repartition_levels import Levels

PLACE = TopicPartition("between", 0)
LEVELS = Levels(((0,), (1,)), {0: (), 1: ("between",)}, frozenset(["between"]), {0: 1, 1: 1}, {"between": 1})


class Commits(BatchCommits):
    """Notes the batches that it would have computed."""

    def __init__(self) -> None:
        super().__init__(None, None, Staging(LEVELS))  # type: ignore[arg-type]  # neither is asked
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


class Driver:
    """In place of `driver_steps`: notes what it is to do, and knows a decision."""

    def __init__(self, decision: Decision | None = None) -> None:
        self.steps: list[Any] = []
        self.decision = decision

    def take_over(self, place: Any, query: str, run: str) -> Decision | None:
        self.steps.append("take over")
        return self.decision

    def sweep(self, place: Any, query: str, run: str) -> None:
        self.steps.append("sweep")

    def commit(self, place: Any, batch: int, reports: Sequence[TaskReport]) -> Decision | None:
        self.steps.append(("commit", batch, [each.was_decided for each in reports]))
        return self.decision

    def abort_run(self, place: Any, query: str, run: str) -> None:
        self.steps.append("abort")


class Application:
    """What Spark calls, batch after batch, with plans of these tasks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, driver: Driver, *, is_within: bool) -> None:
        self.driver, self.asked = driver, list[list[str]]()
        self.error: Exception | None = None
        self._plans: list[PlannedBatch] = []
        monkeypatch.setattr(batch_commits, "driver", driver)
        monkeypatch.setattr(batch_commits, "_planned_batch", lambda planned: self._plans.pop())
        staging = Staging(LEVELS, self.left if is_within else None)
        self.commits = BatchCommits(None, self.compute, staging)  # type: ignore[arg-type]  # it is handed on

    def left(self) -> Remains:
        self.driver.steps.append("look")
        return Remains({PLACE: 0}, {PLACE: 7})

    def compute(self, stages: Any, is_wanted: Any) -> list[TaskReport]:
        reports: list[TaskReport] = []
        for stage in range(stages.stages):
            found = stages.tasks(stage, reports)
            self.asked.append([each.planned.name for each in found])
            reports += [TaskReport(*each.spark) for each in found]
        if self.error is not None:
            raise self.error
        return reports

    def batch(self, number: int, *tasks: str) -> list[Any]:
        """Return the steps of a batch."""
        self.driver.steps, self.asked = [], []
        works = tuple(Work(PlannedTask(name, 0, (), 0, ()), {}) for name in tasks)
        self._plans.append(PlannedBatch(5, (), works))
        context = SimpleNamespace(getLocalProperty=lambda name: name)
        self.commits(SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context)), number)  # type: ignore[arg-type]
        return self.driver.steps


def test_a_driver_takes_over_before_the_tasks_of_a_batch_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, Driver(), is_within=False)

    assert application.batch(3, "0_0") == ["take over", ("commit", 3, [False])]
    assert application.asked == [["0_0"]]
    assert application.batch(4) == [], "nothing is to be done"


def test_a_run_that_reads_within_the_batch_begins_with_what_was_left_whatever_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application = Application(monkeypatch, Driver(), is_within=True)

    assert application.batch(3) == ["take over", "look", "sweep", ("commit", 3, [False])]
    assert application.asked == [[], ["1_0"]]
    assert application.batch(4, "0_0") == ["take over", ("commit", 4, [False])]
    assert application.asked == [["0_0"], []], "what was left is read"


@pytest.mark.parametrize("is_within", [True, False])
def test_a_batch_that_was_decided_is_finished_though_nothing_is_planned(
    monkeypatch: pytest.MonkeyPatch, is_within: bool
) -> None:
    """It may have had nothing but what was left in repartition topics."""
    application = Application(monkeypatch, Driver(Decision(3, "another")), is_within=is_within)

    assert application.batch(3) == ["take over", ("commit", 3, [True])]
    assert application.asked == []
    steps = application.batch(4, "0_0")
    assert steps == ["take over", *(["look", "sweep"] if is_within else []), ("commit", 4, [False] * (1 + is_within))]


def test_what_was_left_counts_as_left_until_a_batch_has_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    application = Application(monkeypatch, Driver(), is_within=True)
    application.error = ValueError("no number")

    with pytest.raises(BatchFailedError):
        application.batch(3, "0_0")
    assert application.driver.steps == ["take over", "look", "sweep", "abort"]
    application.error = None

    assert application.batch(3, "0_0") == ["take over", ("commit", 3, [False, False])]
    assert application.asked == [["0_0"], ["1_0"]]


def test_a_run_that_finds_nothing_to_do_knows_where_the_one_before_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    note = json.dumps({"positions": {PLACE.topic: {"0": 7}}})
    driver = Driver(Decision(2, "before", COMPLETE, states=(TaskState("1_0", note, {}),)))
    application = Application(monkeypatch, driver, is_within=True)

    application.batch(3)

    assert application.asked == [[], []], "it has read all"
    assert application.commits.standing == ({PLACE: 7}, 2, LEVELS.inner)


def test_what_was_left_is_read_by_the_next_batch_where_the_first_one_was_decided_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run before has written it without the option, and no input may come for long."""
    note = json.dumps({"positions": {PLACE.topic: {"0": 3}}})
    driver = Driver(Decision(3, "before", COMPLETE, states=(TaskState("1_0", note, {}),)))
    application = Application(monkeypatch, driver, is_within=True)

    application.batch(3, "0_0")
    assert (application.asked, application.commits.standing.whole) == ([], {*()}), "what was left counts as not read"

    application.batch(4)
    assert (application.asked, application.commits.standing.whole) == ([[], ["1_0"]], LEVELS.inner)

    assert application.batch(5) == [], "from then on a batch has input"


def test_it_tells_up_to_where_tasks_have_read_and_when_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    note = json.dumps({"positions": {PLACE.topic: {"0": 7}}})
    application = Application(monkeypatch, Driver(), is_within=True)
    turns: list[int] = []
    compute = application.compute

    def computing(*given: Any) -> list[TaskReport]:
        turns.append(application.commits.standing.turns)
        application.driver.decision = Decision(3, "r", COMPLETE, states=(TaskState("1_0", note, {}),))
        return compute(*given)

    application.commits._run = computing
    application.batch(3, "0_0")

    assert [turn % 2 for turn in turns] == [1]
    assert application.commits.standing == ({PLACE: 7}, 2, LEVELS.inner)
