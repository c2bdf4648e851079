"""The format `"barnabas"`: what Spark asks of a data source, each answered by a class of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from barnabas.spark import schema as rows
from barnabas.spark.options import EXACTLY_ONCE, SinkOptions, SourceOptions, chosen_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class BarnabasDataSource(DataSource):
    """Reads from and writes to Kafka topics with the options and the schema of Spark's built-in `"kafka"` format."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "barnabas"

    def schema(self) -> str:
        """key, value, topic, partition, offset, timestamp, timestampType, headers with includeHeaders; or `columns`."""
        return rows.ddl(chosen_columns({name.lower(): str(value) for name, value in self.options.items()}))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch query's reader."""
        from barnabas.spark.batch_reader import KafkaBatchReader

        return KafkaBatchReader(self._source_options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a streaming query's reader."""
        from barnabas.spark.stream_reader import KafkaStreamReader

        options = self._source_options(schema, streaming=True)
        if options.co_partitions is not None:
            from barnabas.spark.co_partitioned_reader import CoPartitionedStreamReader

            return CoPartitionedStreamReader(options, options.co_partitions)
        if options.share_group is not None:
            from barnabas.spark.share_group_reader import ShareGroupStreamReader

            return ShareGroupStreamReader(options)
        return KafkaStreamReader(options)

    def _source_options(self, schema: StructType, *, streaming: bool) -> SourceOptions:
        options = SourceOptions(self.options, streaming=streaming)
        rows.check_fixed(schema, options.columns)
        return options

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch query's writer; topics are appended to, so `overwrite` is refused."""
        from barnabas.spark.errors import OptionError
        from barnabas.spark.sink import KafkaBatchWriter
        from barnabas.spark.sink_schema import check_schema

        if overwrite:
            raise OptionError("a topic cannot be overwritten, only appended to: use mode('append')")
        options = SinkOptions(self.options)
        check_schema(schema, options.topic, include_timestamp=options.include_timestamp)
        if options.guarantee == EXACTLY_ONCE:
            raise OptionError("guarantee=exactly-once is for streaming queries: a batch query has no batch to replay")
        return KafkaBatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return a streaming query's writer.

        `overwrite` (complete output mode) appends each batch anew, as the built-in.
        """
        from barnabas.spark.sink import KafkaStreamWriter
        from barnabas.spark.sink_schema import check_schema

        options = SinkOptions(self.options)
        check_schema(schema, options.topic, include_timestamp=options.include_timestamp)
        if options.guarantee == EXACTLY_ONCE:
            from barnabas.spark.exactly_once.stream_writer import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options)
        return KafkaStreamWriter(options)


class FilteringDataSource(BarnabasDataSource):
    """The same for a session in which `spark.sql.python.filterPushdown.enabled` is true."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch query's reader, which takes filters."""
        from barnabas.spark.batch_reader import FilteringBatchReader

        return FilteringBatchReader(self._source_options(schema, streaming=False))
