"""Spark's built-in Kafka connector, as a peer for tests and benchmarks: its jars, fetched through Maven once.

`why_not()` says what is missing; `jars()` is the value for `spark.jars`.
"""

from __future__ import annotations

from tests.peers.maven import Jars

VERSION = "4.2.0"
JARS = Jars(
    f"spark-kafka-{VERSION}",
    (
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
        ("org.apache.commons", "commons-pool2", "2.12.1"),
        ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ),
    alone=True,  # Spark has the rest
)


def why_not() -> str | None:
    """Why the connector cannot be had here; None when it can."""
    return JARS.why_not()


def jars() -> str:
    """The jars, comma-separated; fetches them on the first call."""
    return ",".join(sorted(str(path) for path in JARS.fetch().glob("*.jar")))
