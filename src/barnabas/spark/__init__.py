"""The PySpark data source and sink: `register(spark)`, then `format("barnabas")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.checkpoint import starting_offsets as starting_offsets
    from barnabas.spark.errors import DataLossError as DataLossError
    from barnabas.spark.errors import OptionError as OptionError
    from barnabas.spark.errors import SinkSchemaError as SinkSchemaError
    from barnabas.spark.foreach_batch import batch_writer as batch_writer
    from barnabas.spark.lag import LagListener as LagListener
    from barnabas.spark.lag import SourceLag as SourceLag
    from barnabas.spark.values.decoding import dead_letters as dead_letters
    from barnabas.spark.values.decoding import decode_avro as decode_avro
    from barnabas.spark.values.decoding import decode_json as decode_json
    from barnabas.spark.values.decoding import decode_protobuf as decode_protobuf
    from barnabas.spark.values.decoding import decoded_rows as decoded_rows
    from barnabas.spark.watermarks import WatermarkStrategy as WatermarkStrategy
    from barnabas.spark.watermarks import for_bounded_out_of_orderness as for_bounded_out_of_orderness
    from barnabas.spark.watermarks import for_monotonous_timestamps as for_monotonous_timestamps

_HOMES = {
    "DataLossError": "barnabas.spark.errors",
    "LagListener": "barnabas.spark.lag",
    "OptionError": "barnabas.spark.errors",
    "SinkSchemaError": "barnabas.spark.errors",
    "SourceLag": "barnabas.spark.lag",
    "WatermarkStrategy": "barnabas.spark.watermarks",
    "batch_writer": "barnabas.spark.foreach_batch",
    "dead_letters": "barnabas.spark.values.decoding",
    "decode_avro": "barnabas.spark.values.decoding",
    "decode_json": "barnabas.spark.values.decoding",
    "decode_protobuf": "barnabas.spark.values.decoding",
    "decoded_rows": "barnabas.spark.values.decoding",
    "for_bounded_out_of_orderness": "barnabas.spark.watermarks",
    "for_monotonous_timestamps": "barnabas.spark.watermarks",
    "starting_offsets": "barnabas.spark.checkpoint",
}

__all__ = [
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
    "register",
    "starting_offsets",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'barnabas.spark' has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


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
