"""Topics, partitions and their replicas as a controller makes, moves and deletes them: one rule a test."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.operations import Create, Delete, SetData
from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_world import ControllerWorld

FLIGHTS = TopicPartition("flights", 0)


def world_with(*replicas: list[int], brokers: int = 3, **configs: str) -> ControllerWorld:
    """Brokers, the first of which is controller, and the topic `flights`."""
    world = ControllerWorld(brokers).start()
    world.create("flights", *replicas, **configs)
    return world.settle()


def result(responses: list[Any]) -> int:
    """The error of the only partition that was asked for."""
    (response,) = responses
    if hasattr(response, "replica_election_results"):
        return int(response.replica_election_results[0].partition_result[0].error_code)
    topics = getattr(response, "responses", None) or response.topics
    return int(topics[0].partitions[0].error_code)


# -- new topics ------------------------------------------------------------------------------------------------------


def test_the_first_replica_leads_and_all_that_are_alive_are_in_sync() -> None:
    world = world_with([2, 3, 1], [3, 9, 1])
    assert world.state("flights", 0) == znodes.PartitionState(2, 0, (2, 3, 1), 1)
    assert world.state("flights", 1) == znodes.PartitionState(3, 0, (3, 1), 1)


def test_a_partition_without_a_replica_that_is_alive_waits_for_one() -> None:
    world = ControllerWorld().start(1, 2)
    world.create("flights", [3])
    world.settle()
    assert world.data(znodes.state_path("flights", 0)) is None
    world.start(3)
    assert world.state("flights").leader == 3


def test_replicas_are_told_first_then_all_brokers() -> None:
    world = world_with([2, 3])
    kinds = [type(request) for request in world.members[2].broker.received]
    assert kinds[-2:] == [LeaderAndIsrRequest, UpdateMetadataRequest]
    assert type(world.members[1].broker.received[-1]) is UpdateMetadataRequest
    told = next(one for one in world.members[3].broker.received if isinstance(one, LeaderAndIsrRequest))
    (state,) = told.topic_states[0].partition_states
    assert (state.is_new, state.leader, state.isr, state.replicas) == (True, 2, [2, 3], [2, 3])
    assert told.topic_states[0].topic_id == world.topic("flights").topic_id
    assert [(one.broker_id, one.host_name) for one in told.live_leaders] == [(2, "host")]
    assert told.broker_epoch == world.members[3].broker.broker_epoch


def test_partitions_that_are_added_are_made() -> None:
    world = world_with([1, 2])
    world.enlarge("flights", [2, 3])
    world.settle()
    assert world.state("flights", 1) == znodes.PartitionState(2, 0, (2, 3), 1)
    assert FLIGHTS._replace(partition=1) in world.members[3].broker.replicas


def test_a_topic_of_before_2_8_gets_an_id() -> None:
    world = ControllerWorld().start()
    world.write(Create(znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[1,2]}}'))
    world.settle()
    topic_id = world.topic("old").topic_id
    assert topic_id is not None
    assert world.members[2].broker.replicas[TopicPartition("old", 0)].topic_id == topic_id


# -- brokers that die and come back ----------------------------------------------------------------------------------


def test_the_next_replica_in_sync_leads_in_the_next_epoch_and_the_dead_one_leaves_the_isr() -> None:
    world = world_with([3, 2, 1])
    world.kill(3)
    state = world.state("flights")
    assert (state.leader, state.isr) == (2, (2, 1))
    assert state.leader_epoch > 0
    assert world.members[1].broker.metadata[FLIGHTS].offline_replicas == [3]


def test_a_follower_that_dies_leaves_the_isr_and_the_leader_stays() -> None:
    world = world_with([1, 3])
    world.kill(3)
    assert world.state("flights") == znodes.PartitionState(1, 1, (1,), 1)
    assert world.members[1].broker.replicas[FLIGHTS].isr == [1]


def test_the_last_one_in_sync_stays_in_the_isr_and_leads_again_when_it_is_back() -> None:
    world = world_with([3])
    world.kill(3)
    assert world.state("flights") == znodes.PartitionState(-1, 1, (3,), 1)
    world.start(3)
    assert world.state("flights") == znodes.PartitionState(3, 2, (3,), 1)


def test_nobody_out_of_sync_leads() -> None:
    world = world_with([3, 2])
    world.propose(3, FLIGHTS, [3])
    world.settle()
    world.kill(3)
    assert (world.state("flights").leader, world.state("flights").isr) == (-1, (3,))


@pytest.mark.parametrize("how", ["topic", "broker", "client"])
def test_one_out_of_sync_leads_where_that_is_allowed(how: str) -> None:
    configs = {"unclean_leader_election_enable": "true"} if how == "topic" else {}
    world = world_with([3, 2], **configs)
    world.allows_unclean = how == "broker"
    world.propose(3, FLIGHTS, [3])
    world.settle()
    world.kill(3)
    if how == "client":
        assert world.state("flights").leader == -1
        asked = world.elect("flights", 0, unclean=True)
        world.settle()
        assert result(asked) == 0
    state = world.state("flights")
    assert (state.leader, state.isr, state.leader_recovery_state) == (2, (2,), 1)


def test_a_setting_that_allows_it_is_heeded_when_it_comes() -> None:
    world = world_with([3, 2])
    world.propose(3, FLIGHTS, [3])
    world.settle()
    world.kill(3)
    settings = znodes.encode_config({"unclean.leader.election.enable": "true"})
    world.write(SetData(f"{znodes.CONFIG}/topics/flights", settings))
    active = world.controller.controller.active
    assert active is not None
    active.put("unclean", lambda: active.unclean_allowed("flights"))
    world.settle()
    assert world.state("flights").leader == 2


def test_a_broker_that_comes_back_is_told_of_all_that_it_has_and_leads_nothing_yet() -> None:
    world = world_with([3, 1], [1, 2])
    world.kill(3)
    world.start(3)
    broker = world.members[3].broker
    assert broker.replicas[FLIGHTS].leader == 1
    assert sorted(broker.metadata) == [FLIGHTS, FLIGHTS._replace(partition=1)]
    assert broker.alive == {1, 2, 3}
    world.join_isrs()
    world.settle()
    assert world.state("flights").isr == (3, 1)


def test_a_broker_that_restarts_before_anyone_looks_loses_its_leadership() -> None:
    world = world_with([3, 2])
    world.members[3].kill()
    world.zookeeper.end(world.members[3].session.id)
    world.members[3].start()
    world.settle()
    assert (world.state("flights").leader, world.state("flights").isr) == (2, (2,))
    assert world.members[3].broker.replicas[FLIGHTS].leader == 2


def test_another_address_of_a_broker_that_is_alive_is_told() -> None:
    world = world_with([1, 2])
    path = f"{znodes.BROKER_IDS}/2"
    moved = (world.data(path) or b"").replace(b"PLAINTEXT://host:", b"PLAINTEXT://elsewhere:")
    world.write(SetData(path, moved))
    world.settle()
    told = [one for one in world.members[1].broker.received if isinstance(one, UpdateMetadataRequest)][-1]
    assert {broker.id: broker.endpoints[0].host for broker in told.live_brokers}[2] == "elsewhere"


def test_a_disk_that_fails_takes_its_replicas_offline_and_one_that_works_again_brings_them_back() -> None:
    world = world_with([3, 2], [3, 2])
    world.members[3].broker.failing.add(FLIGHTS)
    path = f"{controller_znodes.LOG_DIR_EVENTS}/{controller_znodes.LOG_DIR_EVENT_PREFIX}"
    world.write(Create(path, controller_znodes.encode_log_dir_event(3), sequential=True))
    world.settle()
    assert (world.state("flights").leader, world.state("flights").isr) == (2, (2,))
    assert world.state("flights", 1).leader == 3
    assert not world.zookeeper.nodes[controller_znodes.LOG_DIR_EVENTS].children
    world.members[3].broker.failing.clear()
    world.kill(3)
    world.start(3)
    world.join_isrs()
    world.settle()
    assert world.state("flights").isr == (3, 2)


def test_a_controlled_shutdown_moves_leaderships_and_names_what_nobody_else_can_lead() -> None:
    world = world_with([3, 2], [2, 3], [3, 2])
    world.propose(3, FLIGHTS._replace(partition=2), [3])
    world.settle()
    asked = world.shut_down(3)
    world.settle()
    assert (world.state("flights", 0).leader, world.state("flights", 0).isr) == (2, (2,))
    assert world.state("flights", 1).isr == (2,)
    (response,) = asked
    assert [(one.topic_name, one.partition_index) for one in response.remaining_partitions] == [("flights", 2)]
    stopped = [one for one in world.members[3].broker.received if isinstance(one, StopReplicaRequest)]
    assert not stopped[-1].topic_states[0].partition_states[0].delete_partition


def test_a_broker_that_shuts_down_is_not_elected() -> None:
    world = world_with([3, 2])
    world.shut_down(2)
    world.settle()
    world.kill(3)
    assert world.state("flights").leader == -1


def test_a_shutdown_of_an_earlier_life_is_refused() -> None:
    world = world_with([3, 2])
    world.members[3].broker.broker_epoch -= 1
    asked = world.shut_down(3)
    world.settle()
    assert asked[0].error_code == errors.StaleBrokerEpochError.code
    assert world.state("flights").leader == 3


# -- elections -------------------------------------------------------------------------------------------------------


def test_the_preferred_replica_leads_again_when_it_is_asked_for() -> None:
    world = world_with([3, 2])
    world.kill(3)
    world.start(3)
    world.join_isrs()
    world.settle()
    asked = world.elect("flights", 0)
    world.settle()
    assert result(asked) == 0
    assert (world.state("flights").leader, world.state("flights").isr) == (3, (3, 2))


def test_elections_that_are_not_needed_or_not_possible_say_so() -> None:
    world = world_with([3, 2])
    asked = world.elect("flights", 0)
    unclean = world.elect("flights", 0, unclean=True)
    unknown = world.elect("delays", 0)
    world.settle()
    assert result(asked) == result(unclean) == errors.ElectionNotNeededError.code
    assert result(unknown) == errors.UnknownTopicOrPartitionError.code
    world.kill(3)
    asked = world.elect("flights", 0)
    world.settle()
    assert result(asked) == errors.PreferredLeaderNotAvailableError.code


def test_leaderships_go_back_by_themselves() -> None:
    world = ControllerWorld(rebalances=True).start()
    world.create("flights", [3, 2])
    world.settle()
    world.kill(3)
    world.start(3)
    world.join_isrs()
    world.settle()
    assert world.state("flights").leader == 2
    for _ in range(10):
        world.now += 1
        world.tick()
        world.settle()
    assert world.state("flights").leader == 3


def test_what_an_old_tool_has_written_is_elected() -> None:
    world = world_with([3, 2])
    world.kill(3)
    world.start(3)
    world.join_isrs()
    world.settle()
    data = controller_znodes.encode_reassignments([(FLIGHTS, ())])
    world.write(Create(controller_znodes.PREFERRED_ELECTION, data))
    world.settle()
    assert world.state("flights").leader == 3
    assert controller_znodes.PREFERRED_ELECTION not in world.zookeeper.nodes


# -- deletion --------------------------------------------------------------------------------------------------------


def test_a_topic_is_gone_when_all_its_replicas_are() -> None:
    world = world_with([1, 2], [2, 3])
    world.delete("flights")
    world.settle()
    assert not world.topics
    assert not world.zookeeper.nodes[znodes.DELETE_TOPICS].children
    assert not world.zookeeper.nodes[f"{znodes.CONFIG}/topics"].children
    assert not any(member.broker.replicas or member.broker.metadata for member in world.running)


def test_a_topic_waits_for_a_replica_that_is_away() -> None:
    world = world_with([1, 3])
    world.kill(3)
    world.delete("flights")
    world.settle()
    assert world.topics == ["flights"]
    world.start(3)
    assert not world.topics
    assert FLIGHTS not in world.members[3].broker.replicas


def test_the_next_controller_goes_on_with_a_deletion() -> None:
    world = world_with([2, 3])
    world.members[3].is_paused = True
    world.delete("flights")
    world.settle()
    assert world.topics == ["flights"]
    world.kill(1, settles=False)
    world.members[3].is_paused = False
    world.settle()
    assert not world.topics


def test_a_replica_that_cannot_be_deleted_is_when_its_broker_is_back() -> None:
    world = world_with([1, 3])
    world.members[3].broker.failing.add(FLIGHTS)
    world.delete("flights")
    world.settle()
    assert world.topics == ["flights"]
    world.members[3].broker.failing.clear()
    world.kill(3)
    world.start(3)
    assert not world.topics


def test_a_wish_for_a_topic_that_is_not_there_is_forgotten() -> None:
    world = ControllerWorld().start()
    world.delete("nothing")
    world.settle()
    assert not world.zookeeper.nodes[znodes.DELETE_TOPICS].children


def test_a_topic_that_is_being_moved_is_deleted_with_all_its_replicas() -> None:
    world = world_with([1, 2])
    world.reassign("flights", {0: [3]})
    world.settle()
    world.delete("flights")
    world.settle()
    assert not world.topics
    assert not any(member.broker.replicas for member in world.running)


def test_partitions_that_are_added_to_a_topic_that_goes_are_taken_back() -> None:
    world = world_with([1, 3])
    world.kill(3)
    world.delete("flights")
    world.settle()
    world.enlarge("flights", [2])
    world.settle()
    assert list(world.topic("flights").replicas) == [0]


def test_a_topic_that_is_made_again_is_another_one() -> None:
    world = world_with([1, 2])
    first = world.topic("flights").topic_id
    world.delete("flights")
    world.settle()
    world.create("flights", [2, 1])
    world.settle()
    assert world.topic("flights").topic_id != first
    assert world.state("flights") == znodes.PartitionState(2, 0, (2, 1), 1)
    assert world.members[1].broker.replicas[FLIGHTS].topic_id == world.topic("flights").topic_id


def test_all_brokers_hear_of_a_deletion_that_the_controller_before_left_without_states() -> None:
    """It may have died before it told all of them, and what has no state was told to none."""
    world = world_with([1, 3])
    world.write(Create(f"{znodes.DELETE_TOPICS}/flights"))
    partitions = f"{znodes.topic_path('flights')}/partitions"
    for path in (znodes.state_path("flights", 0), f"{partitions}/0", partitions):
        world.write(Delete(path))
    world.kill(1)
    world.start(1)
    assert not world.topics
    assert not any(member.broker.metadata for member in world.members.values())
