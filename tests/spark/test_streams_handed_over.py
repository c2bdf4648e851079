"""An application goes from Kafka Streams in Java to ours and back: names, bytes and committed offsets fit.

Java's side is that of `benchmarks.race_streams`, which counts by key in windows, or behind a repartition topic; ours
are the same topologies.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, Producer
from barnabas.streams import Grouped, KafkaStreams, Serdes, StreamsBuilder, TimeWindows, Topology
from barnabas.streams.spark.batch_commits import BatchCommits
from tests.peers import apache_kafka
from tests.spark.test_streams_within_batch import pausing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JAVA = Path(__file__).parents[2] / "benchmarks" / "java" / "RaceStreams.java"
KEYS, EACH, PARTITIONS = 20, 100, 2
LONGEST = 240.0


WITHIN, WITHOUT = {"repartition.within.batch": True}, {"repartition.within.batch": False}


def counting_in_windows(source: str, target: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, key=Serdes.string(), value=Serdes.string()).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000)).count()
    counts.to_stream(lambda window, count: window.key).to(target, key=Serdes.string(), value=Serdes.long())
    return builder.build()


def counting_groups(source: str, target: str) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    grouped = builder.stream(source, key=text, value=text).group_by(lambda key, value: key, Grouped.with_(text, text))
    grouped.count().to_stream().to(target, key=text, value=Serdes.long())
    return builder.build()


#: What counts, by the name that Java's side has for it.
JOBS = {"windows": counting_in_windows, "group": counting_groups}


@contextlib.contextmanager
def javas(servers: str, job: str, source: str, target: str, id: str, folder: Path) -> Iterator[None]:
    jars = f"{apache_kafka.streams_classpath()}:{apache_kafka.classpath()}"
    command = ["java", "-Xmx512m", "-cp", jars, str(JAVA), servers, job, source, target, id, str(folder / "java")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    shutil.rmtree(folder / "java")  # another machine: its state comes from the changelog


def committed(servers: str, topic: str) -> list[Any]:
    wanted = [(topic, number) for number in range(PARTITIONS)]
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign(wanted)
        ends, found = consumer.end_offsets(wanted), []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += consumer.poll(timeout=0.5)
        return found


def internal(servers: str, id: str, kind: str) -> list[str]:
    with AdminClient(bootstrap_servers=servers) as admin:
        return [topic for topic in admin.list_topics() if topic.startswith(id) and topic.endswith(f"-{kind}")]


def await_all(servers: str, source: str, target: str, id: str, total: int) -> None:
    """Wait until there are so many counts, and the group has committed all there is, markers too."""
    deadline = time.monotonic() + LONGEST
    with AdminClient(bootstrap_servers=servers) as admin, Consumer(bootstrap_servers=servers) as consumer:
        while time.monotonic() < deadline:
            topics = source, *internal(servers, id, "repartition")
            wanted = [(topic, number) for topic in topics for number in range(PARTITIONS)]
            offsets, ends = admin.list_consumer_group_offsets(id, wanted), consumer.end_offsets(wanted)
            is_read = all(each in offsets and offsets[each].offset == end for each, end in ends.items())
            if is_read and len(committed(servers, target)) >= total:
                return
            time.sleep(0.5)
    found = {each: at.offset for each, at in offsets.items()}
    raise AssertionError(f"{len(committed(servers, target))} of {total} counts after {LONGEST} s; {found} of {ends}")


def send(servers: str, source: str, turn: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(KEYS * EACH):
            producer.send(source, b"1", key=b"%d" % (number % KEYS), timestamp_ms=1_000_000_000_000 + turn)


def ours(
    spark: SparkSession, servers: str, topology: Topology, id: str, folder: Path, turn: int, config: dict[str, Any]
) -> KafkaStreams:
    """Our application, on a checkpoint of its own in each turn."""
    given = {"application.id": id, "bootstrap.servers": servers, "statestore.cache.max.bytes": 0,
             "repartition.purge.interval.ms": 3_600_000, "state.dir": str(folder / "ours"), **config}  # fmt: skip
    return KafkaStreams(topology, given, spark=spark, checkpoint_location=str(folder / f"checkpoint-{turn}"))


def check_counts(servers: str, target: str, turns: int) -> None:
    counts: dict[bytes, list[int]] = {}
    for record in committed(servers, target):
        counts.setdefault(record.key, []).append(int.from_bytes(record.value, "big"))
    assert counts == {b"%d" % key: [*range(1, turns * EACH + 1)] for key in range(KEYS)}


@pytest.mark.parametrize(
    ("job", "config"), [("windows", {}), ("group", WITHIN), ("group", WITHOUT)], ids=["windows", "within", "without"]
)
def test_counts_go_on_from_java_to_ours_and_back(
    spark: SparkSession, servers: str, new_topic: Callable[[int], str], tmp_path: Path, job: str, config: dict[str, Any]
) -> None:
    if (why := apache_kafka.why_not()) is not None:
        pytest.skip(why)
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    id = f"handed-over-{source}"
    for turn in range(4):
        send(servers, source, turn)
        total = (turn + 1) * KEYS * EACH
        is_javas = turn % 2 == 0
        with (
            javas(servers, job, source, target, id, tmp_path)
            if is_javas
            else ours(spark, servers, JOBS[job](source, target), id, tmp_path, turn, config)
        ):
            await_all(servers, source, target, id, total)

    check_counts(servers, target, 4)
    assert len(internal(servers, id, "changelog")) == 1
    assert len(internal(servers, id, "repartition")) == (job == "group")
    if job == "group":
        check_changelog(servers, id, 4)


def check_changelog(servers: str, id: str, turns: int) -> None:
    (changelog,) = internal(servers, id, "changelog")
    newest = {record.key: int.from_bytes(record.value, "big") for record in committed(servers, changelog)}
    assert newest == {b"%d" % key: turns * EACH for key in range(KEYS)}


def test_java_goes_on_where_ours_was_stopped_half_way(
    spark: SparkSession, servers: str, new_topic: Callable[[int], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a batch has written to a repartition topic, and the next one was to read, waits for Java."""
    if (why := apache_kafka.why_not()) is not None:
        pytest.skip(why)
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    id, topology = f"half-handed-over-{source}", counting_groups(source, target)
    send(servers, source, 0)
    with ours(spark, servers, topology, id, tmp_path, 0, WITHOUT):
        await_all(servers, source, target, id, KEYS * EACH)
    (between,) = internal(servers, id, "repartition")
    send(servers, source, 1)
    with monkeypatch.context() as patch:
        patch.setattr(BatchCommits, "_commit", pausing(BatchCommits._commit))
        with ours(spark, servers, topology, id, tmp_path, 0, WITHOUT):
            deadline = time.monotonic() + LONGEST
            while len(committed(servers, between)) < 2 * KEYS * EACH and time.monotonic() < deadline:
                time.sleep(0.2)
            time.sleep(1)  # the group gets what can be told of this
    assert len(committed(servers, target)) == KEYS * EACH

    with javas(servers, "group", source, target, id, tmp_path):
        await_all(servers, source, target, id, 2 * KEYS * EACH)

    check_counts(servers, target, 2)
    check_changelog(servers, id, 2)
