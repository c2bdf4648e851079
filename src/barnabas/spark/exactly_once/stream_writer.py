"""Spark's view of the exactly-once sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.spark.exactly_once import driver_steps as driver
from barnabas.spark.exactly_once import task_writer
from barnabas.spark.exactly_once.commit_protocol import TaskReport
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.spark.exactly_once.task_identity import current_task
from barnabas.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Report(WriterCommitMessage):
    """What a task tells the driver, in Spark's envelope."""

    def __init__(self, content: TaskReport) -> None:
        self.content = content


class ExactlyOnceStreamWriter(DataSourceStreamArrowWriter):
    """Writes every micro-batch once for readers of committed records."""

    def __init__(self, options: SinkOptions) -> None:
        """Keep what can be pickled to the tasks; another writer is made in the process that commits."""
        self.rows = task_writer.RowSettings(options.topic, options.include_timestamp)
        self.place = SinkPlace(
            tuple(sorted(options.client.items())), options.decision_topic, options.transactional_id_prefix
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a task's rows in a transaction that stays open; runs in an executor."""
        return Report(task_writer.write(self.place, current_task(), iterator, self.rows))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Decide which transactions are the batch, and commit them; runs in the driver."""
        reports = [report for report in _contents(messages) if report is not None]
        driver.commit(self.place, batchId, reports)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Abort what the tasks that did report have written; runs in the driver."""
        driver.abort(self.place, _contents(messages))


def _contents(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport | None]:
    return [None if message is None else cast("Report", message).content for message in messages]
