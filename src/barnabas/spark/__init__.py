"""The PySpark data source and sink: `register(spark)`, then `format("barnabas")`.

Rule 1. **The driver fixes offset ranges, tasks emit exactly their range.** The driver asks the cluster through one
`AdminClient` (`offset_reader`); tasks read through consumers cached in the reused Python workers. Caches only save
time: any task can run in any worker.

Rule 2. **What runs in a task imports little, and never pandas**: every new Python worker pays for it (`fetch_loop`).

Rule 3. **Flink's rules at the hand-over**: `KafkaConsumerThread` polls, the one-slot `Handover` passes bytes,
`KafkaFetcher` decodes while the next poll runs. `tests/support/interleaving.py` drives them deterministically.

Rule 4. **Options, schema and errors are the built-in connector's**, held against it by
tests/spark/test_like_the_built_in_connector.py: an option added to the source is added to its random options too. In
`options` each is refused, without effect, or read, and no error shows a secret.

Rule 5. **`barnabas.streams` asks for more**: `coPartitions` makes one task of partition p of
several topics and puts the time into the offsets (`co_partitions`, `co_partitioned_reader`, `co_partitioned_rows`).
Its tasks write through `exactly_once.task_writer` themselves, and leave a note on their state (`task_notes`).

The source: `data_source` → `stream_reader`, `batch_reader` (driver) → `ranges`, `input_partitions` → `fetch_loop`
(task); `offset_limit` reads where to begin and end (`offsets`: the JSON), `offset_reader` holds that against the
partitions. `values/` makes columns of values (JSON, Avro, Protobuf, a registry). `checkpoint` reads a query's
checkpoint without Spark, for `barnabas spark lag` and migrations. The sink: `sink` → `row_writer`, Arrow batches to a
producer; `exactly_once/` is `guarantee=exactly-once`: read docs/guide/exactly-once.md before changing a step.
"""

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
    """Warn of a local Spark whose workers run another Python, which will not find barnabas."""
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
