"""What a broker under ZooKeeper tells of being controller."""

from __future__ import annotations

import pytest

from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.broker.zookeeper.controller.controller_stats import ControllerState, state_of
from barnabas.broker.zookeeper.controller_numbers import controller_numbers
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_world import ControllerWorld
from tests.support.zookeeper_member import ZooKeeperBroker


def numbers(world: ControllerWorld) -> dict[str, float]:
    active = world.controller.controller.active
    assert active is not None
    return {
        name.rpartition("_")[2]: value for name, _, value in controller_numbers(active.context, ControllerState.IDLE)
    }


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


def test_a_broker_that_is_no_controller_says_so_and_knows_of_nothing() -> None:
    broker = ZooKeeperBroker().register()
    text = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0).text().decode()
    told = [line.split() for line in text.splitlines() if line.startswith("kafka_controller_kafkacontroller_")]
    assert {name.rpartition("_")[2] for name, value in told if value != "0.0"} == {"zkmigrationstate"}
    assert "kafka_controller_kafkacontroller_activecontrollercount" in {name for name, _ in told}


#: The beans of Apache Kafka 3.9 in ZooKeeper mode (KafkaController, ControllerEventManager, ControllerStats,
#: ControllerChannelManager); those with a broker have a sample for each.
_BEANS = {
    "KafkaController": (
        "ActiveControllerCount OfflinePartitionsCount PreferredReplicaImbalanceCount ControllerState GlobalTopicCount "
        "GlobalPartitionCount TopicsToDeleteCount ReplicasToDeleteCount TopicsIneligibleToDeleteCount "
        "ReplicasIneligibleToDeleteCount ActiveBrokerCount FencedBrokerCount ZkMigrationState"
    ),
    "ControllerEventManager": "EventQueueSize EventQueueTimeMs",
    "ControllerStats": (
        "ControllerChangeRateAndTimeMs LeaderElectionRateAndTimeMs TopicChangeRateAndTimeMs TopicDeletionRateAndTimeMs "
        "PartitionReassignmentRateAndTimeMs AutoLeaderBalanceRateAndTimeMs ManualLeaderBalanceRateAndTimeMs "
        "ControlledShutdownRateAndTimeMs IsrChangeRateAndTimeMs LeaderAndIsrResponseReceivedRateAndTimeMs "
        "LogDirChangeRateAndTimeMs UncleanLeaderElectionEnableRateAndTimeMs "
        "TopicUncleanLeaderElectionEnableRateAndTimeMs ListPartitionReassignmentRateAndTimeMs "
        "UpdateFeaturesRateAndTimeMs UncleanLeaderElections"
    ),
    "ControllerChannelManager": "TotalQueueSize QueueSize RequestRateAndQueueTimeMs",
}


@pytest.mark.parametrize("bean", sorted(_BEANS))
def test_the_controller_tells_its_numbers_under_kafkas_names(bean: str) -> None:
    broker = ZooKeeperBroker(has_controller=False).take_office()
    text = BrokerMetrics(broker.node, lambda: broker.instant, lambda: 0.0).text().decode()
    prefix = f"kafka_controller_{bean.lower()}_"
    families = {line.split()[2] for line in text.splitlines() if line.startswith(f"# TYPE {prefix}")}
    wanted = {f"{prefix}{name.lower()}" for name in _BEANS[bean].split()}
    assert {name.removesuffix("_total") for name in families} == wanted


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("/brokers/ids", "BROKER_CHANGE"),
        ("/brokers/ids/3", "BROKER_CHANGE"),
        ("/brokers/topics/flights", "TOPIC_CHANGE"),
        ("/admin/delete_topics", "TOPIC_DELETION"),
        ("AlterPartitionRequest", "ISR_CHANGE"),
        ("ElectLeadersRequest", "MANUAL_LEADER_BALANCE"),
        ("unclean election of a topic/flights", "TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE"),
        ("AllocateProducerIdsRequest", "IDLE"),
    ],
)
def test_an_event_says_what_the_controller_does(name: str, state: str) -> None:
    assert state_of(name) is ControllerState[state]


def test_events_and_requests_are_timed() -> None:
    broker = ZooKeeperBroker(has_controller=False).take_office()
    stats = broker.control.controller_stats
    assert stats.state is ControllerState.IDLE
    assert stats.queue_size == 0
    assert stats.times[ControllerState.CONTROLLER_CHANGE].count == 1
    assert stats.queue_times.count >= 1
    assert stats.request_times[3].count >= 1
    assert stats.request_queues() == {3: 0}


def test_a_leader_that_was_out_of_sync_is_counted() -> None:
    world = ControllerWorld().start()
    world.create("flights", [2, 3])
    world.settle()
    world.kill(3)
    world.kill(2)
    world.start(3)
    stats = world.controller.controller.stats
    assert stats.unclean_elections == 0
    world.elect("flights", 0, unclean=True)
    world.settle()
    assert (world.state("flights").leader, stats.unclean_elections) == (3, 1)
