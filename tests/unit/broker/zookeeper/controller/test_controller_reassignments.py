"""Partitions that get other replicas, and what goes then: one rule a test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import errors
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.controller.controller_context import ReplicaAssignment
from barnabas.broker.zookeeper.operations import Create
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from tests.support.controller_world import ControllerWorld, Way
from tests.unit.broker.zookeeper.controller.test_controller_topics import FLIGHTS, result, world_with


def test_an_assignment_knows_what_comes_and_goes() -> None:
    way = ReplicaAssignment((1, 2)).reassigned_to((3, 2))
    assert way == ReplicaAssignment((3, 2, 1), (3,), (1,))
    assert (way.origin, way.target) == ((2, 1), (3, 2))
    assert way.reassigned_to((4, 2)) == ReplicaAssignment((4, 2, 1), (4,), (1,))
    assert way.reassigned_to(way.origin) == ReplicaAssignment((2, 1), (), ())


def test_replicas_that_come_are_told_and_the_znode_says_so() -> None:
    world = world_with([1, 2], brokers=4)
    asked = world.reassign("flights", {0: [3, 4]})
    world.settle()
    assert result(asked) == 0
    found = world.topic("flights")
    assert (found.replicas[0], found.adding[0], found.removing[0]) == ((3, 4, 1, 2), (3, 4), (1, 2))
    held = world.members[3].broker.replicas[FLIGHTS]
    assert (held.leader, held.leader_epoch) == (1, 1)
    assert world.state("flights").isr == (1, 2)


def test_a_reassignment_ends_when_all_that_stay_are_in_sync() -> None:
    world = world_with([1, 2], brokers=4)
    world.reassign("flights", {0: [3, 4]})
    world.settle()
    world.join_isrs()
    world.settle()
    found, state = world.topic("flights"), world.state("flights")
    assert (found.replicas[0], found.adding, found.removing) == ((3, 4), {}, {})
    assert (state.leader, set(state.isr)) == (3, {3, 4})
    assert FLIGHTS not in world.members[1].broker.replicas
    assert world.members[2].broker.metadata[FLIGHTS].replicas == [3, 4]


def test_a_reassignment_that_is_cancelled_leaves_what_was_there() -> None:
    world = world_with([1, 2])
    world.reassign("flights", {0: [3]})
    world.settle()
    asked = world.reassign("flights", {0: None})
    world.settle()
    assert result(asked) == 0
    assert world.topic("flights").replicas[0] == (1, 2)
    assert FLIGHTS not in world.members[3].broker.replicas
    again = world.reassign("flights", {0: None})
    world.settle()
    assert result(again) == errors.NoReassignmentInProgressError.code


def hold_up_deletions(world: ControllerWorld, *brokers: int) -> None:
    """Let nothing go to these brokers any more when a StopReplica is on its way to each, and go on without them."""
    held: set[int] = set()
    while held != set(brokers):
        ways = [way for one in world.running for way in one.ways.values() if way.in_flight is not None]
        for way in ways:
            node, request = way.in_flight
            if node.id not in brokers or not isinstance(request, StopReplicaRequest):
                way.arrive()
            else:
                held.add(node.id)
        assert sum(step() for step in world.steps() if getattr(step, "__name__", "") != "arrive") or ways
    for number in brokers:
        world.members[number].is_paused = True
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass


def cancelled() -> ControllerWorld:
    """A reassignment to broker 4 was cancelled, which has not heard yet that it is to delete its replica."""
    world = world_with([2, 3], brokers=4)
    world.reassign("flights", {0: [4, 3]})
    world.settle()
    world.reassign("flights", {0: None})
    hold_up_deletions(world, 4)
    return world


def test_what_was_added_in_vain_is_shown_until_it_is_deleted() -> None:
    world = cancelled()
    assert world.topic("flights").removing[0] == (4,)
    world.members[4].is_paused = False
    world.settle()
    assert set(world.topic("flights").replicas[0]) == {2, 3}
    assert not world.topic("flights").removing
    assert FLIGHTS not in world.members[4].broker.replicas


def test_the_next_controller_has_what_was_added_in_vain_deleted() -> None:
    world = cancelled()
    world.members[1].session.expire()
    world.members[1].kill()
    world.in_network.clear()
    world.members[4].is_paused = False
    world.settle()
    assert set(world.topic("flights").replicas[0]) == {2, 3}
    assert not world.topic("flights").removing
    assert FLIGHTS not in world.members[4].broker.replicas


def test_another_reassignment_goes_on_while_what_was_added_in_vain_is_deleted() -> None:
    world = world_with([2, 3], brokers=5)
    world.reassign("flights", {0: [4, 3]})
    world.settle()
    world.reassign("flights", {0: [5, 3]})
    hold_up_deletions(world, 4)
    found = world.topic("flights")
    assert (found.adding[0], found.removing[0]) == ((5, 4), (2, 4))
    world.join_isrs()
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass
    assert world.state("flights").leader == 5
    world.members[4].is_paused = False
    world.settle()
    assert world.topic("flights").replicas[0] == (5, 3)
    assert not world.topic("flights").removing
    assert FLIGHTS not in world.members[2].broker.replicas
    assert FLIGHTS not in world.members[4].broker.replicas


def test_a_replica_that_is_wanted_again_before_it_is_deleted_is_made_anew() -> None:
    world = cancelled()
    world.reassign("flights", {0: [4, 3]})
    world.members[4].is_paused = False
    world.settle()
    assert world.topic("flights").adding[0] == (4,)
    world.join_isrs()
    world.settle()
    assert world.topic("flights").replicas[0] == (4, 3)
    assert not world.members[4].broker.replicas[FLIGHTS].is_stopped


def moving_away(*others: list[int]) -> ControllerWorld:
    """The replica of broker 2 has moved to broker 4, and broker 2 has not heard yet that it is to delete its own."""
    world = world_with([2, 3], *others, brokers=4)
    world.reassign("flights", {0: [4, 3]})
    world.settle()
    world.join_isrs()
    member = world.members[2]
    while not any(
        isinstance(way.in_flight[1], StopReplicaRequest) and way.in_flight[0].id == 2
        for one in world.running
        for way in one.ways.values()
        if way.in_flight is not None
    ):
        assert any(step() for step in world.steps() if getattr(step, "__name__", "") != "arrive")
        for way in [way for one in world.running for way in one.ways.values()]:
            if way.in_flight is not None and not isinstance(way.in_flight[1], StopReplicaRequest):
                way.arrive()
    member.is_paused = True
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass
    return world


def test_a_reassignment_ends_when_what_goes_was_deleted() -> None:
    world = moving_away()
    found = world.topic("flights")
    assert (found.adding[0], found.removing[0]) == ((4,), (2,))
    assert world.state("flights").leader == 4
    world.members[2].is_paused = False
    world.settle()
    assert world.topic("flights") == found._replace(replicas={0: (4, 3)}, adding={}, removing={})
    assert FLIGHTS not in world.members[2].broker.replicas


def test_the_next_controller_has_what_goes_deleted() -> None:
    world = moving_away()
    world.members[1].session.expire()
    world.members[1].kill()
    world.in_network.clear()
    world.members[2].is_paused = False
    world.settle()
    assert world.topic("flights").replicas[0] == (4, 3)
    assert not world.topic("flights").removing
    assert FLIGHTS not in world.members[2].broker.replicas


def test_what_goes_is_not_forgotten_when_the_topic_is_written_for_another_partition() -> None:
    world = moving_away([3, 1])
    world.reassign("flights", {1: [3, 4]})
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass
    assert world.topic("flights").adding[1] == (4,)
    assert world.topic("flights").removing[0] == (2,)
    world.members[1].session.expire()
    world.members[1].kill()
    world.in_network.clear()
    world.members[2].is_paused = False
    world.settle()
    world.join_isrs()
    world.settle()
    assert not world.topic("flights").removing
    assert FLIGHTS not in world.members[2].broker.replicas


def test_a_reassignment_does_not_wait_for_a_broker_that_is_gone() -> None:
    world = moving_away()
    world.members[2].is_paused = False
    world.kill(2)
    assert world.topic("flights").replicas[0] == (4, 3)
    assert not world.topic("flights").removing


def moved_away_and_written_again() -> ControllerWorld:
    """As `moving_away`, and the topic was written since, for another partition of it."""
    world = moving_away([3, 1])
    world.reassign("flights", {1: [3, 4]})
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass
    return world


@pytest.mark.parametrize("is_whole", [True, False], ids=["all in sync", "one away"])
@pytest.mark.parametrize("target", [None, [3, 1], [4, 3]], ids=["cancelled", "another", "the same"])
@pytest.mark.parametrize(
    ("begin", "late", "before"),
    [(cancelled, 4, {2, 3}), (moving_away, 2, {3, 4}), (moved_away_and_written_again, 2, {3, 4})],
)
def test_what_is_asked_of_the_next_controller_before_all_is_deleted_leaves_no_replica_too_many(
    begin: Callable[[], ControllerWorld], late: int, before: set[int], target: list[int] | None, is_whole: bool
) -> None:
    """What was before is what a reassignment that is cancelled ends with, without what only waits to be deleted."""
    world = begin()
    world.members[1].session.expire()
    world.members[1].kill()
    world.in_network.clear()
    if not is_whole:
        world.kill(3, settles=False)
    for _ in range(3):
        while sum(step() for step in world.steps()):
            pass
    world.start(1)
    asked = world.reassign("flights", {0: target})
    world.members[late].is_paused = False
    if not is_whole:
        world.start(3)
    world.settle()
    world.join_isrs()
    world.settle()
    # Refused where the only replica in sync would go.
    wanted = before if target is None or result(asked) else set(target)
    assert set(world.topic("flights").replicas[0]) == wanted
    assert 0 not in {**world.topic("flights").adding, **world.topic("flights").removing}
    assert {number for number, member in world.members.items() if FLIGHTS in member.broker.replicas} == wanted


@pytest.mark.parametrize("target", [None, [3]])
def test_the_only_replica_in_sync_is_not_taken_away(target: list[int] | None) -> None:
    """It was added while the first one had not been alive yet, so it was the first leader."""
    world = ControllerWorld(4).start(1, 2, 3)
    world.create("flights", [4])
    world.settle()
    world.reassign("flights", {0: [4, 2]})
    world.settle()
    world.kill(1)
    world.members[4].start()
    world.settle()
    assert world.state("flights").isr == (2,)
    asked = world.reassign("flights", {0: target})
    world.settle()
    assert result(asked) == errors.InvalidReplicaAssignmentError.code
    assert FLIGHTS in world.members[2].broker.replicas
    assert world.state("flights").leader == 2


def test_partitions_that_are_added_while_another_is_reassigned_stay() -> None:
    world = world_with([1, 2])
    world.enlarge("flights", [2, 1])
    world.reassign("flights", {0: [3, 1]})
    world.settle()
    assert world.topic("flights").replicas[1] == (2, 1)
    assert world.state("flights", 1).leader == 2


@pytest.mark.parametrize("target", [[], [1, 1], [-1], [1, 9]])
def test_replicas_that_cannot_be_are_refused(target: list[int]) -> None:
    world = world_with([1, 2])
    asked = world.reassign("flights", {0: target})
    world.settle()
    assert result(asked) == errors.InvalidReplicaAssignmentError.code
    assert world.topic("flights").replicas[0] == (1, 2)


def test_the_next_controller_goes_on_with_a_reassignment() -> None:
    world = world_with([2, 3], brokers=4)
    world.reassign("flights", {0: [4, 3]})
    world.settle()
    world.kill(1)
    world.join_isrs()
    world.settle()
    assert world.topic("flights").replicas[0] == (4, 3)
    assert world.state("flights").leader == 4


def test_a_reassignment_waits_for_a_replica_that_is_away() -> None:
    world = world_with([1, 2], brokers=4)
    world.reassign("flights", {0: [3]})
    world.settle()
    world.kill(3)
    assert world.topic("flights").adding[0] == (3,)
    world.start(3)
    world.join_isrs()
    world.settle()
    assert world.topic("flights").replicas[0] == (3,)


def test_what_an_old_tool_has_written_is_reassigned() -> None:
    world = world_with([1, 2])
    world.write(Create(controller_znodes.REASSIGNMENTS, controller_znodes.encode_reassignments([(FLIGHTS, (3,))])))
    world.settle()
    assert world.topic("flights").adding[0] == (3,)
    assert controller_znodes.REASSIGNMENTS not in world.zookeeper.nodes


def test_what_a_reassignment_waits_for_is_forgotten_with_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that answers, or dies, after the topic has gone brings nothing of it back."""
    world = world_with([1, 2])
    arrive = Way.arrive
    monkeypatch.setattr(Way, "arrive", lambda way: way.requester.node.id != 2 and arrive(way))
    world.reassign("flights", {0: [1, 3]})
    take_steps(world)
    world.join_isrs()
    take_steps(world)
    context = world.controller.controller.active.context  # type: ignore[union-attr]
    assert context.replicas_stopping == {FLIGHTS: {2}}
    world.delete("flights")
    take_steps(world)
    assert not world.topics
    monkeypatch.undo()
    world.kill(2)
    assert not context.replicas_stopping
    assert not context.topics
    assert not context.replica_states


def take_steps(world: ControllerWorld) -> None:
    for _ in range(2000):
        for one in world.steps():
            one()
