"""Lines of CHECKLIST.md that several brokers show: replication, the controller, coordinators, metadata in ZooKeeper."""

from __future__ import annotations

import json

import pytest

from barnabas import errors
from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.cluster_member import MemberBroker, broker, topic
from tests.support.controller_world import ControllerWorld
from tests.support.controllers import Controllers
from tests.support.core_broker import batch, fetch, produce
from tests.support.replicated_pair import FOLLOWER, LEADER, TOPIC, ReplicatedPair
from tests.support.zookeeper_member import ME, ZooKeeperBroker

ACKS_OF_ALL = produce(TOPIC, batch(b"kept"), acks=-1)


def three_brokers() -> Controllers:
    controllers = Controllers(3)
    controllers.elect()
    controllers.start(1, 2, 3)
    return controllers


def silence(controllers: Controllers, *alive: int) -> None:
    """Let a session pass in which only these are heard of."""
    for _ in range(12):
        controllers.tick(1.0)
        for number in alive:
            controllers.heartbeat(number)


def leaders(controllers: Controllers, name: str, count: int) -> list[int]:
    return [controllers.partition(name, index).leader for index in range(count)]


@pytest.mark.shows("S2.2", breaks="barnabas.broker.replication.replica_fetcher:ReplicaFetcher.receive")
def test_what_was_acknowledged_is_still_served_when_its_leader_is_gone() -> None:
    pair = ReplicatedPair(1)
    writer = pair.leader.broker.connect()
    assert writer.request(ACKS_OF_ALL, 11) is None, "it waits until the follower has it"
    pair.settle()
    assert writer.responses[0].responses[0].partition_responses[0].error_code == 0  # type: ignore[attr-defined]
    pair.follower.assign(range(1), PartitionRegistration((LEADER, FOLLOWER), (FOLLOWER,), FOLLOWER, 1, 1))
    reader = pair.follower.broker.connect()
    assert b"kept" in bytes(reader.request(fetch(TOPIC), 12).responses[0].partitions[0].records)


@pytest.mark.shows("S3.5", breaks="barnabas.broker.replication.replica_fetcher:ReplicaFetcher.add_partition")
def test_each_partition_of_a_topic_is_replicated_by_itself() -> None:
    pair = ReplicatedPair(2)
    pair.produce(0)
    pair.settle()
    ends = [pair.follower.partition(TopicPartition(TOPIC, index)).log.log_end_offset for index in range(2)]
    assert ends == [1, 0]
    # One of the two partitions is led by the other broker from now on.
    other_way_round = PartitionRegistration((LEADER, FOLLOWER), (LEADER, FOLLOWER), FOLLOWER, 1, 1)
    for one in (pair.follower, pair.leader):
        one.assign(range(1, 2), other_way_round)
    codes = {}
    for one in (pair.leader, pair.follower):
        for index in range(2):
            request = produce(TOPIC, batch(b"x"), index, acks=1)
            answer = one.broker.connect().request(request, 11).responses[0].partition_responses[0]
            codes[one.me, index] = answer.error_code
    refused = errors.NotLeaderOrFollowerError.code
    assert codes == {(LEADER, 0): 0, (LEADER, 1): refused, (FOLLOWER, 0): refused, (FOLLOWER, 1): 0}


@pytest.mark.shows("S3.6", breaks="barnabas.broker.controller.topic_control_manager:TopicControlManager._placed")
def test_the_replication_factor_is_between_1_and_the_number_of_brokers() -> None:
    controllers = three_brokers()
    wanted = {factor: controllers.create(f"of-{factor}", partitions=1, factor=factor) for factor in (0, 1, 2, 3, 4)}
    refused = errors.InvalidReplicationFactorError.code
    assert {factor: response.topics[0].error_code for factor, response in wanted.items()} == {
        0: refused, 1: 0, 2: 0, 3: 0, 4: refused,
    }  # fmt: skip
    assert [len(controllers.partition(f"of-{factor}").replicas) for factor in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.shows("S3.7", breaks="barnabas.broker.controller.quorum_controller:QuorumController.handle_leader_change")
def test_one_controller_of_the_quorum_is_active_and_another_when_it_ends() -> None:
    controllers = Controllers(3)
    controllers.elect(100)
    assert [one.is_active for one in controllers.controllers.values()] == [True, False, False]
    controllers.elect(102)
    assert [one.is_active for one in controllers.controllers.values()] == [False, False, True]


@pytest.mark.shows("S3.7", breaks="barnabas.broker.zookeeper.controller.kafka_controller:KafkaController.registered")
def test_one_broker_of_the_cluster_is_controller_and_another_when_it_dies() -> None:
    world = ControllerWorld().start()
    assert (len(world.controllers), world.controller.id) == (1, 1)
    world.kill(1)
    assert world.controller.id in (2, 3)
    assert {member.controller.controller_id for member in world.running} == {world.controller.id}


@pytest.mark.shows("S3.8", breaks="barnabas.broker.controller.broker_heartbeat_manager:BrokerHeartbeatManager.expired")
def test_the_controller_watches_the_other_brokers() -> None:
    controllers = three_brokers()
    silence(controllers, 1, 3)
    assert [controllers.active.state.is_active(number) for number in (1, 2, 3)] == [True, False, True]


@pytest.mark.shows(
    "S3.8", breaks="barnabas.broker.zookeeper.controller.active_controller:ActiveController._brokers_changed"
)
def test_the_controller_under_zookeeper_watches_the_other_brokers() -> None:
    world = ControllerWorld().start()
    watching = world.controller.controller.active
    assert watching is not None
    assert sorted(watching.context.brokers) == [1, 2, 3]
    world.kill(3)
    assert sorted(watching.context.brokers) == [1, 2]


@pytest.mark.shows("S3.9", breaks="barnabas.broker.controller.partition_change_builder:PartitionChangeBuilder._elect")
def test_what_a_lost_broker_led_is_led_by_a_replica_in_sync_and_replicas_stay_where_they_are() -> None:
    controllers = three_brokers()
    controllers.create("flights", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    assert leaders(controllers, "flights", 3) == [1, 2, 3]
    silence(controllers, 1, 3)
    assert leaders(controllers, "flights", 3) == [1, 3, 3]
    assert [controllers.partition("flights", index).replicas for index in range(3)] == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    assert all(2 not in controllers.partition("flights", index).isr for index in range(3))


@pytest.mark.shows(
    "S3.9", breaks="barnabas.broker.zookeeper.controller.partition_state_machine:PartitionStateMachine._elected"
)
def test_under_zookeeper_too_what_a_lost_broker_led_is_led_by_a_replica_in_sync() -> None:
    world = ControllerWorld().start()
    world.create("flights", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    world.settle()
    assert [world.state("flights", index).leader for index in range(3)] == [1, 2, 3]
    world.kill(2)
    assert [world.state("flights", index).leader for index in range(3)] == [1, 3, 3]
    assert world.topic("flights").replicas == {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
    assert all(2 not in world.state("flights", index).isr for index in range(3))


@pytest.mark.shows("S3.15", breaks="barnabas.broker.handlers.find_coordinator:handle")
def test_one_broker_of_the_cluster_is_the_coordinator_of_a_group() -> None:
    offsets = topic("__consumer_offsets", bytes(15) + b"\x02", [1, 3], [2, 3])
    found = MemberBroker({}, *broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three"), *offsets)
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"group-{number}" for number in range(20)])
    answers = found.connect().request(request, 4).coordinators
    assert {(answer.node_id, answer.host) for answer in answers} == {(1, "one"), (2, "two")}


@pytest.mark.shows("S3.18", breaks="barnabas.broker.zookeeper.metadata_znodes:read_cluster")
def test_zookeeper_holds_the_metadata_that_the_cluster_runs_by() -> None:
    zookeeper = ModelZooKeeper()
    world = ControllerWorld(zookeeper=zookeeper).start()
    world.create("flights", [3, 1], retention_ms="1000")
    world.settle()
    found = ZooKeeperBroker(zookeeper, {"broker.id": 9}, has_controller=False)
    assert found.node.metadata.topic("flights").configs == {"retention.ms": "1000"}  # type: ignore[union-attr]
    state = znodes.decode_state("", zookeeper.nodes[znodes.state_path("flights", 0)].data)
    assert (state.leader, sorted(state.isr)) == (3, [1, 3])
    assert json.loads(zookeeper.nodes[CONTROLLER].data or b"")["brokerid"] == world.controller.id


@pytest.mark.shows("S3.19", breaks="barnabas.broker.zookeeper.metadata_znodes:prepare")
def test_brokers_with_the_same_zookeeper_path_are_one_cluster() -> None:
    zookeeper = ModelZooKeeper()
    first = ZooKeeperBroker(zookeeper).register()
    second = ZooKeeperBroker(zookeeper, {"broker.id": 4}).register()
    assert first.node.metadata.cluster_id == second.node.metadata.cluster_id
    assert {f"{znodes.BROKER_IDS}/{number}" for number in (ME, 4)} <= set(zookeeper.nodes)


@pytest.mark.shows("S3.21", breaks="barnabas.broker.zookeeper.znodes:state_path")
def test_what_zookeeper_keeps_are_znodes_in_a_tree() -> None:
    world = ControllerWorld().start()
    world.create("flights", [1, 2])
    world.settle()
    path = "/brokers/topics/flights/partitions/0/state"
    parts = path.split("/")
    above = ["/".join(parts[:depth]) for depth in range(2, len(parts))]
    assert all(parent in world.zookeeper.nodes for parent in above)
    assert json.loads(world.zookeeper.nodes[path].data or b"")["leader"] == 1
