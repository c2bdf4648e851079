"""The driver's part of a batch: has Spark run its tasks, and decides on what they report."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.task_identity import QUERY, RUN
from barnabas.streams.errors import StreamsError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.spark.exactly_once.driver_steps import SinkPlace


class BatchFailedError(StreamsError):
    """A batch was not committed. Spark gets this in place of the error itself, of whose length it may die."""


class BatchCommits:
    """What a query gives each of its batches to (`foreachBatch`); Spark calls it in this process, in its own thread.

    `error` is what the last batch failed with.
    """

    def __init__(self, place: SinkPlace) -> None:
        self._place = place
        self.error: Exception | None = None

    def __call__(self, reports: DataFrame, batch: int) -> None:
        """Run the tasks and commit the batch."""
        try:
            self._commit(reports, batch)
        except Exception as error:  # noqa: BLE001  it is told to whom it concerns by `error`
            self.error = error
            raise BatchFailedError(f"batch {batch} was not committed: {type(error).__name__}") from None

    def _commit(self, frame: DataFrame, batch: int) -> None:
        try:
            reports: list[TaskReport] = [pickle.loads(row[0]) for row in frame.collect()]  # noqa: S301  of ours
        except Exception:
            query, run = (frame.sparkSession.sparkContext.getLocalProperty(name) for name in (QUERY, RUN))
            driver.abort_run(self._place, str(query), str(run))
            raise
        driver.commit(self._place, batch, reports)
