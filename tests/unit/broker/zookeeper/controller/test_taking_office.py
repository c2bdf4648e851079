"""What a broker that becomes controller goes by, of what it has learned before."""

from __future__ import annotations

import pytest

from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt
from tests.support.controller_world import Member
from tests.unit.broker.zookeeper.controller.test_ended_brokers import world_with


@pytest.mark.parametrize("is_registered", [True, False])
def test_who_takes_office_goes_by_what_it_has_learned_of_the_machine_of_the_last_controller(
    is_registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt had come to nothing before, and the next one decides; a life that is over is watched no more."""
    attempts: list[Attempt] = []
    connect = Member._connect

    def noted(member: Member, attempt: Attempt) -> None:
        if (member.id, attempt.life.id) == (3, 1):
            attempts.append(attempt)
        connect(member, attempt)

    monkeypatch.setattr(Member, "_connect", noted)
    world = world_with([1, 2, 3])
    third = world.members[3].controller
    (life,) = third.lifelines.lives
    world.members[2].is_paused = True
    world.isolate(1)
    world.members[1].kill()
    attempts.clear()
    while not third.lifelines._machines.is_silent(life):
        world.now += 0.05
        world.tick()
        for one in world.steps():
            one()
    assert (len(attempts), third.active) == (1, None)
    if is_registered:
        world.depose()
    else:
        world.zookeeper.end(world.members[1].session.id)
    for _ in range(4):
        world.now += 0.1
        world.tick()
        for _ in range(200):
            for one in world.steps():
                one()
    assert third.active is not None
    assert {held.id for held in third.lifelines.lives} == {2, 3}
    assert len(attempts) == 1 + is_registered
    assert world.given_up == [(3, 1)] * is_registered
    assert world.state("flights").leader == 2
