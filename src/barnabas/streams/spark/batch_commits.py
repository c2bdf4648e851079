"""The driver's part of a batch: has its tasks computed, and decides on what they report."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once.commit_protocol import Task, TaskReport
from barnabas.spark.exactly_once.task_identity import QUERY, RUN
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.data_source import PLANNED, TasksOfBatch
from barnabas.streams.spark.task_manager import Request

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.spark.exactly_once.decision import TaskState
    from barnabas.spark.exactly_once.driver_steps import SinkPlace

LOGGER = logging.getLogger("barnabas.streams")

#: Seconds after which a batch that waits looks whether it is still wanted.
_LOOK = 0.2

#: Has tasks compute a batch as long as it is wanted: `TaskDispatcher.run`.
Running = Callable[[Sequence[Request], Callable[[], bool]], list[TaskReport]]


class BatchFailedError(StreamsError):
    """A batch was not committed. Spark gets this in place of the error itself, of whose length it may die."""


class BatchCommits:
    """What a query gives each of its batches to (`foreachBatch`); Spark calls it in this process, in its own thread.

    `error` is what the last batch failed with, `is_wanted` says whether the query still runs. As long as `goes_on` is
    not set the next batch waits.
    """

    def __init__(
        self, place: SinkPlace, run: Running, committed: Callable[[float, float], None] = lambda took, commit: None
    ) -> None:
        """Tell `committed` how many seconds a batch took, and its commit among that."""
        self._place = place
        self._run = run
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
            self._commit(planned, batch)
        except Exception as error:  # noqa: BLE001  it is told to whom it concerns by `error`
            self.error = error
            raise BatchFailedError(f"batch {batch} was not committed: {type(error).__name__}") from None

    def _wait(self) -> None:
        while not self.goes_on.wait(_LOOK):
            if not self.is_wanted():
                raise StreamsError("the query was stopped while the application was paused")

    def _commit(self, planned: DataFrame, batch: int) -> None:
        began = time.monotonic()
        query, run = (str(planned.sparkSession.sparkContext.getLocalProperty(name)) for name in (QUERY, RUN))
        requests = [
            Request(Task(query, run, batch, number), each.task, each.topic_ids)
            for number, each in enumerate(_tasks_of(planned))
        ]
        if requests:
            driver.take_over(self._place, query, run)
        try:
            reports = self._run(requests, self.is_wanted)
        except Exception:
            driver.abort_run(self._place, query, run)
            raise
        computed = time.monotonic()
        decision = driver.commit(self._place, batch, reports)
        if decision is not None:
            self.decided = decision.states_after()
        now = time.monotonic()
        self._committed(now - began, now - computed)


def _tasks_of(planned: DataFrame) -> TasksOfBatch:
    """Return the tasks that the source has planned for this batch.

    Spark has asked the source already and holds the answer. Where that cannot be reached (it is no public interface of
    Spark's) Spark reads it as rows: the same, for the price of a job.
    """
    data = _held_by_spark(planned)
    if data is None:
        LOGGER.debug("the plan of a batch is read by a job of Spark's")
        rows = planned.collect()
        data = bytes(rows[0][PLANNED]) if rows else pickle.dumps([])
    found: TasksOfBatch = pickle.loads(data)  # noqa: S301  of our source
    return found


def _held_by_spark(planned: DataFrame) -> bytes | None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        logical: Any = planned._jdf.queryExecution().logical()
        partitions = logical.rdd().partitions()
        if not len(partitions):
            return pickle.dumps([])
        if len(partitions) != 1:
            return None
        partition = pickle.loads(bytes(partitions[0].inputPartition().get().pickedPartition()))  # noqa: S301  of ours
        return bytes(partition.value)
    except (Py4JError, TypeError, AttributeError):
        return None
