"""The driver's part of a batch: has its tasks computed, and decides on what they report."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once.commit_protocol import TaskReport, take_steps
from barnabas.spark.exactly_once.decision import COMPLETE, DECIDED
from barnabas.spark.exactly_once.task_identity import QUERY, RUN
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark import run_protocol
from barnabas.streams.spark.batch_stages import BatchOfRun, PlannedBatch, Remains, StagedBatch
from barnabas.streams.spark.data_source import PLANNED
from barnabas.streams.spark.group_offsets import Standing
from barnabas.streams.spark.read_positions import positions_of
from barnabas.streams.spark.repartition_levels import Levels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.spark.exactly_once.decision import Decision, TaskState
    from barnabas.spark.exactly_once.driver_steps import SinkPlace

LOGGER = logging.getLogger("barnabas.streams")

_NOTHING_PLANNED = pickle.dumps(PlannedBatch())

#: Seconds after which a batch that waits looks whether it is still wanted.
_LOOK = 0.2

#: Has tasks compute a batch as long as it is wanted: `TaskDispatcher.run`.
Running = Callable[[StagedBatch, Callable[[], bool]], list[TaskReport]]


class Staging(NamedTuple):
    """How the tasks of a batch follow one another; `left` tells what a run finds in repartition topics.

    Without `left` these are not read within the batch.
    """

    levels: Levels
    left: Callable[[], Remains] | None = None


class BatchFailedError(StreamsError):
    """A batch was not committed. Spark gets this in place of the error itself, of whose length it may die."""


class BatchCommits:
    """What a query gives each of its batches to (`foreachBatch`); Spark calls it in this process, in its own thread.

    `error` is what the last batch failed with, `is_wanted` says whether the query still runs. As long as `goes_on` is
    not set the next batch waits.
    """

    def __init__(
        self, place: SinkPlace, run: Running, staging: Staging,
        committed: Callable[[float, float], None] = lambda took, commit: None,
    ) -> None:  # fmt: skip
        """Tell `committed` how many seconds a batch took, and its commit among that."""
        self._place = place
        self._run = run
        self._staging = staging
        self._steps = run_protocol.Run(staging.levels, is_within=staging.left is not None)
        self.standing = Standing({}, 0, frozenset())
        self._committed = committed
        self.error: Exception | None = None
        self.is_wanted: Callable[[], bool] = lambda: True
        #: By task, the state after the last batch that was committed here.
        self.decided: dict[str, TaskState] = {}
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, planned: DataFrame, batch: int) -> None:
        """Have the tasks run and commit the batch."""
        try:
            self._wait()
            self._turn()
            self._commit(planned, batch)
            self._turn()
        except Exception as error:  # noqa: BLE001  it is told to whom it concerns by `error`
            self.error = error
            raise BatchFailedError(f"batch {batch} was not committed: {type(error).__name__}") from None

    def _wait(self) -> None:
        while not self.goes_on.wait(_LOOK):
            if not self.is_wanted():
                raise StreamsError("the query was stopped while the application was paused")

    def _turn(self) -> None:
        self.standing = self.standing._replace(turns=self.standing.turns + 1)

    def _commit(self, planned: DataFrame, batch: int) -> None:
        query, run = (str(planned.sparkSession.sparkContext.getLocalProperty(name)) for name in (QUERY, RUN))
        performer = _Batch(self._place, self._compute, self._staging.left)
        found = _planned_batch(planned)
        decision: Decision | None = take_steps(self._steps.batch(BatchOfRun(query, run, batch), found), performer)
        if decision is not None and decision.state in (DECIDED, COMPLETE):
            self.decided = decision.states_after()
            self.standing = self.standing._replace(read=positions_of(decision), whole=self._steps.whole)
        now = time.monotonic()
        self._committed(now - performer.began, now - performer.computed)

    def _compute(self, staged: StagedBatch) -> list[TaskReport]:
        reports = self._run(staged, self.is_wanted)
        staged.check(reports)
        return reports


class _Batch:
    """Takes the steps of one batch."""

    def __init__(
        self, place: SinkPlace, compute: Callable[[StagedBatch], list[TaskReport]], left: Callable[[], Remains] | None
    ) -> None:
        self._place, self._compute, self._left = place, compute, left
        self.began = self.computed = time.monotonic()

    def perform(self, step: Any) -> Any:
        """See `StepPerformer`."""
        if isinstance(step, run_protocol.TakeOver):
            return driver.take_over(self._place, step.of.query, step.of.run)
        if isinstance(step, run_protocol.Compute):
            return self._computed(step.staged)
        if isinstance(step, run_protocol.Commit):
            return driver.commit(self._place, step.batch, step.reports)
        if isinstance(step, run_protocol.Sweep):
            return driver.sweep(self._place, step.of.query, step.of.run)
        assert self._left is not None, "they are read within the batch"
        return self._left()

    def _computed(self, staged: StagedBatch) -> tuple[TaskReport, ...]:
        try:
            return tuple(self._compute(staged))
        except Exception:
            driver.abort_run(self._place, staged.of.query, staged.of.run)
            raise
        finally:
            self.computed = time.monotonic()


def _planned_batch(planned: DataFrame) -> PlannedBatch:
    """Return what the source has planned for this batch.

    Spark has asked the source already and holds the answer. Where that cannot be reached (it is no public interface of
    Spark's) Spark reads it as rows: the same, for the price of a job.
    """
    data = _held_by_spark(planned)
    if data is None:
        LOGGER.debug("the plan of a batch is read by a job of Spark's")
        rows = planned.collect()
        data = bytes(rows[0][PLANNED]) if rows else _NOTHING_PLANNED
    found: PlannedBatch = pickle.loads(data)  # noqa: S301  of our source
    return found


def _held_by_spark(planned: DataFrame) -> bytes | None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        logical: Any = planned._jdf.queryExecution().logical()
        partitions = logical.rdd().partitions()
        if not len(partitions):
            return _NOTHING_PLANNED
        if len(partitions) != 1:
            return None
        partition = pickle.loads(bytes(partitions[0].inputPartition().get().pickedPartition()))  # noqa: S301  of ours
        return bytes(partition.value)
    except (Py4JError, TypeError, AttributeError):
        return None
