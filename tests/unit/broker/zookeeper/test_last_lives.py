"""A broker that starts while the session of its last life lasts, and other processes in its place."""

from __future__ import annotations

from barnabas import errors
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ME, ZooKeeperBroker

MINE = f"/brokers/ids/{ME}"


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
