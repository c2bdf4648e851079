"""Differential: for random topics and options, `format("kafka")` and `format("barnabas")` give the same rows.

The long form (`-m slow`) has more seeds and runs on Apache Kafka too.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH_MS = 1_370_000_000_000
#: Where two tasks of the built-in connector get one consumer of its cache, Kafka's client refuses the second.
_SHARED_CONSUMER = "ClassicKafkaConsumer.acquire"
SHORT, LONG = range(4), range(4, 44)
slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in LONG]


@pytest.fixture(autouse=True)
def _built_in(spark: SparkSession) -> None:
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's built-in connector is missing (Maven fetches it)")


class RandomTopics:
    """One or two topics of random records, in transactions or not, and random options that read them."""

    def __init__(self, seed: int, servers: str) -> None:
        self.random = random.Random(seed)
        self.servers = servers
        self.names = {f"like-{seed}-{part}-{servers[-5:]}": self.random.randint(1, 3) for part in "ab"}
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, num_partitions=count) for name, count in self.names.items()])
        for name in self.names:
            self._fill(name)
        self.ends = self._settled_ends()

    def _fill(self, name: str) -> None:
        draw = self.random
        settings: dict[str, Any] = {"bootstrap_servers": self.servers, "linger_ms": 2}
        settings["compression_type"] = draw.choice(["none", "gzip", "lz4", "snappy", "zstd"])
        with Producer(**settings, batch_size=draw.choice([200, 16384])) as producer:
            for _ in range(draw.randint(0, 60)):
                self._send(producer, name)
        with Producer(**settings, transactional_id=f"t-{name}") as producer:
            producer.init_transactions()
            for _ in range(draw.randint(0, 3)):
                producer.begin_transaction()
                for _ in range(draw.randint(0, 10)):  # none: a transaction may hold nothing
                    self._send(producer, name)
                producer.flush()
                draw.choice([producer.commit_transaction, producer.abort_transaction])()

    def _send(self, producer: Producer, name: str) -> None:
        draw = self.random
        producer.send(
            name,
            draw.choice([None, b"", draw.randbytes(draw.randint(1, 200))]),
            key=draw.choice([None, b"", b"key-%d" % draw.randint(0, 5)]),
            headers=[(draw.choice(["h", "", "ä"]), draw.choice([None, b"", b"1"])) for _ in range(draw.randint(0, 2))],
            partition=draw.randrange(self.names[name]),
            timestamp_ms=EPOCH_MS + draw.randint(-5000, 5000),
        )

    def _settled_ends(self) -> dict[TopicPartition, int]:
        """Where the partitions end once every transaction has its markers, which are written after the answer."""
        partitions = [TopicPartition(name, part) for name, count in self.names.items() for part in range(count)]
        with (
            Consumer(bootstrap_servers=self.servers) as every,
            Consumer(bootstrap_servers=self.servers, isolation_level="read_committed") as committed,
        ):
            while (ends := every.end_offsets(partitions)) != committed.end_offsets(partitions):
                time.sleep(0.01)
        return ends

    def options(self, *, streaming: bool) -> dict[str, str]:
        """Which partitions, from where to where, and how."""
        draw = self.random
        found = {"kafka.bootstrap.servers": self.servers, **self._strategy()}
        found.update(self._limit("starting", draw.choice(["nothing", "named", "offsets", "time", "times"])))
        if not streaming:
            found.update(self._limit("ending", draw.choice(["nothing", "offsets", "time", "times"])))
            if self._ends_beyond(found):
                found["kafkaConsumer.pollTimeoutMs"] = "3000"  # both wait for so long before they refuse
        more = {
            "includeHeaders": draw.choice(["true", "false"]),
            "minPartitions": str(draw.randint(1, 9)),
            "kafka.isolation.level": draw.choice(["read_committed", "read_uncommitted"]),
            "startingOffsetsByTimestampStrategy": draw.choice(["latest", "latest", "error"]),
            "failOnDataLoss": draw.choice(["true", "false"]),
            "maxRecordsPerPartition": str(draw.randint(1, 50)),
        }
        found.update((name, value) for name, value in more.items() if draw.random() < 0.6)
        if streaming:
            found["maxOffsetsPerTrigger"] = str(draw.randint(10, 60))
        return found

    def _ends_beyond(self, options: dict[str, str]) -> bool:
        ending = json.loads(options.get("endingOffsets", "{}"))
        return any(end > self.ends[name, int(part)] for name, parts in ending.items() for part, end in parts.items())

    def _strategy(self) -> dict[str, str]:
        names = list(self.names)
        whole = {name: list(range(count)) for name, count in self.names.items()}
        self.chosen = whole
        kind = self.random.choice(["subscribe", "subscribePattern", "assign"])
        if kind == "assign":
            self.chosen = {name: self.random.sample(parts, max(1, len(parts) - 1)) for name, parts in whole.items()}
            return {kind: json.dumps(self.chosen)}
        return {kind: ",".join(names) if kind == "subscribe" else names[0].replace("-a-", "-[ab]-")[1:]}

    def _limit(self, side: str, kind: str) -> dict[str, str]:
        draw = self.random
        if kind == "named":
            return {f"{side}Offsets": "earliest"}
        if kind == "offsets":
            named, low, high = (-1, 15, 30) if side == "ending" else (-2, 0, 12)
            return {f"{side}Offsets": self._each(lambda: draw.choice([named, draw.randint(low, high)]))}
        if kind == "time":
            return {f"{side}Timestamp": str(EPOCH_MS + draw.randint(-6000, 4000))}
        if kind == "times":
            return {f"{side}OffsetsByTimestamp": self._each(lambda: EPOCH_MS + draw.randint(-6000, 4000))}
        return {}

    def _each(self, pick: Any) -> str:
        return json.dumps({name: {str(part): pick() for part in parts} for name, parts in self.chosen.items()})


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All columns, times as microseconds, in the order of topic, partition and offset."""
    found = frame.withColumn("timestamp", frame.timestamp.cast("double")).collect()
    return sorted((tuple(row) for row in found), key=lambda row: (row[2], row[3], row[4]))


def outcome_of_batch(spark: SparkSession, format_name: str, options: dict[str, str]) -> Any:
    """The rows, or that the query is refused."""
    try:
        frame = spark.read.format(format_name).options(**options).load()
        return frame.dtypes, rows_of(frame)
    except _refusals() as error:
        return Refused(str(error))


def _refusals() -> tuple[type[Exception], ...]:
    """What Spark raises for a query that fails; nothing else may pass for a refusal."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return (Py4JJavaError, PySparkException)


class Refused:
    """A query that failed; all are equal."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refused)

    def __repr__(self) -> str:
        return f"Refused({self.why[:600]})"


def outcome_of_stream(spark: SparkSession, format_name: str, options: dict[str, str], folder: Path) -> Any:
    """The rows, and where each micro-batch ended."""
    try:
        stream = spark.readStream.format(format_name).options(**options).load()
        writer = stream.writeStream.format("parquet").option("path", str(folder / "rows"))
        query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(100)
    except _refusals() as error:
        return Refused(str(error))
    ends = [json.loads(progress["sources"][0]["endOffset"]) for progress in query.recentProgress]
    frame = spark.read.schema(stream.schema).parquet(str(folder / "rows"))
    return stream.dtypes, rows_of(frame), ends


@pytest.mark.parametrize("seed", [*SHORT, *slow])
def test_a_batch_query_gives_the_built_in_connectors_rows(spark: SparkSession, servers: str, seed: int) -> None:
    topics = RandomTopics(seed, servers)
    for _ in range(3):
        options = topics.options(streaming=False)

        expected = outcome_of_batch(spark, "kafka", options)
        if isinstance(expected, Refused) and _SHARED_CONSUMER in expected.why:
            expected = outcome_of_batch(spark, "kafka", options)
        found = outcome_of_batch(spark, "barnabas", options)

        assert found == expected, options


def test_min_partitions_makes_as_many_tasks_as_the_built_in_connectors(spark: SparkSession, servers: str) -> None:
    name = f"tasks-{servers[-5:]}"
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, num_partitions=4)])
    with Producer(bootstrap_servers=servers) as producer:
        for partition, size in enumerate((1, 3, 100, 37)):
            for _ in range(size):
                producer.send(name, b"", partition=partition)

    def tasks(format_name: str, wanted: int) -> int:
        given = {"kafka.bootstrap.servers": servers, "subscribe": name, "minPartitions": str(wanted)}
        return spark.read.format(format_name).options(**given).load().rdd.getNumPartitions()

    counts = range(3, 24, 4)
    assert [tasks("barnabas", wanted) for wanted in counts] == [tasks("kafka", wanted) for wanted in counts]


@pytest.mark.parametrize("seed", [100, *(pytest.param(100 + seed, marks=pytest.mark.slow) for seed in range(1, 13))])
def test_a_stream_gives_the_built_in_connectors_rows_in_the_same_micro_batches(
    spark: SparkSession, servers: str, tmp_path: Path, seed: int
) -> None:
    options = {"startingOffsets": "earliest", **RandomTopics(seed, servers).options(streaming=True)}

    expected = outcome_of_stream(spark, "kafka", options, tmp_path / "kafka")
    found = outcome_of_stream(spark, "barnabas", options, tmp_path / "barnabas")

    assert found == expected, options
