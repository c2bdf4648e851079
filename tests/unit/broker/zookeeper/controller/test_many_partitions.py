"""Many partitions cost the controller no more requests, and no more round trips to ZooKeeper, than a few."""

from __future__ import annotations

import pytest

from barnabas.broker.zookeeper.operations import Multi
from tests.support.controller_world import ControllerWorld


def world_with(partitions: int) -> ControllerWorld:
    world = ControllerWorld(3).start()
    world.create("flights", *([2 + index % 2, 3 - index % 2, 1] for index in range(partitions)))
    return world.settle()


def requests_of_a_death(world: ControllerWorld) -> list[str]:
    """What broker 2 is told when broker 3 ends."""
    received = world.members[2].broker.received
    before = len(received)
    world.kill(3)
    return [type(request).__name__ for request in received[before:]]


def test_a_death_takes_as_many_requests_with_many_partitions_as_with_few() -> None:
    few, many = world_with(4), world_with(300)
    assert requests_of_a_death(many) == requests_of_a_death(few)
    assert all(many.state("flights", index).leader == 2 for index in range(300))


def test_states_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with(300)
    written: list[Multi] = []
    original = world.zookeeper.carry_out

    def carry_out(session: int, operation: object) -> object:
        if isinstance(operation, Multi):
            written.append(operation)
        return original(session, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(world.zookeeper, "carry_out", carry_out)
    world.kill(3)
    # Broker 3 led 150 of 300 partitions, and leaves the ISRs of the others: two transactions for each half.
    assert len(written) == 4


def test_an_isr_costs_one_request_to_each_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with(300)
    before = {member.id: len(member.broker.received) for member in world.running}
    name = world.members[2].broker.led[0]
    world.propose(2, name, [2, 1])
    world.settle()
    for member in world.running:
        (request,) = member.broker.received[before[member.id] :]
        assert [len(topic.partition_states) for topic in request.topic_states] == [1]
