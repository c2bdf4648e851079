"""Brokers whose processes have ended are seen before their sessions expire; who lives on is not harmed."""

from __future__ import annotations

import asyncio
import socket

import pytest

from barnabas.broker.instant import Instant
from barnabas.broker.network.lifeline_connections import LifelineConnections
from barnabas.broker.silent_machines import Silence
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, BrokerLifelines, Life
from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.controller_world import ControllerWorld, Lifeline, Way

FLIGHTS = TopicPartition("flights", 0)


def world_with(*replicas: list[int], brokers: int = 3) -> ControllerWorld:
    """Brokers, the first of which is controller, and the topic `flights`."""
    world = ControllerWorld(brokers).start()
    world.create("flights", *replicas)
    return world.settle()


def die(world: ControllerWorld, number: int) -> None:
    """End a process; its session lasts."""
    world.members[number].kill()
    world.settle()


# -- a broker --------------------------------------------------------------------------------------------------------


def test_the_leaderships_of_a_broker_whose_process_has_ended_move_while_its_session_lasts() -> None:
    world = world_with([2, 3, 1])
    die(world, 2)
    assert f"{znodes.BROKER_IDS}/2" in world.zookeeper.nodes
    assert (world.state("flights").leader, set(world.state("flights").isr)) == (3, {1, 3})
    assert world.members[3].broker.metadata[FLIGHTS].leader == 3
    assert world.members[3].broker.alive == {1, 3}


def test_its_znode_does_not_bring_it_back_and_another_life_does() -> None:
    world = world_with([2, 3, 1])
    die(world, 2)
    world.kill(3)
    world.start(3)
    assert world.state("flights").leader == 1
    world.zookeeper.end(world.members[2].session.id)
    world.settle()
    world.start(2)
    world.join_isrs()
    world.settle()
    assert set(world.state("flights").isr) == {1, 2, 3}


def test_a_restart_within_the_old_session_waits_for_its_own_registration() -> None:
    """Another process at that port is not the life that has ended: it refuses what is told to that."""
    world = world_with([2, 3, 1])
    die(world, 2)
    member = world.members[2]
    old_session, port = member.session.id, member.port
    member.start()
    member.port, member.broker.broker_epoch = port, 10**6
    world.settle()
    assert 2 not in world.members[1].controller.active.context.brokers  # type: ignore[union-attr]
    world.zookeeper.end(old_session)
    world.settle()


def test_connections_that_end_alone_change_nothing() -> None:
    world = world_with([2, 3, 1])
    before = world.state("flights")
    for _ in range(5):
        world.reset(2)
        world.settle()
    assert world.state("flights") == before
    assert not world.reports


def test_a_broker_that_refuses_the_controller_alone_is_taken_back_when_it_answers() -> None:
    world = world_with([2, 3, 1])
    epoch = world.members[2].broker.broker_epoch
    world.refused.add((1, 2))
    world.reset(2)
    world.settle()
    assert world.state("flights").leader == 3
    world.refused.clear()
    for _ in range(3):
        world.settle()
    world.join_isrs()
    world.settle()
    assert set(world.state("flights").isr) == {1, 2, 3}
    assert world.members[2].broker.broker_epoch == epoch
    held = world.members[2].broker.replicas[FLIGHTS]
    assert (held.leader, held.leader_epoch) == (3, world.state("flights").leader_epoch)


def test_what_a_broker_proposes_that_is_taken_for_dead_is_refused() -> None:
    world = world_with([2, 3, 1])
    world.refused.add((1, 2))
    world.reset(2)
    world.settle()
    answered = world.propose(2, FLIGHTS, [2])
    world.settle()
    assert answered[0].error_code
    assert world.state("flights").leader == 3


# -- a broker that is taken back in the same life --------------------------------------------------------------------


def given_up(world: ControllerWorld, number: int) -> ControllerWorld:
    """Have the controller refused by a broker that lives on."""
    world.refused.add((world.controller.id, number))
    world.reset(number)
    return world.settle()


def taken_back(world: ControllerWorld) -> ControllerWorld:
    world.refused.clear()
    for _ in range(3):
        world.settle()
    return world


def with_broker_that_holds_nothing() -> ControllerWorld:
    world = world_with([1, 3])
    assert FLIGHTS in world.members[2].broker.metadata
    return world


def test_a_topic_that_was_deleted_meanwhile_is_gone_from_its_metadata() -> None:
    world = given_up(with_broker_that_holds_nothing(), 2)
    world.delete("flights")
    assert not world.settle().topics
    broker = taken_back(world).members[2].broker
    assert not broker.metadata
    assert not broker.topic_ids


def test_a_topic_that_was_made_anew_meanwhile_with_fewer_partitions_has_those_alone() -> None:
    world = given_up(world_with([1, 3], [3, 1]), 2)
    world.delete("flights")
    world.settle()
    world.create("flights", [3, 2])
    broker = taken_back(world.settle()).members[2].broker
    assert broker.metadata.keys() == {FLIGHTS}
    assert broker.topic_ids["flights"] == broker.replicas[FLIGHTS].topic_id == world.topic("flights").topic_id


def test_a_replica_that_was_moved_away_meanwhile_is_deleted() -> None:
    world = given_up(world_with([3, 2]), 2)
    world.reassign("flights", {0: [3, 1]})
    world.settle()
    world.join_isrs()
    assert world.settle().topic("flights").replicas[0] == (3, 1)
    assert FLIGHTS in world.members[2].broker.replicas
    assert FLIGHTS not in taken_back(world).members[2].broker.replicas
    assert world.members[3].broker.led == [FLIGHTS]


def test_what_it_had_not_answered_when_it_was_given_up_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic is deleted without it, and the replica that it is to delete is waited for no longer."""
    world = world_with([1, 3])
    world.create("delays", [3, 2, 1])
    world.settle()
    world.join_isrs()
    world.settle()
    # Nothing of what the controller sends gets there, while its lifeline holds.
    step = Way.arrive
    monkeypatch.setattr(Way, "arrive", lambda way: way.requester.node.id != 2 and step(way))
    world.reassign("delays", {0: [3, 1]})
    world.delete("flights")
    for _ in range(2000):
        for one in world.steps():
            one()
    assert world.topics == ["delays"]
    monkeypatch.undo()
    for way in world.members[1].ways.values():
        if way.requester.node.id == 2:
            way.in_flight = None
    broker = taken_back(given_up(world, 2)).members[2].broker
    assert broker.metadata.keys() == {("delays", 0)}
    assert not broker.replicas


def test_a_deletion_that_waits_for_it_goes_on_when_it_is_taken_back() -> None:
    world = given_up(world_with([3, 2]), 2)
    world.delete("flights")
    assert world.settle().topics == ["flights"]
    assert not taken_back(world).topics
    assert FLIGHTS not in world.members[2].broker.replicas
    assert not world.members[2].broker.metadata


# -- the controller --------------------------------------------------------------------------------------------------


def test_a_controller_whose_process_has_ended_is_deposed_and_taken_for_dead() -> None:
    world = world_with([1, 2, 3])
    die(world, 1)
    assert world.controller.id in (2, 3)
    assert world.epoch == 2
    assert (world.state("flights").leader, set(world.state("flights").isr)) == (2, {2, 3})
    world.create("delays", [3, 2])
    world.settle()
    assert world.state("delays").leader == 3


def test_the_machine_of_a_controller_is_given_up_by_the_next_one_that_had_not_seen_its_silence_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It held that lifeline open as a broker; that is worth as much when it is controller."""
    world = world_with([1, 2, 3])
    step = Lifeline.step

    def late(line: Lifeline) -> bool:
        sees_late = line.owner.id == 3 and line.attempt.life.id == 1 and line.owner.controller.active is None
        return False if sees_late else step(line)

    monkeypatch.setattr(Lifeline, "step", late)
    world.isolate(1)
    world.members[1].kill()
    for _ in range(30):
        world.now += 0.3
        world.tick()
        world.settle()
    assert world.controller.id == 3
    assert f"{znodes.BROKER_IDS}/1" in world.zookeeper.nodes, "its session lasts"
    assert (3, 1) in world.given_up
    assert world.state("flights").leader == 2


def test_a_controller_that_lives_is_elected_again_or_replaced_but_never_twice_in_a_row() -> None:
    world = world_with([1, 2, 3])
    world.refused |= {(2, 1), (3, 1)}
    world.reset(1)
    world.settle()
    epoch = world.epoch
    assert epoch == 2
    world.refused.clear()
    for _ in range(3):
        world.settle()
        world.join_isrs()
    world.settle()
    assert world.epoch == epoch
    assert set(world.state("flights").isr) == {1, 2, 3}


def test_who_deposes_late_does_not_depose_the_next_controller() -> None:
    world = world_with([1, 2, 3])
    member = world.members[2]
    member.is_paused = True
    world.members[1].kill()
    world.settle()
    assert world.controllers[-1].id == 3
    owner = world.zookeeper.nodes[CONTROLLER].owner
    member.is_paused = False
    world.settle()
    assert (world.zookeeper.nodes[CONTROLLER].owner, world.epoch) == (owner, 2)


def test_lines_to_lives_that_are_over_are_held_no_more() -> None:
    world = world_with([1, 2, 3])
    for _ in range(3):
        controller = world.controller
        controller.session.expire()
        world.settle()
        controller.session.connect()
        world.settle()
        assert world.controller is not controller
        world.check_lifelines()


def test_an_end_of_an_earlier_life_that_is_seen_late_does_not_bring_back_the_later_one() -> None:
    world = world_with([2, 3, 1])
    found = world.members[1].controller
    epoch = world.members[2].broker.broker_epoch
    die(world, 2)
    found._life_ended(Life(2, epoch - 1, "host", 1))
    world.settle()
    assert world.state("flights").leader == 3
    assert found.active is not None
    assert 2 not in found.active.context.brokers


def test_a_new_reign_tells_a_broker_that_is_taken_for_dead_of_all_others() -> None:
    world = world_with([2, 3, 1])
    world.refused.add((1, 2))
    world.reset(2)
    world.settle()
    world.refused.clear()
    world.members[2].broker.received.clear()
    world.members[1].controller.begin_anew()
    world.members[1].controller.changed(CONTROLLER)
    world.settle()
    told = [one for one in world.members[2].broker.received if isinstance(one, UpdateMetadataRequest)]
    assert told
    assert [{broker.id for broker in one.live_brokers} for one in told] == [{1, 2, 3}] * len(told)


# -- lifelines -------------------------------------------------------------------------------------------------------

LIFE = Life(1, 10, "host", 9092)


class Line:
    """Lifelines, and what they ask for."""

    def __init__(self) -> None:
        self.ended: list[Life] = []
        self.attempts: list[Attempt] = []
        self.dropped: list[Attempt] = []
        self.lines = BrokerLifelines(self.ended.append)
        self.lines.connect, self.lines.drop = self.attempts.append, self.dropped.append
        self.now = 0.0
        self.lines.watch(LIFE)
        self.pass_time(0.0)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        if self.lines.next_deadline() <= self.now:
            self.lines.tick(Instant(self.now, 0))

    def open(self) -> None:
        self.lines.opened(self.attempts[-1], self.now)

    def close(self) -> None:
        self.lines.closed(self.attempts[-1], self.now)
        self.pass_time(0.0)

    def fail(self, *, is_refused: bool = True) -> None:
        self.lines.failed(self.attempts[-1], self.now, is_refused=is_refused)


def test_a_port_that_refuses_twice_tells_of_the_end() -> None:
    line = Line()
    line.open()
    line.pass_time(100.0)
    line.close()
    assert len(line.attempts) == 2
    line.fail()
    line.pass_time(0.04)
    assert len(line.attempts) == 2
    line.pass_time(0.01)
    assert not line.ended
    line.fail()
    assert line.ended == [LIFE]
    line.pass_time(100.0)
    assert len(line.attempts) == 3


def test_a_port_that_was_not_seen_open_tells_nothing() -> None:
    line = Line()
    for _ in range(10):
        line.fail()
        line.pass_time(5.0)
    assert not line.ended


@pytest.mark.parametrize("between", ["opened", "unreachable"])
def test_refusals_count_only_in_a_row(between: str) -> None:
    line = Line()
    line.open()
    line.pass_time(2.0)
    line.close()
    line.fail()
    line.pass_time(0.05)
    if between == "opened":
        line.open()
        line.pass_time(2.0)
        line.close()
    else:
        line.fail(is_refused=False)
        line.pass_time(5.0)
    line.fail()
    assert not line.ended


def test_a_port_that_lets_connections_go_at_once_is_not_asked_all_the_time() -> None:
    line = Line()
    for _ in range(100):
        if line.lines.next_deadline() > line.now:
            line.open()
            line.close()
        line.pass_time(0.1)
    assert len(line.attempts) < 12


def test_what_is_told_of_a_connection_that_was_dropped_counts_no_more() -> None:
    line = Line()
    line.open()
    line.lines.forget(LIFE)
    assert line.dropped == line.attempts
    line.lines.watch(LIFE)
    line.pass_time(0.0)
    line.lines.closed(line.attempts[0], line.now)
    line.lines.failed(line.attempts[0], line.now, is_refused=True)
    assert line.lines.next_deadline() > 1e9


class Machines:
    """Lifelines to brokers 1, 2, ... that are open, and what comes of each attempt: broker 9 is this one's."""

    def __init__(self, *brokers: int, witnesses: tuple[int, ...] = ()) -> None:
        self.now, self.gone, self.asked = 0.0, list[int](), list[int]()
        self.silent = set[int]()
        self.open: dict[int, Attempt] = {}
        self._later: list[tuple[float, Attempt]] = []
        self.lines = BrokerLifelines(lambda life: self.gone.append(life.id), Silence(longest=2.0, patience=0.5), me=9)
        self.lines.connect, self.lines.drop = self._connect, self._drop
        self.lines.witnesses = lambda: [Life(number, 7, "host", 1) for number in witnesses]
        for number in brokers:
            self.lines.watch(Life(number, 7, "host", 1))
        self.run(2.0)
        assert set(self.open) == set(brokers)
        self.asked.clear()

    def _connect(self, attempt: Attempt) -> None:
        self.asked.append(attempt.life.id)
        is_silent = attempt.life.id in self.silent
        self._later.append((self.now + (attempt.patience if is_silent else 0.01), attempt))

    def _drop(self, attempt: Attempt) -> None:
        self._later = [one for one in self._later if one[1] != attempt]
        if self.open.get(attempt.life.id) == attempt:
            del self.open[attempt.life.id]

    def fall_silent(self, *numbers: int) -> None:
        """Let nothing come from these machines any more; the system tells after a while."""
        self.silent |= set(numbers)
        for number in numbers:
            attempt = self.open.pop(number, None)
            if attempt is not None:
                self.lines.silent(attempt, self.now)

    def run(self, seconds: float) -> None:
        """Let time pass, by hundredths of a second."""
        for _ in range(round(seconds * 100)):
            self.now = round(self.now + 0.01, 2)
            due = [one for one in self._later if one[0] <= self.now]
            self._later = [one for one in self._later if one[0] > self.now]
            for _, attempt in due:
                if attempt.life.id in self.silent:
                    self.lines.failed(attempt, self.now, is_refused=False, is_silent=True)
                else:
                    self.lines.opened(attempt, self.now)
                    if attempt.life in self.lines.lives:
                        self.open[attempt.life.id] = attempt
            if self.lines.next_deadline() <= self.now:
                self.lines.tick(Instant(self.now, 0))


def test_a_machine_from_which_nothing_comes_is_given_up_while_others_are_reached() -> None:
    world = Machines(1, 2)
    world.fall_silent(1)
    world.run(1.0)
    assert not world.gone
    world.run(0.1)
    assert world.gone == [1]
    assert list(world.open) == [2]


def test_what_was_heard_before_this_process_stood_still_proves_nothing() -> None:
    """It was paused between two attempts, and all others are silent for it when it goes on."""
    world = Machines(1, 2)
    world.fall_silent(1)
    world.run(0.53)
    assert world.lines._machines.is_silent(Life(1, 7, "host", 1))
    world.now += 20.0
    world.silent.add(2)
    world.run(10.0)
    assert not world.gone


def test_a_machine_that_takes_another_connection_is_held_by_that() -> None:
    """What is between may forget a connection that carries nothing."""
    world = Machines(1, 2)
    world.lines.silent(world.open.pop(1), world.now)
    world.run(20.0)
    assert not world.gone
    assert set(world.open) == {1, 2}


def test_a_controller_that_is_cut_off_gives_up_none_of_its_brokers() -> None:
    world = Machines(1, 2, 9)
    world.fall_silent(1)
    world.run(0.2)
    world.fall_silent(2)
    world.run(8.0)
    world.silent.clear()
    world.run(8.0)
    assert not world.gone
    assert set(world.open) == {1, 2, 9}


def test_one_of_two_that_are_all_is_left_to_its_session() -> None:
    world = Machines(1, 9)
    world.fall_silent(1)
    world.run(20.0)
    assert not world.gone


def test_who_has_room_for_no_more_connections_and_acknowledges_is_not_silent() -> None:
    """A process that is paused takes connections until its queue is full."""
    world = Machines(1, 2, 3, 4)
    world.silent.add(2)
    world.fall_silent(1)
    world.run(1.2)
    assert world.gone == [1]
    world.run(20.0)
    assert world.gone == [1]
    assert set(world.open) == {2, 3, 4}


def test_who_watches_one_alone_asks_witnesses_and_lets_them_go() -> None:
    world = Machines(1, witnesses=(1, 2, 3))
    world.fall_silent(1)
    world.run(1.2)
    assert world.gone == [1]
    assert set(world.asked) == {1, 2, 3}
    assert not world.lines.lives
    assert not world.open
    assert world.lines.next_deadline() > 1e9


def test_who_reaches_no_witness_gives_up_nobody() -> None:
    world = Machines(1, witnesses=(1, 2, 3))
    world.silent |= {2, 3}
    world.fall_silent(1)
    world.run(20.0)
    assert not world.gone
    world.silent.clear()
    world.run(8.0)
    assert set(world.open) == {1}
    assert list(world.lines.lives) == [Life(1, 7, "host", 1)]


@pytest.mark.parametrize(("host", "port"), [("x" * 70, 9092), ("a..b", 9092), ("", -1)])
def test_an_address_that_is_none_is_a_connection_that_comes_to_nothing(host: str, port: int) -> None:
    async def play() -> list[bool]:
        told: list[bool] = []
        changed = asyncio.Event()
        lines = BrokerLifelines(lambda life: None)
        lines.failed = lambda attempt, now, **kinds: told.extend(kinds.values())  # type: ignore[method-assign]
        LifelineConnections(lines, changed.set)
        lines.connect(Attempt(Life(1, 10, host, port), 1))
        await changed.wait()
        return told

    assert asyncio.run(asyncio.wait_for(play(), 5)) == [False, False]


def test_connections_tell_of_a_real_port_that_it_is_open_closed_and_refused() -> None:
    async def play() -> list[str]:
        told: list[str] = []
        changed = asyncio.Event()

        class Told:
            connect = drop = staticmethod(lambda attempt: None)
            silence = None

            def opened(self, attempt: Attempt, now: float) -> None:
                told.append("opened")
                changed.set()

            def closed(self, attempt: Attempt, now: float) -> None:
                told.append("closed")

            def failed(self, attempt: Attempt, now: float, *, is_refused: bool, is_silent: bool) -> None:
                told.append("refused" if is_refused else "silent" if is_silent else "failed")

        lines = Told()
        connections = LifelineConnections(lines, changed.set)  # type: ignore[arg-type]
        listening = socket.create_server(("127.0.0.1", 0))
        life = Life(1, 10, "127.0.0.1", listening.getsockname()[1])
        for number, act in enumerate((lambda: listening.accept()[0].close(), listening.close)):
            changed.clear()
            lines.connect(Attempt(life, number))
            await changed.wait()
            changed.clear()
            act()
            await changed.wait()
        changed.clear()
        lines.connect(Attempt(life, 3))
        await changed.wait()
        connections.close()
        return told

    assert asyncio.run(asyncio.wait_for(play(), 10)) == ["opened", "closed", "opened", "closed", "refused"]
