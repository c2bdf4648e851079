"""Replication over TLS between brokers that end, with clients that log in: `replication_test`, retold.

Of Apache Kafka's replication_test the listeners SASL_SSL, with each of its failures under load: brokers are killed or
shut down, each of them once, and whoever leads again and again.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.admin import TopicPartitionInfo
from barnabas.config.properties_file import read_properties
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.peers.apache_kafka import free_port
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

_COMMAND = (sys.executable, "-m", "barnabas.cli.main")
_UP = (*_COMMAND, "up", "--brokers", "3", "--secure", "--listen")
_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}


def _three_free_ports() -> int:
    """Return the first of three that follow one another: a broker that is started again is where it was."""
    while True:
        first = free_port()
        with suppress(OSError), ExitStack() as held:
            for port in (first, first + 1, first + 2):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


class _Cluster:
    """`barnabas up --brokers 3 --secure`, which starts brokers again that were killed; those that were ended, we do."""

    def __init__(self, folder: Path, *control: str) -> None:
        self._process = subprocess.Popen(
            [*_UP, f"localhost:{_three_free_ports()}", *control, "--data", str(folder / "data"), "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pids: dict[int, int] = {}
        #: What starts a broker that was ended, and those that were started so.
        self._commands: dict[int, list[str]] = {}
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._is_ready = threading.Event()
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._is_ready.wait(PATIENCE), "".join(self._said)
        self.settings: dict[str, Any] = {**read_properties(str(folder / "data-secure" / "admin.properties")), **_SOON}

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            found = re.match(r"broker (\d).* process (\d+)", line)
            if found is not None:
                self.pids[int(found[1])] = int(found[2])
            found = re.match(r"broker (\d) has ended .*`barnabas (up .*)` starts it again", line)
            if found is not None:
                self._commands[int(found[1])] = shlex.split(found[2])
            if "settings" in line and "admin.properties" in line:
                self._is_ready.set()
        self._is_ready.set()

    def kill(self, broker: int) -> None:
        """Kill a broker, and return when it is started again."""
        pid = self.pids[broker]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.pids[broker] != pid, PATIENCE)

    def shut_down(self, broker: int) -> None:
        """Have a broker end, and start it again."""
        if broker in self._started:
            self._started[broker].terminate()
            self._started[broker].wait(PATIENCE)
        else:
            os.kill(self.pids[broker], signal.SIGTERM)
            eventually(lambda: broker in self._commands, PATIENCE)
        self._started[broker] = subprocess.Popen([*_COMMAND, *self._commands[broker]])

    def close(self) -> None:
        """End all of it."""
        for process in self._started.values():
            process.terminate()
        for process in self._started.values():
            process.wait(PATIENCE)
        # Whoever lets them go ends after them.
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class _Load:
    """Numbers that a producer sends one after the other, and those that were acknowledged, by offset."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.acknowledged: dict[int, bytes] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        with Producer({**self._settings, "acks": "all", "delivery.timeout.ms": 120_000}) as producer:
            while not self._is_over.is_set():
                number += 1
                value = f"{number}".encode()
                self.acknowledged[producer.send("news", value).result(PATIENCE).offset] = value
                time.sleep(0.005)

    def await_more(self) -> None:
        """Return when twenty more are acknowledged."""
        wanted = len(self.acknowledged) + 20
        eventually(lambda: len(self.acknowledged) >= wanted, PATIENCE)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


def _partition(admin: AdminClient) -> TopicPartitionInfo | None:
    try:
        return admin.describe_topics(["news"])["news"].partitions[0]
    except KafkaError:
        return None


def _is_whole(admin: AdminClient) -> bool:
    found = _partition(admin)
    return found is not None and found.leader is not None and len(found.in_sync_replicas) == 3


def _leader(admin: AdminClient) -> int:
    eventually(lambda: (found := _partition(admin)) is not None and found.leader is not None, PATIENCE)
    found = _partition(admin)
    assert found is not None
    assert found.leader is not None
    return found.leader.id


def _each(fail: Callable[[int], None], admin: AdminClient, load: _Load) -> None:
    for broker in (1, 2, 3):
        fail(broker)
        eventually(lambda: _is_whole(admin), PATIENCE)
        load.await_more()


def _whoever_leads(fail: Callable[[int], None], admin: AdminClient, load: _Load) -> None:
    """As Kafka's bounces: the next one goes as soon as records are acknowledged again."""
    for _ in range(5):
        fail(_leader(admin))
        load.await_more()


@pytest.mark.parametrize("control", [pytest.param((), id="quorum"), pytest.param(("--zookeeper",), id="zookeeper")])
@pytest.mark.parametrize("failure", [_Cluster.kill, _Cluster.shut_down], ids=["hard", "clean"])
@pytest.mark.parametrize("course", [_each, _whoever_leads], ids=["shutdown", "bounce"])
def test_nothing_that_was_acknowledged_is_lost_by_secured_brokers_that_end(
    tmp_path: Path,
    control: tuple[str, ...],
    failure: Callable[[_Cluster, int], None],
    course: Callable[[Callable[[int], None], AdminClient, _Load], None],
) -> None:
    missing = zookeeper.why_not() if control else None
    if missing:
        pytest.skip(missing)
    cluster = _Cluster(tmp_path, *control)
    try:
        with AdminClient(cluster.settings) as admin:
            admin.create_topics([NewTopic("news", replica_assignments={0: [1, 2, 3]})])
            eventually(lambda: _is_whole(admin), PATIENCE)
            load = _Load(cluster.settings)
            try:
                course(partial(failure, cluster), admin, load)
            finally:
                load.close()
            eventually(lambda: _is_whole(admin), PATIENCE)
        _check(cluster, load)
    finally:
        cluster.close()


def _check(cluster: _Cluster, load: _Load) -> None:
    partition = TopicPartition("news", 0)
    with Consumer({**cluster.settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        stored: dict[int, bytes | None] = {}
        while consumer.position(partition) < end:
            stored.update({record.offset: record.value for record in consumer.poll(0.5)})
    assert len(load.acknowledged) > 60
    assert {offset: stored.get(offset) for offset in load.acknowledged} == load.acknowledged
    assert len(set(stored.values())) == len(stored), "a record is there twice"
