"""Replication over TLS between brokers that are killed in turn, with clients that log in: `replication_test`, retold.

Of Apache Kafka's replication_test the listeners SASL_SSL, with each broker killed once under load.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.config.properties_file import read_properties
from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

_UP = (sys.executable, "-m", "barnabas.cli.main", "up", "--brokers", "3", "--secure", "--listen", "localhost:0")
_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}


class _Cluster:
    """`barnabas up --brokers 3 --secure`, which starts brokers again that were killed."""

    def __init__(self, folder: Path, *control: str) -> None:
        self._process = subprocess.Popen(
            [*_UP, *control, "--data", str(folder / "data"), "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.pids: dict[int, int] = {}
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
            if "settings" in line and "admin.properties" in line:
                self._is_ready.set()
        self._is_ready.set()

    def kill(self, broker: int) -> None:
        """Kill a broker, and return when it is started again."""
        pid = self.pids[broker]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: self.pids[broker] != pid, PATIENCE)

    def close(self) -> None:
        """End all of it."""
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


def _is_whole(admin: AdminClient) -> bool:
    try:
        return all(len(found.in_sync_replicas) == 3 for found in admin.describe_topics(["news"])["news"].partitions)
    except KafkaError:
        return False


@pytest.mark.parametrize("control", [pytest.param((), id="quorum"), pytest.param(("--zookeeper",), id="zookeeper")])
def test_nothing_that_was_acknowledged_is_lost_by_secured_brokers_that_are_killed(
    tmp_path: Path, control: tuple[str, ...]
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
                for broker in (1, 2, 3):
                    cluster.kill(broker)
                    eventually(lambda: _is_whole(admin), PATIENCE)
                    load.await_more()
            finally:
                load.close()
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
    finally:
        cluster.close()
