"""A log directory that goes out of service is announced, and a log that is served again when its role was refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.broker.zookeeper.controller.controller_znodes import LOG_DIR_EVENTS
from barnabas.broker.zookeeper.log_dir_events import LogDirEvents
from barnabas.protocol.topic_partition import TopicPartition
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


FLIGHTS = bytes(15) + b"\x01"
FLIGHT = TopicPartition("flights", 0)


def refused(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.topics for one in topic.partition_errors]


@pytest.fixture
def broker() -> ZooKeeperBroker:
    zookeeper = ModelZooKeeper()
    has_topic(zookeeper, "flights", FLIGHTS, [ME, 1])
    zookeeper.put(LOG_DIR_EVENTS)
    found = ZooKeeperBroker(zookeeper).register()
    assert refused(found.lead(leading("flights", FLIGHTS, [ME, 1], epoch=3, version=3))) == [0]
    return found


def out_of_service(broker: ZooKeeperBroker) -> None:
    """The files of the log are in an unknown state; it is opened anew with the next look."""
    log = broker.node.logs.get_log(FLIGHT)
    assert log is not None
    log.doubt(ValueError("a fault"))
    assert log.is_offline


def mended(broker: ZooKeeperBroker) -> int:
    """Let time go by until the log is served; how often the controller is asked to look."""
    for _ in range(60):
        broker.advance(0.5)
        broker.zookeeper.deliver()
    assert not broker.node.logs.offline
    return len(announced(broker.zookeeper))


def follower(broker: ZooKeeperBroker) -> tuple[int, int]:
    found = broker.partition("flights")
    return found.leader_id, found.leader_epoch


def test_a_role_refused_for_a_log_out_of_service_is_asked_for_when_the_log_is_served_again(
    broker: ZooKeeperBroker,
) -> None:
    out_of_service(broker)
    other = leading("flights", FLIGHTS, [1, ME], epoch=4, version=4)
    assert refused(broker.lead(other)) == [errors.KafkaStorageError.code]
    broker.stop_replica("flights", 0, 4, delete=False)

    assert mended(broker) == 1
    assert refused(broker.lead(other)) == [errors.NONE]
    assert follower(broker) == (1, 4)
    assert refused(broker.lead(other)) == [errors.ControllerMovedError.code]
    assert mended(broker) == 1


def test_a_role_that_is_held_is_confirmed_to_a_controller_that_takes_the_replica_for_out_of_service(
    broker: ZooKeeperBroker,
) -> None:
    same = leading("flights", FLIGHTS, [ME, 1], epoch=3, version=3)
    out_of_service(broker)
    assert refused(broker.lead(same)) == [errors.KafkaStorageError.code]

    assert mended(broker) == 1
    assert refused(broker.lead(leading("flights", FLIGHTS, [1, ME], epoch=2, version=2))) == [
        errors.ControllerMovedError.code
    ]
    assert refused(broker.lead(same)) == [errors.NONE]
    assert broker.partition("flights").is_leader


def test_a_log_that_fails_again_before_it_is_asked_for_is_announced_again(broker: ZooKeeperBroker) -> None:
    other = leading("flights", FLIGHTS, [1, ME], epoch=4, version=4)
    for times in (1, 2):
        out_of_service(broker)
        assert refused(broker.lead(other)) == [errors.KafkaStorageError.code]
        assert mended(broker) == times


def test_a_log_of_which_the_controller_has_heard_nothing_is_not_announced(broker: ZooKeeperBroker) -> None:
    out_of_service(broker)

    assert mended(broker) == 0
    assert broker.partition("flights").is_leader


def test_a_replica_that_was_deleted_meanwhile_is_not_announced(broker: ZooKeeperBroker) -> None:
    out_of_service(broker)
    broker.lead(leading("flights", FLIGHTS, [1, ME], epoch=4, version=4))
    broker.stop_replica("flights", 0, 5, delete=True)

    assert mended(broker) == 0
