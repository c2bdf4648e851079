"""How Spark writes a query's logs where the checkpoint lies on a disk of its machine: without starting programs.

Spark's default renames each file of its two logs through Hadoop's FileContext, which starts `readlink` for it where
Hadoop has no native library, and PySpark brings none: 130 ms of a batch. Hadoop's older FileSystem calls rename(2).
Neither is atomic where two drivers write the same log, which is what the decision log is for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "spark.sql.streaming.checkpointFileManagerClass"
MANAGER = "FileSystemBasedCheckpointFileManager"


@contextlib.contextmanager
def without_programs(spark: SparkSession, checkpoint: str) -> Iterator[None]:
    """Have a query that is started here write its logs so, unless the session says otherwise.

    A query takes the setting up when it starts; other queries of the session are left as they are.
    """
    manager = _manager(spark, checkpoint) if spark.conf.get(SETTING, None) is None else None
    if manager is None:
        yield
        return
    spark.conf.set(SETTING, manager)
    try:
        yield
    finally:
        spark.conf.unset(SETTING)


def _manager(spark: SparkSession, checkpoint: str) -> str | None:
    jvm: Any = spark.sparkContext._jvm
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    if jvm.org.apache.hadoop.fs.Path(checkpoint).getFileSystem(configuration).getScheme() != "file":
        return None
    streaming = jvm.org.apache.spark.sql.execution.streaming
    for package in (streaming.checkpointing, streaming):
        found = getattr(package, MANAGER)
        if hasattr(found, "_fqn"):
            return str(found._fqn)
    return None
