"""Trogdor, the workloads with which Apache Kafka's system tests try a cluster: `produce_bench_test`,
`consume_bench_test` and `round_trip_fault_test`, retold with Trogdor's own agent.

Minutes, so they are asked for (`-m slow`): an agent tells what a consumer has read once a minute.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas import Broker
from tests.interop.three_brokers import count_of
from tests.peers.apache_kafka import VERSION, free_port
from tests.peers.maven import Jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NewName = Callable[[str], str]
_JARS = Jars(f"kafka-trogdor-{VERSION}", (("org.apache.kafka", "trogdor", VERSION),))
_SUCCEEDED = "Task succeeded with status "
_PARTITIONS = 5


class Ended(NamedTuple):
    """How a task ended: what the agent printed, and what the task told when it succeeded."""

    printed: str
    status: dict[str, Any] | None


class Trogdor:
    """An agent for each task, beside one cluster."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self._servers = broker.bootstrap_servers
        self._replicas = count_of(broker)
        self._folder = folder
        self._class_path = f"{_JARS.fetch()}/*"

    def run(self, kind: str, node: str, messages: int, **more: Any) -> Ended:
        """Run a task to its end, as the node that its kind asks for."""
        task = {
            "class": f"org.apache.kafka.trogdor.workload.{kind}",
            "durationMs": 240_000,
            "bootstrapServers": self._servers,
            "targetMessagesPerSec": 2000,
            "maxMessages": messages,
            node: "here",
            **more,
        }
        ports = {"trogdor.agent.port": free_port(), "trogdor.coordinator.port": free_port()}
        nodes = {"here": {"hostname": "localhost", **ports}}
        platform = {"platform": "org.apache.kafka.trogdor.basic.BasicPlatform", "nodes": nodes}
        names = [self._write(name, found) for name, found in (("platform", platform), ("task", task))]
        agent = ["org.apache.kafka.trogdor.agent.Agent", "-c", names[0], "-n", "here", "-e", names[1]]
        java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self._class_path]
        done = subprocess.run([*java, *agent], capture_output=True, text=True, timeout=400, check=False)
        printed = done.stdout + done.stderr[-2000:]
        at = done.stdout.find(_SUCCEEDED)
        if at < 0:
            return Ended(printed, None)
        return Ended(printed, json.JSONDecoder().raw_decode(done.stdout, at + len(_SUCCEEDED))[0])

    def _write(self, name: str, found: object) -> str:
        path = self._folder / f"{name}-{free_port()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")
        return str(path)

    def topics(self, name: str, count: int) -> dict[str, Any]:
        """Topics for a task to make: their names by Trogdor's pattern, with all replicas that there can be."""
        return {f"{name}[1-{count}]": {"numPartitions": _PARTITIONS, "replicationFactor": self._replicas}}

    def produce(self, name: str, topics: int, messages: int, **more: Any) -> dict[str, Any]:
        """Run a ProduceBench beside topics that nothing is written to, and return what it told."""
        found = self.topics(name, topics)
        idle = self.topics(f"idle-{name}", 2)
        done = self.run("ProduceBenchSpec", "producerNode", messages, activeTopics=found, inactiveTopics=idle, **more)
        assert done.status is not None, done.printed
        return done.status

    def consume(self, messages: int, *active: str, **more: Any) -> Ended:
        """Run a ConsumeBench; a topic, or `topic:partition`, may stand for several."""
        return self.run("ConsumeBenchSpec", "consumerNode", messages, activeTopics=list(active), **more)


@pytest.fixture
def trogdor(broker: Broker, tmp_path: Path) -> Trogdor:
    missing = "Java is missing" if shutil.which("java") is None else _JARS.why_not()
    if missing:
        pytest.skip(missing)
    return Trogdor(broker, tmp_path)


def test_produce_bench(trogdor: Trogdor, new_name: NewName) -> None:
    assert trogdor.produce(new_name("bench"), 2, 20_000)["totalSent"] == 20_000


def test_produce_bench_with_transactions(trogdor: Trogdor, new_name: NewName) -> None:
    told = trogdor.produce(
        new_name("bench"), 2, 5000, transactionGenerator={"type": "uniform", "messagesPerTransaction": 500}
    )
    assert (told["totalSent"], told["transactionsCommitted"]) == (5000, 10)


def test_consume_bench(trogdor: Trogdor, new_name: NewName) -> None:
    """Topics and partitions, one consumer and several, in a group that is given or each in its own."""
    name = new_name("bench")
    trogdor.produce(name, 2, 5000)
    topics, one = f"{name}[1-2]", f"{name}1:[0-{_PARTITIONS - 1}]"
    group = {"consumerGroup": new_name("group"), "threadsPerWorker": 2}
    cases: list[Callable[[], Ended]] = [
        lambda: trogdor.consume(5000, topics),
        lambda: trogdor.consume(2500, one),
        lambda: trogdor.consume(5000, topics, threadsPerWorker=2),
        lambda: trogdor.consume(2500, one, threadsPerWorker=2),
        lambda: trogdor.consume(1500, topics, **group),
    ]
    with ThreadPoolExecutor(len(cases)) as pool:
        ended = list(pool.map(lambda case: case(), cases))
    for done in ended:
        assert done.status is not None, done.printed
    received = [
        [told["totalMessagesReceived"] for told in done.status.values()] for done in ended if done.status is not None
    ]
    assert received == [[5000], [2500], [5000, 5000], [2500, 2500], [1500, 1500]]
    refused = trogdor.consume(1500, one, **group)
    assert refused.status is None
    assert "You may not specify an explicit partition assignment" in refused.printed


def test_round_trip(trogdor: Trogdor, new_name: NewName) -> None:
    """Every message that was sent is received, by a producer and a consumer of one process."""
    values = {"type": "sequential", "size": 16}
    active = trogdor.topics(new_name("round"), 2)
    done = trogdor.run("RoundTripWorkloadSpec", "clientNode", 10_000, activeTopics=active, valueGenerator=values)
    assert done.status is not None, done.printed
    assert (done.status["totalUniqueSent"], done.status["totalReceived"]) == (10_000, 10_000)
