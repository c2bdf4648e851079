"""Update mode: Spark offers it to no Python sink, but to `foreachBatch`, for which this writes the batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.spark.errors import OptionError
from barnabas.spark.options import EXACTLY_ONCE, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def batch_writer(options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """Return a function for `writeStream.outputMode("update").foreachBatch(...)` that writes each batch to topics.

    `options` are the sink's. At least once: after a failure Spark calls it again for the same batch, and all of its
    rows are written again, behind those of them that were written before. So the last record of a key is always of the
    newest batch that was begun; a reader that keeps the last record for each key, or a compacted topic, ends with the
    same contents however often a batch was repeated, provided the rows have keys. Raises OptionError, at once.
    """
    settled = dict(options)
    if SinkOptions(settled).guarantee == EXACTLY_ONCE:
        raise OptionError(
            "foreachBatch writes at least once; guarantee=exactly-once is for writeStream.format('barnabas'), whose "
            "output mode is append"
        )

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format("barnabas").mode("append").options(**settled).save()

    return write
