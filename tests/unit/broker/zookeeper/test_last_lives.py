"""A broker that starts while the session of its last life lasts, and other processes in its place."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.zookeeper.operations import Delete
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ME, ZooKeeperBroker, has_topic, known, leading

MINE = f"/brokers/ids/{ME}"
FLIGHTS = bytes(15) + b"\x01"
FLIGHT = TopicPartition("flights", 0)


def test_the_znode_of_its_own_last_life_is_not_waited_for() -> None:
    """It names the address at which this process listens, so no other process does."""
    zookeeper = ModelZooKeeper()
    before = ZooKeeperBroker(zookeeper, has_controller=False).take_office()
    epoch = before.control.broker_epoch
    assert zookeeper.nodes["/controller"].owner == before.session.id
    before.session.waiting.clear()
    zookeeper.forget_watches(before.session.id)
    found = ZooKeeperBroker(zookeeper, has_controller=False).take_office()
    assert zookeeper.nodes[MINE].owner == found.session.id
    assert found.control.broker_epoch == zookeeper.nodes[MINE].created > epoch
    assert zookeeper.nodes["/controller"].owner == found.session.id
    assert not found.warnings


def test_what_is_for_another_process_in_its_place_is_refused() -> None:
    zookeeper = ModelZooKeeper()
    before = ZooKeeperBroker(zookeeper).register()
    found = ZooKeeperBroker(zookeeper)
    found.control.register({}, bytes(16), -1, found.states.append)
    zookeeper.deliver()
    answer = found.update(broker_epoch=before.control.broker_epoch)
    assert answer.error_code == errors.StaleBrokerEpochError.code


@pytest.mark.parametrize("topics", [[], [leading("flights", FLIGHTS, [ME, 1], epoch=3, version=3)]])
@pytest.mark.parametrize("is_there", [True, False], ids=["znode is there", "session is over"])
def test_what_its_last_life_was_told_is_not_obeyed_while_it_registers(*, is_there: bool, topics: list[Any]) -> None:
    """The controller sends it again to whom it finds at the address, and ZooKeeper has not answered yet."""
    zookeeper = ModelZooKeeper()
    before = ZooKeeperBroker(zookeeper).register()
    if is_there:
        before.session.waiting.clear()
        zookeeper.forget_watches(before.session.id)
    else:
        before.session.expire()
    found = ZooKeeperBroker(zookeeper)
    has_topic(zookeeper, "flights", FLIGHTS, [ME, 1])
    here = {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}
    found.control.register(here, bytes(16), -1, found.states.append)
    answer = found.lead(*topics, broker_epoch=before.control.broker_epoch)
    assert answer.error_code == errors.StaleBrokerEpochError.code
    assert found.partition("flights") is None


def test_what_is_told_to_a_life_that_does_not_know_its_epoch_yet_is_obeyed_when_it_does() -> None:
    """The controller hears of a registration before the broker itself."""
    zookeeper = ModelZooKeeper()
    found = ZooKeeperBroker(zookeeper)
    has_topic(zookeeper, "flights", FLIGHTS, [ME, 1])
    found.control.register({"PLAINTEXT": Endpoint("127.0.0.1", 9092)}, bytes(16), -1, found.states.append)
    epoch = zookeeper.nodes[MINE].created
    assert found.control.broker_epoch < epoch
    answer = found.lead(leading("flights", FLIGHTS, [ME, 1], epoch=3, version=3), broker_epoch=epoch)
    assert answer.error_code == errors.NONE
    assert found.partition("flights").leader_epoch == 3


def test_what_is_for_a_process_that_is_waited_for_is_refused_at_once() -> None:
    zookeeper = ModelZooKeeper()
    before = ZooKeeperBroker(zookeeper).register()
    found = ZooKeeperBroker(zookeeper)
    found.control.register({"PLAINTEXT": Endpoint("elsewhere", 9092)}, bytes(16), -1, found.states.append)
    answer = found.update(broker_epoch=before.control.broker_epoch)
    assert answer.error_code == errors.StaleBrokerEpochError.code
    assert zookeeper.nodes[MINE].owner == before.session.id


def with_replica(*replicas: int) -> ZooKeeperBroker:
    found = ZooKeeperBroker()
    has_topic(found.zookeeper, "flights", FLIGHTS, list(replicas))
    found.register()
    found.lead(leading("flights", FLIGHTS, list(replicas), epoch=3, version=3))
    assert found.node.logs.get_log(FLIGHT) is not None
    return found


def taken_for_dead(*replicas: int, is_connected: bool = True) -> ZooKeeperBroker:
    """A broker with a replica that has lost its session, and has registered anew in the same process."""
    found = with_replica(*replicas)
    found.session.expire()
    if is_connected:
        found.session.connect()
        found.zookeeper.deliver()
    return found


def strays(found: ZooKeeperBroker) -> list[str]:
    return [text for text in found.warnings if "was moved to other brokers" in text]


@pytest.mark.parametrize("replicas", [(ME, 1), (1, ME)], ids=["led", "followed"])
def test_a_replica_that_was_moved_away_from_a_broker_taken_for_dead_is_set_aside(replicas: tuple[int, ...]) -> None:
    """Another controller tells first who is alive, and of no partition."""
    found = taken_for_dead(*replicas)
    found.update()
    assert found.partition("flights") is not None
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5))
    assert found.partition("flights") is None
    assert found.node.logs.get_log(FLIGHT) is None
    assert len(strays(found)) == 1
    assert "-stray" in strays(found)[0]
    assert found.lead(leading("flights", FLIGHTS, [1, 2, ME], epoch=6, version=6)).error_code == errors.NONE
    assert found.partition("flights").log.log_end_offset == 0


def test_a_log_is_not_set_aside_for_old_news() -> None:
    found = taken_for_dead(1, ME)
    found.update(known("flights", FLIGHTS, [1, 2], epoch=2))
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5), broker_epoch=found.control.broker_epoch - 1)
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5), controller_epoch=0)
    assert found.node.logs.get_log(FLIGHT) is not None
    assert not strays(found)


@pytest.mark.parametrize("is_role", [True, False])
def test_a_replica_that_a_controller_has_confirmed_goes_by_stop_replica_only(is_role: bool) -> None:
    found = taken_for_dead(1, ME)
    if is_role:
        found.lead(leading("flights", FLIGHTS, [1, ME], epoch=4, version=4))
    else:
        found.update(known("flights", FLIGHTS, [1, ME], epoch=4))
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5))
    assert found.node.logs.get_log(FLIGHT) is not None
    found.stop_replica("flights", 0, 5, delete=True)
    assert found.node.logs.get_log(FLIGHT) is None
    assert not strays(found)


@pytest.mark.parametrize("end", ["is being deleted", "was made again", "is gone"])
def test_a_replica_of_a_topic_that_has_ended_meanwhile_is_deleted(end: str) -> None:
    """It was moved away before, so the controller that deletes the topic sends no StopReplica."""
    found = taken_for_dead(1, ME, is_connected=False)
    if end == "is gone":
        found.zookeeper._must(Delete("/brokers/topics/flights"))
    found.session.connect()
    found.zookeeper.deliver()
    if end == "is being deleted":
        found.update(known("flights", FLIGHTS, [1, 2], leader=-2))
    elif end == "was made again":
        found.update(known("flights", bytes(15) + b"\x02", [1, 2]))
    assert found.partition("flights") is None
    assert found.node.logs.get_log(FLIGHT) is None
    assert not strays(found)


# -- one that a controller took for dead, and whose session has lasted ------------------------------------------------


def test_another_controller_has_what_was_moved_away_unheard_of_set_aside() -> None:
    found = with_replica(1, ME)
    found.update(controller_epoch=2)
    assert found.partition("flights") is not None
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5), controller_epoch=2)
    assert found.partition("flights") is None
    assert len(strays(found)) == 1


def test_another_controller_confirms_what_stays() -> None:
    found = with_replica(1, ME)
    found.lead(leading("flights", FLIGHTS, [1, ME], epoch=3, version=3), controller_epoch=2)
    found.update(known("flights", FLIGHTS, [1, 2], epoch=5), controller_epoch=2)
    assert found.partition("flights") is not None


@pytest.mark.parametrize("controller_epoch", [1, 2])
def test_a_topic_that_was_deleted_unheard_of_is_gone_with_another_controller(controller_epoch: int) -> None:
    found = with_replica(1, ME)
    has_topic(found.zookeeper, "delays", bytes(15) + b"\x02", [1])
    found.update(known("delays", bytes(15) + b"\x02", [1]))
    found.zookeeper._must(Delete("/brokers/topics/delays"))
    found.update(controller_epoch=controller_epoch)
    assert ("delays" in found.control.image.topic_ids) is (controller_epoch == 1)
    assert found.partition("flights") is not None
