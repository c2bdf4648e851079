"""What Spark tells a task of its query."""

from __future__ import annotations

from pyspark import TaskContext

from barnabas.spark.exactly_once.commit_protocol import Task
from barnabas.spark.exactly_once.decision import DecisionError

# The id that a checkpoint keeps, the run (a job group of its own), the batch.
QUERY, RUN, BATCH = "sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"


def current_task() -> Task:
    """Return which task of which batch this is. Raises DecisionError outside of a streaming query."""
    context = TaskContext.get()
    found = {name: None if context is None else context.getLocalProperty(name) for name in (QUERY, RUN, BATCH)}
    missing = [name for name, value in found.items() if value is None]
    if context is None or missing:
        raise DecisionError(
            f"Spark did not tell this task its {', '.join(missing)}; guarantee=exactly-once is for writeStream with "
            "PySpark 4.2 and later"
        )
    query, run, batch = found.values()
    return Task(str(query), str(run), int(str(batch)), context.partitionId())
