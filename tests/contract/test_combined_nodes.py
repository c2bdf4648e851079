"""Three nodes that are broker and controller at once (`process.roles=broker,controller`), each a process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, Producer
from barnabas.broker.node_process import NodeProcess
from barnabas.cli.main import main
from tests.contract.waiting import create_once, eventually, in_sync_replicas
from tests.peers.apache_kafka import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 2,
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
}


class _Nodes:
    """Nodes 1 to 3; all have to be there before any is ready, as a quorum needs two."""

    def __init__(self, folder: Path) -> None:
        self.ports = {number: (free_port(), free_port()) for number in (1, 2, 3)}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, (_, port) in self.ports.items())
        self.files = {}
        self.running: dict[int, NodeProcess] = {}
        for number, (port, of_controller) in self.ports.items():
            own = {
                "node.id": number,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{of_controller}",
                "controller.quorum.voters": voters,
                "log.dirs": folder / f"node-{number}",
            }
            self.files[number] = folder / f"node-{number}.properties"
            lines = [f"{name}={value}\n" for name, value in {**_SETTINGS, **own}.items()]
            self.files[number].write_text("".join(lines))
            assert main(["format", "-t", "YmFybmFiYXMtcGVlci0wMQ", "-c", str(self.files[number])]) == 0

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port, _ in self.ports.values())

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.running[number] = NodeProcess(["--config", str(self.files[number])])
        for number in numbers:
            self.running[number].wait_until_ready()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[_Nodes]:
    found = _Nodes(tmp_path)
    try:
        found.start(1, 2, 3)
        yield found
    finally:
        for process in found.running.values():
            process.kill()


def test_a_node_with_the_active_controller_dies_and_comes_back(nodes: _Nodes) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": nodes.bootstrap_servers, "reconnect.backoff.max.ms": 200}
    with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
        admin.create_topics([NewTopic("news", 1, 3)])
        for round_ in range(2):
            producer.send("news", f"before {round_}".encode()).result(30)
            leader = admin.describe_metadata_quorum().leader_id
            nodes.running.pop(leader).kill()
            create_once(admin, f"topic-{round_}", 1, 2, 30)
            producer.send("news", f"while it is away {round_}".encode()).result(60)
            nodes.start(leader)
            eventually(lambda: in_sync_replicas(admin, "news") == [{1, 2, 3}], 60)
        assert admin.describe_metadata_quorum().leader_id in nodes.ports


def test_all_end_at_once(nodes: _Nodes) -> None:
    """The last to end has no quorum to hand its partitions over to, and does not wait a minute for one."""
    began = time.monotonic()
    for process in nodes.running.values():
        process.terminate()
    for process in nodes.running.values():
        process.stop()
    nodes.running.clear()
    assert time.monotonic() - began < 20
