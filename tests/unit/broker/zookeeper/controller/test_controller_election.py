"""Who is controller: one for each epoch, and none that was replaced writes anything."""

from __future__ import annotations

import json

import pytest

from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.active_controller import ActiveController
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER, CONTROLLER_EPOCH
from barnabas.broker.zookeeper.operations import Create, Program, SetData, run
from barnabas.broker.zookeeper.znodes import state_path
from barnabas.errors import ControllerMovedError
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_world import ControllerWorld


def test_the_first_that_is_registered_is_elected_and_the_others_know_it() -> None:
    world = ControllerWorld().start()
    assert world.controller.id == 1
    assert [member.controller.controller_id for member in world.running] == [1, 1, 1]
    value = json.loads(world.data(CONTROLLER) or b"")
    assert value == {"version": 2, "brokerid": 1, "timestamp": "0", "kraftControllerEpoch": -1}
    assert world.data(CONTROLLER_EPOCH) == b"1"
    assert world.zookeeper.nodes[CONTROLLER].owner == world.controller.session.id


def test_one_that_is_not_registered_does_not_stand() -> None:
    world = ControllerWorld()
    world.zookeeper.put(f"{znodes.BROKER_IDS}/1", b"{}")
    world.start(1)
    assert not world.controllers
    assert CONTROLLER not in world.zookeeper.nodes


def test_the_next_is_elected_in_the_next_epoch() -> None:
    world = ControllerWorld().start()
    world.kill(1)
    assert world.controller.id in (2, 3)
    assert world.epoch == 2
    assert {member.controller.controller_id for member in world.running} == {world.controller.id}


def test_an_epoch_that_was_raised_meanwhile_makes_the_election_begin_again() -> None:
    world = ControllerWorld(1)
    world.zookeeper.put(CONTROLLER_EPOCH, b"7")
    world.members[1].start()
    while CONTROLLER not in world.zookeeper.nodes:
        world.zookeeper._must(SetData(CONTROLLER_EPOCH, b"9")) if world.epoch == 7 else None
        world.members[1].step()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 10)


def test_who_is_deposed_stands_again() -> None:
    world = ControllerWorld(1).start()
    world.depose()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 2)


def test_a_controller_that_was_replaced_writes_nothing() -> None:
    world = ControllerWorld().start()
    old = world.controller
    old.is_paused = True
    world.depose()
    world.settle()
    assert sorted(member.id for member in world.controllers) in ([1, 2], [1, 3])
    zk = old.controller.active.environment.zk  # type: ignore[union-attr]
    results: list[object] = []
    run(old.session, zk.write([Create("/admin/delete_topics/flights")]), results.append)
    run(old.session, zk.write_together([Create("/admin/delete_topics/delays")]), results.append)
    world.zookeeper.deliver()
    assert [type(result) for result in results] == [ControllerMovedError, ControllerMovedError]
    assert not world.zookeeper.nodes[znodes.DELETE_TOPICS].children


def test_a_paused_controller_that_goes_on_resigns_and_brokers_obey_the_new_one() -> None:
    world = ControllerWorld().start()
    old = world.controller
    old.is_paused = True
    world.depose()
    world.settle()
    world.create("flights", [1, 2])
    world.settle()
    old.is_paused = False
    world.settle()
    assert old.controller.active is None
    assert world.state("flights").controller_epoch == 2
    assert {member.broker.controller_epoch for member in world.running} == {2}


def test_a_reign_goes_on_where_the_connection_comes_back_in_the_same_session() -> None:
    world = ControllerWorld().start()
    world.create("delays", [2, 3])
    world.settle()
    world.members[1].session.disconnect()
    world.create("flights", [1, 2])
    world.enlarge("delays", [3, 2])
    world.kill(3)
    assert world.controller.id == 1
    world.members[1].session.connect()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 1)
    assert world.state("flights").leader == 1
    assert world.state("delays", 1).leader == 2
    world.delete("flights")
    world.settle()
    assert world.topics == ["delays"]


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_write_whose_answer_was_lost_is_carried_out_once(is_carried_out: bool) -> None:
    world = ControllerWorld().start()
    session = world.members[1].session
    world.create("flights", [1, 2])
    while world.data(state_path("flights", 0)) is None:
        assert any(step() for step in world.steps())
    if not is_carried_out:
        del world.zookeeper.nodes[state_path("flights", 0)]
    session.disconnect()
    session.connect()
    world.settle()
    assert (world.epoch, world.state("flights").leader_epoch) == (1, 0)
    for member in world.running:
        assert member.broker.metadata[TopicPartition("flights", 0)].leader == 1
    assert not world.reports


def test_a_reign_ends_where_what_became_of_a_write_cannot_be_told() -> None:
    world = ControllerWorld().start()
    session = world.members[1].session
    world.create("flights", [1, 2])
    path = state_path("flights", 0)
    while world.data(path) is None:
        assert any(step() for step in world.steps())
    session.disconnect()
    world.write(SetData(path, world.data(path)))
    session.connect()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 2)
    assert world.members[2].broker.metadata[TopicPartition("flights", 0)].leader == 1


def test_a_controller_that_reaches_no_server_for_as_long_as_a_session_lasts_is_none_any_more() -> None:
    world = ControllerWorld().start()
    world.members[1].session.disconnect()
    world.tick()
    world.now += 17
    world.tick()
    assert world.controller.id == 1
    world.now += 2
    world.tick()
    assert not world.controllers
    world.members[1].session.connect()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 2)


def test_a_session_that_expires_has_another_broker_elected() -> None:
    world = ControllerWorld().start()
    world.members[1].session.expire()
    world.settle()
    assert {member.id for member in world.controllers} in ({1, 2}, {1, 3})
    world.create("flights", [2, 3])
    world.members[1].session.connect()
    world.settle()
    assert world.controller.id in (2, 3)
    assert world.state("flights").controller_epoch == 2
    assert world.members[1].broker.broker_epoch == world.zookeeper.nodes[f"{znodes.BROKER_IDS}/1"].created


def test_an_election_that_was_won_unheard_is_taken_over_in_another_epoch() -> None:
    world = ControllerWorld(1)
    member = world.members[1]
    member.start()
    while CONTROLLER not in world.zookeeper.nodes:
        member.step()
    member.session.disconnect()
    member.session.connect()
    world.settle()
    assert (world.controller.id, world.epoch) == (1, 2)


def test_another_controller_epoch_in_a_state_ends_the_reign() -> None:
    world = ControllerWorld(2).start()
    world.create("flights", [1, 2])
    world.settle()
    later = world.state("flights")._replace(controller_epoch=5)
    world.write(SetData(znodes.state_path("flights", 0), znodes.encode_state(later)))
    world.kill(2)
    assert any("controller epoch 5" in text for text in world.reports)


def test_features_are_set_up_as_brokers_of_3_9_expect() -> None:
    world = ControllerWorld(1).start()
    assert world.data(controller_znodes.FEATURE) == b'{"features":{},"version":2,"status":1}'


def test_features_that_were_off_are_switched_on() -> None:
    world = ControllerWorld(1)
    world.zookeeper.put(controller_znodes.FEATURE, b'{"features":{},"version":1,"status":0}')
    world.start()
    assert world.data(controller_znodes.FEATURE) == b'{"features":{},"version":2,"status":1}'


def test_a_znode_that_cannot_be_read_is_left_out_and_named() -> None:
    world = ControllerWorld(2)
    world.zookeeper.put(znodes.topic_path("broken"), b"x")
    world.start()
    world.create("flights", [1, 2])
    world.settle()
    assert world.state("flights").leader == 1
    assert any("/brokers/topics/broken" in text for text in world.reports)


def test_who_cannot_take_office_leaves_it_to_others_and_stands_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ActiveController.failover

    def failover(self: ActiveController) -> Program[None]:
        if self.environment.settings.broker_id == 1:
            raise RuntimeError("a fault")
        return original(self)

    monkeypatch.setattr(ActiveController, "failover", failover)
    world = ControllerWorld(2)
    world.start()
    assert world.controller.id == 2
    assert any("cannot be controller" in text and "a fault" in text for text in world.reports)
    monkeypatch.undo()
    world.now += 2
    world.settle()
    world.kill(2)
    assert world.controller.id == 1
