"""The PySpark data source and sink: `register(spark)`, then `format("barnabas")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format `"barnabas"` known to a Spark session.

    Its options and its schema are those of Spark's built-in `"kafka"` format. Driver and executors need
    `pip install 'barnabas[spark]'`; no jar is involved. Raises ImportError when PySpark is older than 4.2.
    """
    from barnabas.spark.data_source import BarnabasDataSource

    spark.dataSource.register(BarnabasDataSource)
