"""The PySpark data source and sink: `register(spark)`, then `format("barnabas")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format `"barnabas"` known to a Spark session.

    Its options and its schema are those of Spark's built-in `"kafka"` format. Driver and executors need
    `pip install 'barnabas[spark]'`; no jar is involved. Filters of batch queries are pushed down when
    `spark.sql.python.filterPushdown.enabled` is true at this moment; call it again after changing that.
    Raises ImportError when PySpark is older than 4.2.
    """
    from barnabas.spark.data_source import BarnabasDataSource, FilteringDataSource

    _warn_of_another_python(spark)
    takes_filters = str(spark.conf.get("spark.sql.python.filterPushdown.enabled", "false")).lower() == "true"
    spark.dataSource.register(FilteringDataSource if takes_filters else BarnabasDataSource)


def _warn_of_another_python(spark: SparkSession) -> None:
    """A local Spark that runs its workers with another Python than this one will not find barnabas there."""
    import shutil
    import sys
    import warnings

    if spark.__class__.__module__.startswith("pyspark.sql.connect"):
        return  # the workers are the server's
    context = spark.sparkContext
    worker = shutil.which(context.pythonExec)
    if (context.master or "").startswith("local") and worker != sys.executable:
        warnings.warn(
            f"Spark runs its Python workers with {worker or context.pythonExec}, this is {sys.executable}: if they "
            "cannot import barnabas, set the environment variable PYSPARK_PYTHON to the latter before Spark starts",
            stacklevel=3,
        )
