"""Clients of several languages push their metrics to our broker, and Prometheus finds them there (KIP-714)."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas import AdminClient, Producer
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from tests.peers.apache_kafka import free_port
from tests.peers.java_tools import JavaTools

SENT = "kafka_client_producer_topic_record_send_total"


class Watched:
    """A broker whose metrics are served, with a subscription to all metrics of all clients."""

    def __init__(self, data: Path) -> None:
        self._metrics = f"http://127.0.0.1:{free_port()}/metrics"
        address = self._metrics.removeprefix("http://").removesuffix("/metrics")
        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--data", str(data), "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen([*command, "--metrics", address], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.bootstrap_servers = line.removeprefix("listening on ").partition(", data in ")[0]
        with AdminClient(bootstrap_servers=self.bootstrap_servers) as admin:
            wanted = [AlterConfigOp("metrics", "*"), AlterConfigOp("interval.ms", "200")]
            admin.incremental_alter_configs({ConfigResource.client_metrics("everything"): wanted})

    def shown(self, name: str) -> dict[str, float]:
        """The values of one metric, summed by client id."""
        with urllib.request.urlopen(self._metrics, timeout=10) as response:
            text = response.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name:
                    client = sample.labels["client_id"]
                    found[client] = found.get(client, 0.0) + sample.value
        return found

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    broker = Watched(tmp_path_factory.mktemp("watched"))
    yield broker
    broker.stop()


def eventually(check: Callable[[], object], turn: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, "this was never shown"
        turn()
        time.sleep(0.05)


def test_of_barnabas(watched: Watched) -> None:
    with Producer(bootstrap_servers=watched.bootstrap_servers, client_id="ours") as producer:
        for _ in range(10):
            producer.send("flights", b"one")
        producer.flush()
        eventually(lambda: watched.shown(SENT).get("ours") == 10, lambda: None)
        producer.send("flights", b"one")

    assert watched.shown(SENT)["ours"] == 11, "the last push tells the rest"


def test_of_java(watched: Watched) -> None:
    with JavaTools() as tools:
        # Java's clients push when there is time for it, and may close before.
        eventually(
            lambda: watched.shown(SENT).get("java"),
            lambda: tools.run(
                "org.apache.kafka.tools.ProducerPerformance", "--topic", "flights-of-java", "--num-records", "1000",
                "--record-size", "10", "--throughput", "1000", "--producer-props", "client.id=java",
                f"bootstrap.servers={watched.bootstrap_servers}",
            ),
        )  # fmt: skip


def test_of_librdkafka(watched: Watched) -> None:
    created = "kafka_client_producer_connection_creation_total"
    producer = confluent_kafka.Producer({"bootstrap.servers": watched.bootstrap_servers, "client.id": "librdkafka"})
    producer.produce("flights", b"one")
    producer.flush(30)
    eventually(lambda: watched.shown(created).get("librdkafka", 0) >= 1, lambda: producer.poll(0.05))
