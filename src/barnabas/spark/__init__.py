"""The PySpark data source and sink: `register(spark)`, then `format("barnabas")`."""

from __future__ import annotations

from barnabas import _lazily

TYPE_CHECKING = False  # type checkers take it for typing's own

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.checkpoint import CheckpointError, starting_offsets
    from barnabas.spark.errors import DataLossError, OptionError, SinkSchemaError
    from barnabas.spark.foreach_batch import batch_writer
    from barnabas.spark.lag import LagListener, SourceLag, lags_of
    from barnabas.spark.values.decoding import dead_letters, decode_avro, decode_json, decode_protobuf, decoded_rows
    from barnabas.spark.watermarks import WatermarkStrategy, for_bounded_out_of_orderness, for_monotonous_timestamps

__all__ = [
    "CheckpointError",
    "DataLossError",
    "LagListener",
    "OptionError",
    "SinkSchemaError",
    "SourceLag",
    "WatermarkStrategy",
    "batch_writer",
    "dead_letters",
    "decode_avro",
    "decode_json",
    "decode_protobuf",
    "decoded_rows",
    "for_bounded_out_of_orderness",
    "for_monotonous_timestamps",
    "lags_of",
    "register",
    "starting_offsets",
]

_HOMES = {
    "barnabas.spark.checkpoint": "CheckpointError starting_offsets",
    "barnabas.spark.values.decoding": "dead_letters decode_avro decode_json decode_protobuf decoded_rows",
    "barnabas.spark.errors": "DataLossError OptionError SinkSchemaError",
    "barnabas.spark.foreach_batch": "batch_writer",
    "barnabas.spark.lag": "LagListener SourceLag lags_of",
    "barnabas.spark.watermarks": "WatermarkStrategy for_bounded_out_of_orderness for_monotonous_timestamps",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of this module's
    __getattr__, __dir__ = _lazily(__name__, _HOMES)


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
