"""ISRs that brokers of before 2.7 write themselves, and tell in `/isr_change_notification`; today they ask for them."""

from __future__ import annotations

import json

from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller import controller_znodes
from barnabas.broker.zookeeper.operations import Create, SetData
from tests.support.controller_world import ControllerWorld
from tests.unit.broker.zookeeper.controller.test_controller_topics import FLIGHTS, world_with

NOTIFICATION = f"{controller_znodes.ISR_CHANGES}/isr_change_"


def shrink(world: ControllerWorld, *isr: int) -> None:
    """What an old leader does: it writes the state, and tells of it."""
    state = world.state("flights")._replace(isr=isr)
    listed = {"version": 1, "partitions": [{"topic": "flights", "partition": 0}]}
    world.write(
        SetData(znodes.state_path("flights", 0), znodes.encode_state(state)),
        Create(NOTIFICATION, json.dumps(listed).encode(), sequential=True),
    )
    world.settle()


def known(world: ControllerWorld) -> tuple[tuple[int, ...], int]:
    """The ISR that the controller goes by, and the version of the znode that it is from."""
    active = world.controller.controller.active
    assert active is not None
    found = active.context.leadership[FLIGHTS]
    return found.isr, found.partition_epoch


def test_the_controller_takes_over_what_a_leader_has_written_and_tells_the_brokers() -> None:
    world = world_with([2, 3], brokers=3)
    before = known(world)[1]

    shrink(world, 2)

    assert known(world) == ((2,), before + 1)
    assert not world.zookeeper.nodes[controller_znodes.ISR_CHANGES].children
    assert [member.broker.metadata[FLIGHTS].isr for member in world.members.values()] == [[2]] * 3


def test_who_leads_next_is_elected_from_that_isr() -> None:
    world = world_with([2, 3, 1], brokers=3)
    shrink(world, 2, 1)

    world.kill(2)

    assert (world.state("flights").leader, world.state("flights").isr) == (1, (1,))


def test_what_was_told_while_there_was_no_controller_is_taken_by_the_next() -> None:
    world = world_with([2, 3], brokers=3)
    world.kill(1, settles=False)
    shrink(world, 3)

    world.kill(2)

    assert world.state("flights").leader == 3
    assert not world.zookeeper.nodes[controller_znodes.ISR_CHANGES].children
