"""What a broker under ZooKeeper tells of being controller."""

from __future__ import annotations

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.zookeeper.controller_numbers import controller_numbers
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_world import ControllerWorld
from tests.support.zookeeper_member import ZooKeeperBroker


def numbers(world: ControllerWorld) -> dict[str, float]:
    active = world.controller.controller.active
    assert active is not None
    return {name.rpartition("_")[2]: value for name, _, value in controller_numbers(active.context)}


def test_brokers_and_partitions_are_counted_as_the_controller_knows_them() -> None:
    world = ControllerWorld().start()
    world.create("flights", [1, 2], [3])
    world.settle()
    found = numbers(world)
    assert (found["activecontrollercount"], found["activebrokercount"], found["fencedbrokercount"]) == (1, 3, 0)
    assert (found["globaltopiccount"], found["globalpartitioncount"]) == (1, 2)
    assert (found["offlinepartitionscount"], found["preferredreplicaimbalancecount"]) == (0, 0)
    world.kill(3)
    found = numbers(world)
    assert (found["activebrokercount"], found["offlinepartitionscount"]) == (2, 1)
    assert found["preferredreplicaimbalancecount"] == 1


def test_a_topic_that_waits_for_its_end_counts_as_deleted_only() -> None:
    world = ControllerWorld().start()
    world.create("flights", [1, 2])
    world.settle()
    world.members[2].broker.failing.add(TopicPartition("flights", 0))
    world.delete("flights")
    world.settle()
    found = numbers(world)
    assert (found["topicstodeletecount"], found["topicsineligibletodeletecount"]) == (1, 1)
    assert found["replicastodeletecount"] == 2
    assert (found["globalpartitioncount"], found["offlinepartitionscount"]) == (0, 0)


def test_a_broker_that_is_no_controller_says_so_and_nothing_else_of_the_cluster() -> None:
    broker = ZooKeeperBroker().register()
    text = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0).text().decode()
    told = [line for line in text.splitlines() if line.startswith("kafka_controller_kafkacontroller_")]
    assert told == ["kafka_controller_kafkacontroller_activecontrollercount 0.0"]
