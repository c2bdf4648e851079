"""Java's share consumer on three brokers of ours that are killed one by one: no record is lost, none is taken twice.

`SHARE_KILLS_MINUTES=30` writes for so long in place of half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.admin import ConfigResource
from tests.peers import apache_kafka

MINUTES = float(os.environ.get("SHARE_KILLS_MINUTES", "0.4"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(500 + 120 * MINUTES)]

SETTINGS = {
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "offsets.topic.num.partitions": "4",
}
TOPIC, GROUP, PARTITIONS = "killed", "survivors", 6
#: An application that takes its time, so that records are in its hands when a broker is killed.
PAUSE = 0.008
COUNT = int(MINUTES * 60 / PAUSE)
#: So many kills at least; more while records are written.
KILLS = 4


class JavaMember:
    """A process of VerifiableShareConsumer, which tells each record and each answer in JSON."""

    def __init__(self, servers: str, directory: Path, number: int) -> None:
        self._out = directory / f"member-{number}.json"
        with self._out.open("w") as out:
            self._process = subprocess.Popen(
                [
                    "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", apache_kafka.classpath(),
                    "org.apache.kafka.tools.VerifiableShareConsumer", "--bootstrap-server", servers,
                    "--topic", TOPIC, "--group-id", GROUP, "--acknowledgement-mode", "sync", "--verbose",
                ],
                stdout=out, stderr=subprocess.DEVNULL,
            )  # fmt: skip

    def events(self, name: str) -> list[dict[str, Any]]:
        """What it has told so far; the last line may not be whole."""
        lines = self._out.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
        return [event for event in found if event["name"] == name]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def brokers() -> Iterator[Broker]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with Broker(brokers=3, config=SETTINGS) as running:
        yield running
        assert "please report this" not in running.log_text()


def produce(servers: str) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=5, acks="all") as producer:
        for number in range(COUNT):
            producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            time.sleep(PAUSE)


def kill_one_after_the_other(brokers: Broker, writer: threading.Thread) -> None:
    for number in count():
        if number >= KILLS and not writer.is_alive():
            return
        time.sleep(4)
        doomed = number % 3 + 1
        brokers.kill(doomed)
        time.sleep(3)
        brokers.start(doomed)


def lag(servers: str) -> int:
    with AdminClient(bootstrap_servers=servers) as admin:
        found = admin.list_share_group_offsets({GROUP: None})[GROUP]
    return sum(one.lag for one in found.values()) if len(found) == PARTITIONS else -1


def taken(members: list[JavaMember]) -> Counter[tuple[int, int]]:
    """How often the brokers said that they took what was said of a record."""
    answers = [event for member in members for event in member.events("offsets_acknowledged") if event["success"]]
    return Counter(
        (part["partition"], offset) for event in answers for part in event["partitions"] for offset in part["offsets"]
    )


def test_no_record_is_lost_or_taken_twice(brokers: Broker, tmp_path: Path) -> None:
    servers = brokers.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, configs={"min.insync.replicas": "2"})])
        configs = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "5000"}
        admin.incremental_alter_configs({ConfigResource.group(GROUP): configs})
    members = [JavaMember(servers, tmp_path, number) for number in range(2)]
    try:
        writer = threading.Thread(target=produce, args=[servers])
        writer.start()
        kill_one_after_the_other(brokers, writer)
        writer.join()
        deadline = time.monotonic() + 120
        while lag(servers) != 0 and time.monotonic() < deadline:
            time.sleep(1)
    finally:
        for member in members:
            member.stop()

    assert lag(servers) == 0, "the group has come to the end of the topic"
    seen = Counter(int(event["value"]) for member in members for event in member.events("record_data"))
    assert set(seen) == set(range(COUNT)), f"{sorted(set(range(COUNT)) - set(seen))[:20]} were delivered to no one"
    twice = {where: times for where, times in taken(members).items() if times > 1}
    assert not twice, f"taken more than once: {twice}"
    assert all(member.events("record_data") for member in members), "both had their part"
