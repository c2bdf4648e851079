"""The settings that Apache Kafka is shipped with start this broker as they stand, but for ports and the directory."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from tests.support import stock_configurations as stock

FILES = {
    "4.3": stock.STOCK_SERVER_PROPERTIES,
    "3.9 with ZooKeeper": stock.STOCK_3_9_ZOOKEEPER + "listeners=PLAINTEXT://:9092\n",
    "3.9 KRaft": stock.STOCK_3_9_KRAFT,
    "3.9 KRaft, dynamic quorum": stock.STOCK_3_9_RECONFIG,
}


class OtherPorts:
    """Gives each port of a configuration a free one of this machine, always the same."""

    def __init__(self) -> None:
        self._chosen: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        return re.sub(r"(?<=:)\d{4,5}\b", lambda match: str(self.of(match[0])), text)

    def of(self, port: str) -> int:
        if port not in self._chosen:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self._chosen[port] = probe.getsockname()[1]
        return self._chosen[port]


class Started:
    """A `barnabas up` as a user starts it, without `--listen`."""

    def __init__(self, directory: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "barnabas.cli.main", "up", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd=directory,
            env={**os.environ, **(environment or {})},
        )
        assert self._process.stdout is not None
        self.line = self._process.stdout.readline()

    @property
    def addresses(self) -> list[str]:
        return self.line.removeprefix("listening on ").partition(", data in ")[0].split(", ")

    def end(self) -> str:
        """What it wrote to standard error until it was ended."""
        self._process.send_signal(signal.SIGTERM)
        _, errors = self._process.communicate(timeout=120)
        assert self._process.returncode == 0, errors
        return errors


def round_trip(servers: str) -> list[bytes | None]:
    """A record, from a producer through a group: so all that clients are told of this broker must be right."""
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t", num_partitions=1)])
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"v").result()
    with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        found: list[bytes | None] = []
        while not found:
            found = [record.value for record in consumer.poll(timeout=1.0)]
    return found


@pytest.mark.parametrize("kafka", FILES)
def test_a_stock_file_starts_a_broker_on_the_loopback(tmp_path: Path, kafka: str) -> None:
    ports = OtherPorts()
    text = re.sub(r"log\.dirs=.*", f"log.dirs={tmp_path / 'logs'}", ports(FILES[kafka]))
    (tmp_path / "server.properties").write_text(text)

    up = Started(tmp_path, "--config", "server.properties")

    assert up.addresses == [f"127.0.0.1:{ports.of('9092')}"], up.end()
    assert round_trip(up.addresses[0]) == [b"v"]
    errors = up.end()
    assert "without authentication the broker listens on 127.0.0.1 only" in errors
    assert "num.network.threads" in errors
    assert ("zookeeper.connect" in errors) == ("ZooKeeper" in kafka)


def test_the_stock_files_of_a_controller_and_of_a_broker_make_a_cluster(tmp_path: Path) -> None:
    ports = OtherPorts()
    texts = {"controller": stock.STOCK_CONTROLLER_PROPERTIES, "broker": stock.STOCK_BROKER_PROPERTIES}
    for role, text in texts.items():
        logs = f"log.dirs={tmp_path / role}"
        (tmp_path / f"{role}.properties").write_text(re.sub(r"log\.dirs=.*", logs, ports(text)))

    controller = Started(tmp_path, "--config", "controller.properties")
    try:
        assert controller.addresses == [f"127.0.0.1:{ports.of('9093')}"], controller.end()
        broker = Started(tmp_path, "--config", "broker.properties")
        assert broker.addresses == [f"localhost:{ports.of('9092')}"], broker.end()
        assert round_trip(broker.addresses[0]) == [b"v"]
        with AdminClient(bootstrap_servers=broker.addresses[0]) as admin:
            assert [voter.replica_id for voter in admin.describe_metadata_quorum().voters] == [1]
        broker.end()
    finally:
        errors = controller.end()
    assert "without authentication" in errors


def test_the_containers_environment_starts_a_broker_on_the_loopback(tmp_path: Path) -> None:
    ports = OtherPorts()
    environment = {name: ports(value) for name, value in stock.CONTAINER_ENVIRONMENT.items()}

    up = Started(tmp_path, "--environment", "--data", "logs", environment=environment)

    assert up.addresses == [f"127.0.0.1:{ports.of('9092')}", f"127.0.0.1:{ports.of('19092')}"], up.end()
    assert round_trip(up.addresses[0]) == [b"v"]
    with AdminClient(bootstrap_servers=up.addresses[0]) as admin:
        assert admin.describe_cluster().cluster_id == environment["CLUSTER_ID"]
    # Clients of the other listener are told an address that they can reach, not the `broker` that is advertised.
    with Consumer("t", bootstrap_servers=up.addresses[1], group_id="h", auto_offset_reset="earliest") as consumer:
        found: list[bytes | None] = []
        while not found:
            found = [record.value for record in consumer.poll(timeout=1.0)]
    assert found == [b"v"]
    assert "without authentication the broker listens on 127.0.0.1 only" in up.end()


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("inter.broker.protocol.version=3.5\nzookeeper.connect=zk1:2181,zk2:2181/kafka", "speaks 3.9 only"),
        ("controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093", "names a quorum of other controllers"),
        ("controller.quorum.bootstrap.servers=a:9093,b:9093", "names a quorum of other controllers"),
        ("log.message.timestamp.difference.max.ms=1000", "log.message.timestamp.before.max.ms"),
        ("process.roles=controller", "has none for controllers"),
    ],
)
def test_what_would_be_another_cluster_than_the_file_means_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, says: str
) -> None:
    from barnabas.cli.main import main

    (tmp_path / "server.properties").write_text(f"{setting}\n")

    code = main(["up", "--config", str(tmp_path / "server.properties"), "--data", str(tmp_path / "d")])

    said = capsys.readouterr().err.splitlines()
    assert code == 2
    assert says in said[-1]
    assert said[-1].startswith(f"barnabas up: {setting.partition('=')[0]}")
