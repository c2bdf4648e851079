"""What runs between source and sink: a function for `mapInArrow`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.spark.exactly_once.task_identity import current_task
from barnabas.spark.offsets import CLOCK
from barnabas.streams.errors import StreamsError
from barnabas.streams.spark.application import Application
from barnabas.streams.spark.task_home import Request

if TYPE_CHECKING:
    import pyarrow as pa


class TaskRunner:
    """Runs a task of the topology in a task of Spark."""

    def __init__(self, application: Application) -> None:
        """Pickle the application here, once: lambdas go by value."""
        from pyspark import cloudpickle

        self._application: bytes = cloudpickle.dumps(application)  # type: ignore[no-untyped-call]
        self._id = application.id

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows for the sink. The first row tells which task it is."""
        from barnabas.streams.spark import task_server

        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        if first.column("topic")[0].as_py() != CLOCK:
            raise StreamsError("the rows of a task must begin with the one that tells of it (coPartitions)")
        spark, planned = current_task(), first.column("value")[0].as_py().decode()
        name = f"{self._id}/{spark.query}/{json.loads(planned)['task']}"
        yield from task_server.run(self._application, name, Request(spark, planned), _with(first.slice(1), batches))


def _with(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first.num_rows:
        yield first
    yield from others
