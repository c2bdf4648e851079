"""A user's program: copies a topic as a stream, reads the copy in a batch and prints what it holds, as JSON.

`python copy_topic.py SERVERS SOURCE TARGET CHECKPOINT [NAME=VALUE]...`; the last are settings of Spark.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Copy, read, print."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    import barnabas.spark

    servers, source, target, checkpoint, *settings = sys.argv[1:]
    builder = SparkSession.builder.appName("copy_topic")
    for setting in settings:
        name, _, value = setting.partition("=")
        builder = builder.remote(value) if name == "remote" else builder.config(name, value)
    spark = builder.getOrCreate()
    barnabas.spark.register(spark)
    options = {"kafka.bootstrap.servers": servers}
    stream = spark.readStream.format("barnabas").options(**options, subscribe=source, startingOffsets="earliest").load()
    writer = stream.select("key", "value").writeStream.format("barnabas").options(**options, topic=target)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.read.format("barnabas").options(**options, subscribe=target).load()
    values = sorted(bytes(row.value).decode() for row in rows.select("value").collect())
    places = spark.range(4).select(f.udf(lambda _: __import__("barnabas").__file__)("id")).collect()
    sys.stdout.write(json.dumps({"values": values, "executors": sorted({row[0] for row in places})}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
