"""A log directory that goes out of service is announced, once, and its partitions are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.zookeeper.controller.controller_znodes import LOG_DIR_EVENTS
from barnabas.broker.zookeeper.log_dir_events import LogDirEvents
from barnabas.testing.simulator.cluster.zookeeper_model import ModelSession, ModelZooKeeper
from tests.support.zookeeper_member import ME, ZooKeeperBroker, has_topic, leading


class Listener:
    def connected(self, session_id: int) -> None: ...
    def disconnected(self) -> None: ...
    def changed(self, path: str) -> None: ...


def announced(zookeeper: ModelZooKeeper) -> list[Any]:
    names = sorted(zookeeper.nodes[LOG_DIR_EVENTS].children)
    return [json.loads(zookeeper.nodes[f"{LOG_DIR_EVENTS}/{name}"].data or b"") for name in names]


@pytest.fixture
def session() -> ModelSession:
    zookeeper = ModelZooKeeper()
    zookeeper.put(LOG_DIR_EVENTS)
    made = zookeeper.session()
    made.start(Listener())
    return made


def test_each_directory_is_announced_once(session: ModelSession) -> None:
    failed: list[str] = []
    events = LogDirEvents(ME, session, lambda: len(failed))
    assert events.next_deadline() > 1e9
    for more in (["a"], [], ["b"]):
        failed += more
        events.tick(Instant(1.0, 0))
        session.server.deliver()
    assert announced(session.server) == [{"version": 1, "broker": ME, "event": 1}] * 2


def test_an_announcement_that_failed_is_made_again(session: ModelSession) -> None:
    events = LogDirEvents(ME, session, lambda: 1)
    events.tick(Instant(1.0, 0))
    session.disconnect()
    session.connect()
    assert events.next_deadline() == 2.0
    events.tick(Instant(2.0, 0))
    session.server.deliver()
    assert announced(session.server)
    assert events.next_deadline() > 1e9


def test_partitions_of_a_disk_that_failed_are_told_to_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper = ModelZooKeeper()
    topic_id = bytes(15) + b"\x01"
    has_topic(zookeeper, "flights", topic_id, [ME], [ME])
    broker = ZooKeeperBroker(zookeeper).register()
    monkeypatch.setattr(ReplicaManager, "offline_partitions", lambda _self, _topic: (1,))
    found = broker.lead(leading("flights", topic_id, [ME], [ME])).topics[0].partition_errors
    assert {one.partition_index: one.error_code for one in found} == {0: 0, 1: errors.KafkaStorageError.code}
