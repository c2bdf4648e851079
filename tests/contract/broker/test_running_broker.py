"""Listeners, metrics and the request log of a `barnabas up`."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.peers.apache_kafka import free_port
from tests.support.core_broker import SocketClient, create


class Running:
    """A `barnabas up` in a process of its own."""

    def __init__(self, data: Path, *arguments: str):
        command = [sys.executable, "-m", "barnabas.cli.main", "up", "--data", str(data), *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.addresses = line.removeprefix("listening on ").partition(", data in ")[0].split(", ")

    def stop(self) -> str:
        """What was written to standard error."""
        self._process.terminate()
        return self._process.communicate(timeout=120)[1]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[Running]]:
    started: list[Running] = []
    yield started
    for broker in started:
        broker.stop()


def test_each_listener_tells_its_own_address(tmp_path: Path, running: list[Running]) -> None:
    broker = Running(
        tmp_path,
        "--set", "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "--set", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "--set", "advertised.listeners=OUTSIDE://kafka.example:9999",
    )  # fmt: skip
    running.append(broker)
    told = []
    for address in broker.addresses:
        with SocketClient(address) as client:
            node = client.request(MetadataRequest(topics=[]), 12).brokers[0]
            told.append(f"{node.host}:{node.port}")
    assert told == [broker.addresses[0], "kafka.example:9999"]


def test_metrics_for_prometheus(tmp_path: Path, running: list[Running]) -> None:
    port = free_port()
    broker = Running(tmp_path, "--listen", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}")
    running.append(broker)
    with SocketClient(broker.addresses[0]) as client:
        client.request(create("flights", 3), 7)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as response:
            text = response.read().decode()
            assert response.headers["Content-Type"].startswith("text/plain")
    assert 'kafka_network_requestmetrics_requests_total{request="CreateTopics",version="7"} 1.0' in text
    assert "kafka_server_replicamanager_partitioncount 3.0" in text
    assert 'kafka_network_requestmetrics_localtimems_count{request="CreateTopics"} 1.0' in text


def test_metrics_for_everybody_have_to_be_wanted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--data", str(tmp_path), "--metrics", ":0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert "--allow-remote" in done.stderr


def test_a_request_log(tmp_path: Path, running: list[Running]) -> None:
    path = tmp_path / "requests.log"
    broker = Running(tmp_path / "data", "--listen", "127.0.0.1:0", "--request-log", str(path))
    running.append(broker)
    with SocketClient(broker.addresses[0]) as client:
        client.request(MetadataRequest(topics=[]), 12)
        peer = "{}:{}".format(*client.socket.getsockname())
    line = json.loads(path.read_text().splitlines()[0].removeprefix("Completed request:"))
    assert line["requestHeader"]["clientId"] == "test"
    assert line["connection"].startswith(peer)
    assert line["localTimeMs"] > 0


def test_a_limit_for_connections_that_is_set_while_it_runs(tmp_path: Path, running: list[Running]) -> None:
    broker = Running(tmp_path, "--listen", "127.0.0.1:0")
    running.append(broker)
    config = AlterableConfig(name="max.connections.per.ip", config_operation=0, value="1")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[config])
    with SocketClient(broker.addresses[0]) as client:
        assert client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
        with SocketClient(broker.addresses[0]) as second, pytest.raises(ConnectionError):
            second.request(MetadataRequest(topics=[]), 12)
        assert client.request(MetadataRequest(topics=[]), 12) is not None
    assert "max.connections.per.ip is reached" in broker.stop()
