"""A controller under ZooKeeper after an exception before any line of its own: it, or another broker, goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from barnabas.broker.faults import fault_text
from barnabas.broker.guarded_requester import GuardedRequester
from barnabas.broker.requester import Requester
from barnabas.broker.zookeeper.guarded_session import GuardedSession
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelSession
from tests.support.controller_world import ControllerWorld, Member, Way
from tests.support.line_errors import EVERY, LineErrors, check_places

ROOMS = ("broker/zookeeper/controller/", "broker/zookeeper/operations")
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 100
FLIGHTS = TopicPartition("flights", 0)


class Session(GuardedSession):
    """A guarded session on the model, which the world drives."""

    def __init__(self, inner: ModelSession, tell: Callable[[str, Exception], None]) -> None:
        super().__init__(inner, tell)
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class GuardedMember(Member):
    """A process as `ZooKeeperControl` and `NodeChannel` make it: session and requesters are guarded."""

    def tell(self, what: str, problem: Exception) -> None:
        self.world.reports.append(fault_text(what, problem))

    def make_session(self) -> Any:
        session = Session(self.world.zookeeper.session(), self.tell)
        session.on_renew = lambda: self.controller.begin_anew()
        return session

    def open_to_broker(self, key: object, requester: Requester, name: str) -> None:
        self.ways[key] = Way(self.world, GuardedRequester(requester, self.tell), self.id)


class World(ControllerWorld):
    """A world in which lines fail; what raises in a tick is reported, as the dispatcher does it."""

    def __init__(self, errors: LineErrors) -> None:
        self.errors = errors
        self.is_checked = False
        super().__init__(3, rebalances=True)
        self.members: dict[int, Member] = {number: GuardedMember(self, number) for number in self.members}
        self.answers: list[list[Any]] = []

    def watching(self) -> AbstractContextManager[None]:
        return nullcontext() if self.is_checked else self.errors.watching()

    def settle(self) -> ControllerWorld:
        with self.watching():
            return super().settle()

    def tick(self) -> None:
        for member in self.running:
            for service in (member.session, member.controller):
                try:
                    if service.next_deadline() <= self.now:
                        service.tick(self.instant)
                except RuntimeError as problem:
                    self.reports.append(fault_text(type(service).__name__, problem))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(int(seconds / 0.5)):
            self.now += 0.5
            self.settle()

    def live(self) -> None:
        for step in STEPS:
            step(self)
            self.settle()
        self.wait(6)

    def asked(self, answer: list[Any]) -> None:
        self.answers.append(answer)

    def propose_smaller(self) -> None:
        """Have the leader of a partition take all others out of the ISR."""
        held = next((one for one in self.running if FLIGHTS in one.broker.led), None)
        if held is not None:
            self.asked(self.propose(held.id, FLIGHTS, [held.id]))

    # -- what has to hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        where = self.errors.place, self.reports
        self.is_checked = True
        self.wait(6)
        self.create("later", [1, 2], [2, 1])
        self.wait(2)
        self.join_isrs()
        self.wait(2)
        assert len(self.controllers) == 1, where
        for name in (TopicPartition("later", 0), TopicPartition("later", 1), FLIGHTS):
            led = [member.id for member in self.running if name in member.broker.led]
            assert len(led) == 1, (name, led, where)
            assert self.state(name.topic, name.partition).leader == led[0], (name, where)
        assert all(self.answers), (self.answers, where)
        assert "gone" not in self.controller.controller.active.context.topic_ids, where  # type: ignore[union-attr]
        assert len([line for line in self.reports if "please report this" in line]) <= 2, where


STEPS: tuple[Callable[[World], object], ...] = (
    lambda world: [member.start() for member in world.members.values()],
    lambda world: world.create("flights", [1, 2, 3], [2, 3]),
    lambda world: world.create("gone", [1, 2]),
    World.propose_smaller,
    lambda world: world.join_isrs(),
    lambda world: world.enlarge("flights", [3, 1]),
    lambda world: world.asked(world.reassign("flights", {1: [2, 1]})),
    lambda world: world.join_isrs(),
    lambda world: world.asked(world.elect("flights", 0)),
    lambda world: world.delete("gone"),
    lambda world: world.asked(world.shut_down(3)),
    lambda world: world.kill(3, settles=False),
    lambda world: world.members[3].start(),
    lambda world: world.members[1].session.inner.disconnect(),
    lambda world: world.members[1].session.inner.connect(),
)


def run(errors: LineErrors) -> list[str]:
    world = World(errors)
    world.live()
    world.check()
    return world.reports


def test_whatever_is_raised_in_a_controller_under_zookeeper_there_is_one_in_the_end() -> None:
    check_places(run, ROOMS, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY)
