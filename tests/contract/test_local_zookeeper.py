"""A cluster of ours on this machine under ZooKeeper: `Broker(brokers=3, zookeeper=True)`, `barnabas up --zookeeper`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from barnabas.cli.main import main
from barnabas.errors import ConfigError
from tests.contract.waiting import eventually, in_sync_replicas
from tests.peers import zookeeper
from tests.peers.zookeeper import ZooKeeper

pytestmark = [pytest.mark.timeout(200)]

_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
_FEW = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
_ZOOKEEPER = 200


@pytest.fixture(autouse=True)
def _can_run() -> None:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)


def _values(settings: dict[str, Any], count: int) -> list[bytes | None]:
    with Consumer("news", {**settings, "group.id": os.urandom(4).hex(), "auto.offset.reset": "earliest"}) as consumer:
        records = iter(consumer)
        return [next(records).value for _ in range(count)]


@pytest.mark.slow
def test_nothing_is_lost_when_brokers_and_the_zookeeper_of_their_own_are_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Broker(brokers=3, zookeeper=True, config=_FEW) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("news", replica_assignments={0: [1, 2, 3]})])
            producer.send("news", b"first").result(30)
            broker.kill(1)
            producer.send("news", b"without broker 1").result(60)
            eventually(lambda: in_sync_replicas(admin, "news") == [{2, 3}], 30)
            broker.start(1)
            eventually(lambda: in_sync_replicas(admin, "news") == [{1, 2, 3}], 60)

            first = broker.pid_of(_ZOOKEEPER)
            broker.kill(_ZOOKEEPER)
            producer.send("news", b"without ZooKeeper").result(60)
            broker.start(_ZOOKEEPER)
            assert broker.pid_of(_ZOOKEEPER) not in (None, first)
            admin.create_topics([NewTopic("later", 1, 3)], timeout=60)
            assert main(["cluster", "-b", broker.bootstrap_servers, "-o", "json"]) == 0
            assert json.loads(capsys.readouterr().out)["controller"] in (1, 2, 3)
        assert _values(settings, 3) == [b"first", b"without broker 1", b"without ZooKeeper"]


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with ZooKeeper() as running:
        yield running


@pytest.mark.slow
def test_clusters_share_a_zookeeper_each_below_a_znode_of_its_own_that_is_made(server: ZooKeeper) -> None:
    def one(path: str) -> Broker:
        return Broker(brokers=2, zookeeper=f"{server.servers}{path}", config=_FEW)

    with one("/far/below/flights") as flights, one("/trains") as trains:
        found = []
        for broker in (flights, trains):
            with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **_SOON}) as admin:
                admin.create_topics([NewTopic(f"of-{len(found)}", 1, 2)])
                found.append((admin.describe_cluster().cluster_id, list(admin.list_topics())))
        assert found[0][0] != found[1][0]
        assert [[str(topic) for topic in topics] for _, topics in found] == [["of-0"], ["of-1"]]


@pytest.mark.slow
def test_a_cluster_that_was_stopped_has_its_records_and_its_id_again(tmp_path: Path) -> None:
    def look(broker: Broker) -> tuple[str | None, list[bytes | None]]:
        settings = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin:
            return admin.describe_cluster().cluster_id, _values(settings, 1)

    with Broker(brokers=2, zookeeper=True, data_dir=tmp_path, config=_FEW) as broker:
        with Producer({"bootstrap.servers": broker.bootstrap_servers, **_SOON}) as producer:
            producer.send("news", b"kept").result(60)
        first = look(broker)
    with Broker(brokers=2, zookeeper=True, data_dir=tmp_path, config=_FEW) as broker:
        assert look(broker) == first
    with pytest.raises(ConfigError, match="start it with --zookeeper"):
        Broker(brokers=2, data_dir=tmp_path)


def _line(process: subprocess.Popen[str], begins: str) -> str:
    assert process.stdout is not None
    said = []
    while not (line := process.stdout.readline()).startswith(begins):
        said.append(line)
        assert line, f"it ended before it said {begins!r}: {''.join(said)}"
    return line.strip()


def _processes_of(folder: Path) -> list[str]:
    """The command lines of processes that were started with files of a folder."""
    found = subprocess.run(["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if f"{folder}/" in line]


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_the_command_starts_its_zookeeper_again_and_ends_it_however_it_ends_itself(
    tmp_path: Path, ending: signal.Signals
) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--brokers", "2", "--zookeeper"]
    command += ["--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        nodes = [_line(process, node) for node in ("ZooKeeper 200", "broker 1", "broker 2")]
        _line(process, "listening on ")
        assert len(_processes_of(tmp_path)) >= 3
        os.kill(int(nodes[0].rpartition(" ")[2]), signal.SIGKILL)
        _line(process, "ZooKeeper 200 has ended by signal 9; it is started again in 1 s")
        _line(process, "ZooKeeper 200 is started again")
        servers = ",".join(line.split()[3].rstrip(",") for line in nodes[1:])
        with AdminClient({"bootstrap.servers": servers, **_SOON}) as admin:
            admin.create_topics([NewTopic("news", 1, 2)], timeout=60)
        process.send_signal(ending)
        process.wait(60)
        eventually(lambda: not _processes_of(tmp_path), 60)
    finally:
        process.kill()
        process.communicate()


def test_what_does_not_go_with_a_zookeeper_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for option, said in (("--controllers=3", "the brokers elect one of them"), ("--secure", "has to know the brokers")):
        assert main(["up", "--brokers", "3", "--zookeeper", "127.0.0.1:1/x", option]) == 2
        assert said in capsys.readouterr().err
    assert main(["up", "--zookeeper", "127.0.0.1:1/x", "--set", "broker.id=7"]) == 2
    assert "broker.id: of several brokers each has its own" in capsys.readouterr().err
