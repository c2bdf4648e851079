"""A user's program: counts keys with KafkaStreams until the target has so many changes, then ends.

`python count_keys.py SERVERS SOURCE TARGET CHECKPOINT CHANGES [NAME=VALUE]...`; the last are settings of Spark.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

SECONDS = 250


def main() -> None:
    """Count until the target has all changes."""
    from pyspark.sql import SparkSession

    from barnabas import Consumer
    from barnabas.streams import KafkaStreams, StreamsBuilder

    servers, source, target, checkpoint, changes, *settings = sys.argv[1:]
    session = SparkSession.builder.appName("count_keys")
    for setting in settings:
        session = session.config(*setting.split("=", 1))
    spark = session.getOrCreate()
    builder = StreamsBuilder()
    builder.stream(source).group_by_key().count(store="counts").to_stream().map_values(str).to(target)
    configuration = {
        "bootstrap.servers": servers, "application.id": f"count-{source}", "statestore.cache.max.bytes": 0,
        "default.key.serde": "string", "default.value.serde": "string",
        "state.dir": str(Path(checkpoint).parent / "state"),
    }  # fmt: skip
    reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    deadline = time.monotonic() + SECONDS
    found = 0
    with (
        KafkaStreams(builder.build(), configuration, spark=spark, checkpoint_location=checkpoint) as streams,
        Consumer(bootstrap_servers=servers, **reading) as seen,
    ):
        seen.assign([(target, 0)])
        while found < int(changes) and time.monotonic() < deadline and streams.exception is None:
            found += len(seen.poll(0.5))
    spark.stop()
    sys.exit(0 if found == int(changes) else f"{found} of {changes} changes; {streams.exception}")


if __name__ == "__main__":
    main()
