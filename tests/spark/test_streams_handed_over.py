"""An application goes from Kafka Streams in Java to ours and back: names, bytes and committed offsets fit.

Java's side is that of `benchmarks.race_streams`, which counts by key in windows; ours is the same topology.
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
from barnabas.streams import KafkaStreams, Serdes, StreamsBuilder, TimeWindows, Topology
from tests.peers import apache_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JAVA = Path(__file__).parents[2] / "benchmarks" / "java" / "RaceStreams.java"
KEYS, EACH, PARTITIONS = 20, 100, 2
LONGEST = 240.0


def counting(source: str, target: str) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream(source, key=Serdes.string(), value=Serdes.string()).group_by_key()
    counts = grouped.windowed_by(TimeWindows.of_size_with_no_grace(60_000)).count()
    counts.to_stream(lambda window, count: window.key).to(target, key=Serdes.string(), value=Serdes.long())
    return builder.build()


@contextlib.contextmanager
def javas(servers: str, source: str, target: str, id: str, folder: Path) -> Iterator[None]:
    jars = f"{apache_kafka.streams_classpath()}:{apache_kafka.classpath()}"
    command = ["java", "-Xmx512m", "-cp", jars, str(JAVA), servers, "windows", source, target, id, str(folder / "java")]
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


def await_all(servers: str, source: str, target: str, id: str, total: int) -> None:
    """Wait until there are so many counts, and the group has committed all that was read."""
    wanted = [(source, number) for number in range(PARTITIONS)]
    deadline = time.monotonic() + LONGEST
    with AdminClient(bootstrap_servers=servers) as admin, Consumer(bootstrap_servers=servers) as consumer:
        ends = consumer.end_offsets(wanted)
        while time.monotonic() < deadline:
            offsets = admin.list_consumer_group_offsets(id, wanted)
            is_read = all(each in offsets and offsets[each].offset == end for each, end in ends.items())
            if is_read and len(committed(servers, target)) >= total:
                return
            time.sleep(0.5)
    raise AssertionError(f"{len(committed(servers, target))} of {total} counts after {LONGEST} s")


def test_counts_go_on_from_java_to_ours_and_back(
    spark: SparkSession, servers: str, new_topic: Callable[[int], str], tmp_path: Path
) -> None:
    if (why := apache_kafka.why_not()) is not None:
        pytest.skip(why)
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    id = f"handed-over-{source}"
    for turn in range(4):
        with Producer(bootstrap_servers=servers) as producer:
            for number in range(KEYS * EACH):
                producer.send(source, b"1", key=b"%d" % (number % KEYS), timestamp_ms=1_000_000_000_000 + turn)
        total = (turn + 1) * KEYS * EACH
        if turn % 2 == 0:
            with javas(servers, source, target, id, tmp_path):
                await_all(servers, source, target, id, total)
        else:
            config = {"application.id": id, "bootstrap.servers": servers, "statestore.cache.max.bytes": 0,
                      "state.dir": str(tmp_path / "ours")}  # fmt: skip
            place = str(tmp_path / f"checkpoint-{turn}")
            with KafkaStreams(counting(source, target), config, spark=spark, checkpoint_location=place):
                await_all(servers, source, target, id, total)

    counts: dict[bytes, list[int]] = {}
    for record in committed(servers, target):
        counts.setdefault(record.key, []).append(int.from_bytes(record.value, "big"))
    assert counts == {b"%d" % key: [*range(1, 4 * EACH + 1)] for key in range(KEYS)}
