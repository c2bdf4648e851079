"""Random topologies over several partitions: Kafka Streams itself and ours on Spark, one after the other on one broker.

Outputs must be equal, per topic and key in their order. Where a sub-topology reads a repartition topic, its order is
that of who wrote first: there all input goes to one partition, and only one step goes through such a topic. So it does
where keys are changed, for records of a new key may come from several tasks. No two topics share a time, for Kafka
decides ties by a heap. Where there are repartition topics ours runs twice, and reads them within a batch the second
time. `STREAMS_SEEDS=0:40` chooses the seeds.

Where the order is left to chance, what is determined is compared: topologies of tables and counts, with input in all
partitions and several steps through repartition topics, must have the same last value of each key, and streams the same
records in any order. Intermediate results need not be equal, and times are those of whoever came last.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.errors import GroupNotEmptyError
from barnabas.streams import KafkaStreams
from barnabas.streams.errors import StreamsError
from barnabas.streams.topology.processor_topology import TopicsInfo, topics_by_subtopology
from tests.peers import foreign_programs
from tests.spark.test_streams_vectors import AS_IN_THE_DRIVER, TOPIC, by_key, patient
from tools.streams_vectors.determined_cases import draw_determined, tables_of
from tools.streams_vectors.random_cases import draw
from tools.streams_vectors.running import CONFIG, Case
from tools.streams_vectors.steps import CaseTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 3
COPIES = 6
LONGEST = 600.0
#: Steps after which records of one key come from several partitions.
CHANGE_KEYS = frozenset({"select_key", "map"})
APPLICATION = str(CONFIG["application.id"])

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def topology_of(case: dict[str, Any]) -> Any:
    topology = CaseTopology(case)
    for step in case["steps"]:
        topology.run(step)
    return topology.build({**CONFIG, **case["config"]})


def infos_of(case: dict[str, Any]) -> dict[int, TopicsInfo]:
    builder = topology_of(case).builder
    builder.rewrite_topology({**CONFIG, **case["config"]})
    return topics_by_subtopology(builder)


def can_be_compared(case: dict[str, Any]) -> bool:
    """Whether no sub-topology reads a repartition topic whose order is left to chance, nor writes on from there."""
    text = str(case["steps"])
    if any("uncommitted" in each for each in case["inputs"]) or "max_bytes" in text:
        return False
    try:
        infos = infos_of(case).values()
    except (StreamsError, ValueError, TypeError):
        return False
    behind = [info for info in infos if info.repartition_source_topics]
    return all(len(info.source_topics) == 1 and not (info.sink_topics & _between(infos)) for info in behind)


def _between(infos: Any) -> set[str]:
    return {topic for info in infos for topic in info.repartition_source_topics}


def spread(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs, some of them again under other keys, with times that no two topics share."""
    topics = sorted(case["topics"])
    found = []
    for each in case["inputs"]:
        for copy in range(COPIES):
            key = each["key"] if not copy or each["key"] is None else f"{each['key']}{copy}"
            time_ms = each["timestamp"] * len(topics) + topics.index(each["topic"])
            found.append({**each, "key": key, "timestamp": time_ms})
    return found


def seeds(most: str) -> Iterator[int]:
    first, last = os.environ.get("STREAMS_SEEDS", most).split(":")
    yield from range(int(first), int(last))


def is_legal(case: dict[str, Any]) -> bool:
    try:
        return any(info.repartition_source_topics for info in infos_of(case).values())
    except (StreamsError, ValueError, TypeError):
        return False


def largest_batch(case: dict[str, Any]) -> int:
    """Return how many records a batch takes: all where a task merges topics, for a part may end in the middle."""
    return 50 if all(len(info.source_topics) == 1 for info in infos_of(case).values()) else 1_000_000


class Cluster:
    """Topics of a case on a broker, filled anew for each of the two that read them."""

    def __init__(self, servers: str, case: dict[str, Any], *, is_single: bool) -> None:
        self.servers, self._case = servers, case
        self._values = Case(case)
        self._is_single = is_single
        self._ends: dict[tuple[str, int], int] = {}

    def fill(self) -> None:
        """Make all topics anew, and write the inputs."""
        with AdminClient(bootstrap_servers=self.servers) as admin:
            if left := [topic for topic in admin.list_topics() if topic in self._case["topics"] or "app-" in topic[:4]]:
                admin.delete_topics(left)
                while set(left) & set(admin.list_topics()):
                    time.sleep(0.1)
            _delete_group(admin)
            admin.create_topics([NewTopic(topic, PARTITIONS, configs=TOPIC) for topic in self._case["topics"]])
        with Producer(bootstrap_servers=self.servers) as producer:
            for given in spread(self._case):
                topic, key, value, headers = self._values.raw_input(given)
                where = {"partition": 0} if self._is_single or key is None else {}
                producer.send(topic, value, key=key, timestamp_ms=given["timestamp"], headers=headers, **where)
        read = {topic for info in infos_of(self._case).values() for topic in info.source_topics}
        wanted = [(topic, number) for topic in read & set(self._case["topics"]) for number in range(PARTITIONS)]
        with Consumer(bootstrap_servers=self.servers) as consumer:
            self._ends = {tuple(each): end for each, end in consumer.end_offsets(wanted).items() if end}

    def outputs(self) -> dict[Any, list[Any]]:
        """Wait until all is read, and nothing new comes; return the output by topic and key."""
        deadline, quiet, before = time.monotonic() + LONGEST, 0, None
        while quiet < 5:
            assert time.monotonic() < deadline, "it does not come to its end"
            now = self._positions()
            done = now is not None and all(now.get(each, 0) >= end for each, end in self._ends.items())
            found = self._read() if done else None
            quiet = quiet + 1 if done and (now, found) == before else 0
            before = now, found
            time.sleep(0.5)
        assert found is not None
        return by_key([self._values.record(each.topic, each) for each in found])

    def _positions(self) -> dict[tuple[str, int], int] | None:
        with AdminClient(bootstrap_servers=self.servers) as admin, Consumer(bootstrap_servers=self.servers) as consumer:
            offsets = {tuple(each): at.offset for each, at in admin.list_consumer_group_offsets(APPLICATION).items()}
            own = [each for each in offsets if each[0].endswith("-repartition")]
            ends = consumer.end_offsets(own) if own else {}
            return offsets if all(offsets[tuple(each)] >= end for each, end in ends.items()) else None

    def _read(self) -> list[Any]:
        written = {sink for info in infos_of(self._case).values() for sink in info.sink_topics}
        wanted = [(topic, number) for topic in written & set(self._case["topics"]) for number in range(PARTITIONS)]
        settings: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        found: list[Any] = []
        with Consumer(bootstrap_servers=self.servers, **settings) as consumer:
            consumer.assign(wanted)
            ends = consumer.end_offsets(wanted)
            while any(consumer.position(each) < end for each, end in ends.items()):
                found += consumer.poll(timeout=0.2)
        return sorted(found, key=lambda each: (each.topic, each.partition, each.offset))


def _delete_group(admin: AdminClient) -> None:
    """Delete the group once its members are gone, who do not say that they leave."""
    deadline = time.monotonic() + LONGEST
    while APPLICATION in admin.list_groups():
        with contextlib.suppress(GroupNotEmptyError):
            admin.delete_consumer_groups([APPLICATION])
        assert time.monotonic() < deadline, "the group keeps its members"
        time.sleep(0.5)


@contextlib.contextmanager
def kafka_streams(servers: str, case: dict[str, Any]) -> Iterator[None]:
    """Kafka Streams in Java with this topology."""
    config = {**case["config"], **{name: value for name, value in AS_IN_THE_DRIVER.items() if value == 0}}
    given = {**case, "config": {**config, "commit.interval.ms": 100, "session.timeout.ms": 6000}}
    with tempfile.TemporaryDirectory() as folder:
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"]
        command = ["java", *options, "-cp", foreign_programs.test_driver_class_path(), "Cases", servers]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(given) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "running\n"
            yield
            process.stdin.close()
            assert process.wait(120) == 0, process.stdout.read()


def both(
    servers: str, case: dict[str, Any], spark: SparkSession, folder: Path, *, is_single: bool
) -> tuple[dict[Any, list[Any]], list[dict[Any, list[Any]]]]:
    """Return the outputs of Kafka Streams, and ours, by topic and key; of each way to read repartition topics."""
    cluster = Cluster(servers, case, is_single=is_single)
    cluster.fill()
    with kafka_streams(servers, case):
        wanted = cluster.outputs()
    has_steps = any(info.repartition_source_topics for info in infos_of(case).values())
    found = []
    for is_within in (False, True) if has_steps else (False,):
        cluster.fill()
        config = {**CONFIG, **case["config"], **AS_IN_THE_DRIVER, "repartition.within.batch": is_within}
        place = folder / str(is_within)
        streams = KafkaStreams(
            topology_of(case), {**config, "bootstrap.servers": servers, "state.dir": str(place / "state")},
            spark=spark, checkpoint_location=str(place / "checkpoint"), max_records_per_batch=largest_batch(case),
        )  # fmt: skip
        streams.set_uncaught_exception_handler(patient)
        with streams:
            found.append(cluster.outputs())
    return wanted, found


@pytest.mark.parametrize("seed", [seed for seed in seeds("0:8") if can_be_compared(draw(seed))])
def test_several_partitions_give_what_kafka_streams_gives(
    seed: int, spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    case = draw(seed)
    is_single = any(info.repartition_source_topics for info in infos_of(case).values()) or any(
        step["op"] in CHANGE_KEYS for step in case["steps"]
    )
    wanted, found = both(servers, case, spark, tmp_path, is_single=is_single)

    assert found == [wanted] * len(found)
    assert wanted


@pytest.mark.parametrize("seed", [seed for seed in seeds("0:4") if is_legal(draw_determined(seed))])
def test_tables_of_several_tasks_end_as_kafka_streams_has_them(
    seed: int, spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    case = draw_determined(seed)
    of_java, ours = both(servers, case, spark, tmp_path, is_single=False)
    wanted, *found = (determined(each, tables_of(case)) for each in (of_java, *ours))

    assert found == [wanted] * len(found)
    assert wanted


def determined(outputs: dict[Any, list[Any]], tables: set[str]) -> dict[Any, Any]:
    """Return of tables the last value of each key that has one, of streams the records in an order of their own."""
    ends: dict[Any, Any] = {}
    for (topic, key), records in outputs.items():
        if topic not in tables:
            ends[topic, key] = sorted((json.dumps(each["value"]), each["timestamp"]) for each in records)
        elif records[-1]["value"] is not None:
            ends[topic, key] = records[-1]["value"]
    return ends


def test_what_is_determined_is_told_from_what_is_left_to_chance() -> None:
    a, b = ({"value": value, "timestamp": at} for value, at in (("a", 1), ("b", 2)))
    gone = {"value": None, "timestamp": 3}
    outputs = {("table", "k"): [a, b], ("table", "gone"): [a, gone], ("stream", "k"): [b, a]}

    assert determined(outputs, {"table"}) == {("table", "k"): "b", ("stream", "k"): [('"a"', 1), ('"b"', 2)]}
