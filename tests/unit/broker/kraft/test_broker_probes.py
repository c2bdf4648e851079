"""Which brokers have ended, by their connections and ports; one rule a test."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.instant import Instant
from barnabas.broker.kraft.broker_probes import BrokerProbes, Probe
from barnabas.broker.metadata.metadata_image import BrokerRegistration, Endpoint
from barnabas.broker.silent_machines import Silence
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from tests.support.controllers import registration
from tests.support.core_controller import CoreController, ask

_LIFE = BrokerIdAndEpoch(1, 7)


class _World:
    """Broker 1, in service with epoch 7, whose heartbeats come on connection 5."""

    def __init__(self, *, was_open: bool = True) -> None:
        self.now = 0.0
        self.asked: list[Probe] = []
        self.ended: list[BrokerIdAndEpoch] = []
        self.probes = BrokerProbes("PLAINTEXT", self.ended.append)
        self.probes.connect = self.asked.append
        listeners = {"EXTERNAL": Endpoint("elsewhere", 1), "PLAINTEXT": Endpoint("host", 9092)}
        broker = BrokerRegistration(1, 7, bytes(16), listeners, {}, fenced=False)
        self.probes.lead(True, self.now)
        self.probes.follow({1: broker}, self.now)
        if was_open:
            self.answer(is_open=True)
        self.probes.heard(5, _LIFE, self.now)

    def answer(self, *, is_open: bool = False, is_refused: bool = False) -> None:
        """Ask when it is due, and have the port answer."""
        self.now = max(self.now, self.probes.next_deadline())
        self.probes.tick(Instant(self.now, 0))
        self.probes.answered(self.asked[-1], is_open=is_open, is_refused=is_refused, now=self.now)

    @property
    def is_asked_again(self) -> bool:
        return self.probes.next_deadline() < float("inf")


def test_the_listener_between_the_brokers_is_asked() -> None:
    assert _World().asked[0] == Probe(_LIFE, 1, "host", 9092)


def test_two_refusals_fifty_milliseconds_apart_end_a_life() -> None:
    world = _World()
    world.probes.connection_ended(5, world.now)
    began = world.now
    world.answer(is_refused=True)
    assert not world.ended
    world.answer(is_refused=True)
    assert world.ended == [_LIFE]
    assert world.now - began == 0.05
    assert not world.is_asked_again


def test_a_heartbeat_in_between_ends_the_suspicion() -> None:
    world = _World()
    world.probes.connection_ended(5, world.now)
    world.answer(is_refused=True)
    world.probes.heard(6, _LIFE, world.now)
    assert not world.is_asked_again
    world.probes.connection_ended(6, world.now)
    world.answer(is_refused=True)
    assert not world.ended


def test_the_answer_to_a_probe_from_before_a_heartbeat_does_not_count() -> None:
    world = _World()
    world.probes.connection_ended(5, world.now)
    world.answer(is_refused=True)
    world.now = world.probes.next_deadline()
    world.probes.tick(Instant(world.now, 0))
    world.probes.heard(6, _LIFE, world.now)
    world.probes.answered(world.asked[-1], is_open=False, is_refused=True, now=world.now)
    assert not world.ended


def test_an_older_connection_of_a_broker_may_end() -> None:
    world = _World()
    world.probes.heard(6, _LIFE, world.now)
    world.probes.connection_ended(5, world.now)
    assert not world.is_asked_again


def test_a_port_that_is_still_open_is_asked_again() -> None:
    world = _World()
    world.probes.connection_ended(5, world.now)
    for answer in ({"is_open": True}, {}, {"is_refused": True}, {"is_open": True}, {"is_refused": True}):
        world.answer(**answer)
        assert not world.ended
    world.answer(is_refused=True)
    assert world.ended == [_LIFE]


def test_a_port_that_stays_open_is_asked_ten_times() -> None:
    world = _World()
    world.probes.connection_ended(5, world.now)
    asked = len(world.asked)
    while world.is_asked_again:
        world.answer(is_open=True)
    assert len(world.asked) == asked + 10


def test_a_port_that_this_controller_has_not_seen_open_proves_nothing() -> None:
    world = _World(was_open=False)
    world.probes.connection_ended(5, world.now)
    for _ in range(3):
        if world.is_asked_again:
            world.answer(is_refused=True)
    assert not world.ended
    assert not world.is_asked_again


def test_a_port_that_was_not_seen_open_before_a_heartbeat_is_asked_again() -> None:
    world = _World(was_open=False)
    world.probes.connection_ended(5, world.now)
    world.probes.tick(Instant(world.now, 0))
    world.probes.heard(6, _LIFE, world.now)
    world.answer(is_open=True)
    assert not world.is_asked_again
    world.probes.connection_ended(6, world.now)
    world.answer(is_refused=True)
    world.answer(is_refused=True)
    assert world.ended == [_LIFE]


def test_who_begins_to_lead_asks_after_every_broker() -> None:
    world = _World()
    world.probes.lead(False, world.now)
    assert not world.is_asked_again
    world.probes.lead(True, world.now)
    world.answer(is_refused=True)
    world.answer(is_refused=True)
    assert world.ended == [_LIFE]


def test_the_next_life_of_a_broker_comes_on_another_connection_while_the_last_one_is_still_open() -> None:
    """A machine that is gone resets no connection, and the machine in its place has its address."""
    controller = CoreController()
    cluster_id = controller.node.cluster_id
    former, client = controller.connect(), controller.connect()
    epoch = ask(controller, former, registration(1, cluster_id=cluster_id), 4).broker_epoch
    ask(controller, former, BrokerHeartbeatRequest(1, epoch, epoch, want_fence=False), 1)
    next_life = registration(1, life=1, cluster_id=cluster_id)
    assert ask(controller, former, next_life, 4).error_code == errors.DuplicateBrokerRegistrationError.code
    assert ask(controller, client, next_life, 4).broker_epoch > epoch
    late = ask(controller, former, BrokerHeartbeatRequest(1, epoch, epoch, want_fence=False), 1)
    assert late.error_code == errors.StaleBrokerEpochError.code


def test_the_next_life_of_a_broker_that_was_given_up_need_not_wait_for_its_session() -> None:
    controller = CoreController()
    cluster_id = controller.node.cluster_id
    client = controller.connect()
    epoch = ask(controller, client, registration(1, cluster_id=cluster_id), 4).broker_epoch
    ask(controller, client, BrokerHeartbeatRequest(1, epoch, epoch, want_fence=False), 1)
    next_life = registration(1, life=1, cluster_id=cluster_id)
    duplicate = errors.DuplicateBrokerRegistrationError.code
    controller.node.controller.fence_ended(BrokerIdAndEpoch(1, epoch - 1))
    assert ask(controller, client, next_life, 4).error_code == duplicate
    controller.node.controller.fence_ended(BrokerIdAndEpoch(1, epoch))
    assert controller.node.controller.state.image.brokers[1].fenced
    assert ask(controller, client, next_life, 4).error_code == 0


class _Silent:
    """Brokers 1, 2 and 3 in service, whose ports were seen open; `network` says what comes of a connection to each.

    A heartbeat of each that is in `beating` comes every second, unless `every` says otherwise. Node 100 is the
    controller.
    """

    def __init__(self, *brokers: int, me: int = 100, every: int = 1) -> None:
        self.now = 0.0
        self.every, self.seen_at = every, 0.0
        self.beating = set(brokers)
        self.network = dict.fromkeys(brokers, "open")
        self.asked: list[Probe] = []
        self.gone: list[int] = []
        self.probes = BrokerProbes(
            "PLAINTEXT", lambda whose: self.gone.append(whose.id), Silence(longest=2.0, patience=0.5), me
        )
        self.probes.connect = self._connect
        self._later: list[tuple[float, Probe, str]] = []
        endpoint = {"PLAINTEXT": Endpoint("host", 9092)}
        self.probes.lead(True, 0.0)
        self.probes.follow(
            {number: BrokerRegistration(number, 7, bytes(16), endpoint, {}, fenced=False) for number in brokers}, 0.0
        )
        self.run(1.5)
        self.asked.clear()

    def _connect(self, probe: Probe) -> None:
        self.asked.append(probe)
        state = self.network[probe.whose.id]
        self._later.append((self.now + (probe.patience if state == "silent" else 0.01), probe, state))

    def run(self, seconds: float) -> None:
        """Let time pass, by hundredths of a second."""
        for _ in range(round(seconds * 100)):
            self.now = round(self.now + 0.01, 2)
            if self.now % self.every == 0:
                for number in self.beating:
                    self._heard(number)
                    self.probes.heard(number, BrokerIdAndEpoch(number, 7), self.now)
            due = [one for one in self._later if one[0] <= self.now]
            self._later = [one for one in self._later if one[0] > self.now]
            for _, probe, state in due:
                if state == "open":
                    self._heard(probe.whose.id)
                kinds = {"is_open": state == "open", "is_refused": False, "is_silent": state == "silent"}
                self.probes.answered(probe, now=self.now, **kinds)
            if self.probes.next_deadline() <= self.now:
                self.probes.tick(Instant(self.now, 0))

    def _heard(self, number: int) -> None:
        """Take note of when a sign of life of broker 1 came."""
        if number == 1:
            self.seen_at = self.now

    def cut(self, *numbers: int) -> None:
        """Let nothing come from these, nor get there."""
        self.beating -= set(numbers)
        self.network.update(dict.fromkeys(numbers, "silent"))


def test_a_silent_machine_is_given_up_when_two_attempts_have_come_to_nothing() -> None:
    world = _Silent(1, 2, 3)
    world.cut(1)
    world.run(1.45)
    assert not world.asked, "its heartbeat is not overdue yet"
    world.run(1.0)
    assert not world.gone
    world.run(0.2)
    assert world.gone == [1]


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("phase", range(0, 60, 3))
def test_it_is_given_up_when_its_silence_and_two_attempts_are_over_and_no_later(every: int, phase: int) -> None:
    """Whenever it begins between two heartbeats, or while its port is asked because one is overdue."""
    world = _Silent(1, 2, 3, every=every)
    world.run(4.0 + phase / 20)
    world.cut(1)
    while not world.gone:
        assert world.now - world.seen_at <= 2.0 + 2 * 0.5 + 0.05 + 0.05
        world.run(0.01)
    assert world.gone == [1]
    assert world.now - world.seen_at >= 2.0 + 2 * 0.5


def test_no_port_is_asked_while_heartbeats_come() -> None:
    world = _Silent(1, 2, 3)
    world.run(20.0)
    assert not world.asked


def test_a_process_that_is_paused_is_asked_and_left_to_its_session() -> None:
    world = _Silent(1, 2, 3)
    world.beating.remove(1)
    world.run(20.0)
    assert {probe.whose.id for probe in world.asked} == {1}
    assert len(world.asked) <= 10
    assert not world.gone


def test_a_heartbeat_that_comes_meanwhile_voids_the_suspicion() -> None:
    world = _Silent(1, 2, 3)
    world.network[1] = "silent"
    world.beating.remove(1)
    world.run(2.3)
    world.probes.heard(1, BrokerIdAndEpoch(1, 7), world.now)
    world.run(1.9)
    assert not world.gone


def test_a_controller_that_is_cut_off_gives_up_nobody_and_nobody_when_it_is_back() -> None:
    world = _Silent(1, 2, 3)
    world.cut(1, 2, 3)
    world.run(8.0)
    world.network = dict.fromkeys((1, 2, 3), "open")
    world.run(0.5)
    world.beating = {1, 2, 3}
    world.run(10.0)
    assert not world.gone


def test_one_that_is_silent_for_a_controller_that_is_back_is_given_up() -> None:
    world = _Silent(1, 2, 3)
    world.cut(1, 2, 3)
    world.run(8.0)
    world.network.update({2: "open", 3: "open"})
    world.beating = {2, 3}
    world.run(4.0)
    assert world.gone == [1]


def test_half_of_the_brokers_may_be_gone_and_not_more() -> None:
    world = _Silent(1, 2, 3, 4)
    world.cut(1, 2)
    world.run(4.0)
    assert sorted(world.gone) == [1, 2]
    world = _Silent(1, 2, 3, 4)
    world.cut(1, 2, 3)
    world.run(20.0)
    assert not world.gone


def test_the_broker_on_the_controllers_own_machine_tells_nothing() -> None:
    world = _Silent(1, 2, 3, me=3)
    world.cut(1, 2)
    world.run(20.0)
    assert not world.gone
    world = _Silent(1, 2, 3, me=3)
    world.cut(1)
    world.run(4.0)
    assert world.gone == [1]


def test_a_host_that_is_not_found_proves_nothing() -> None:
    world = _Silent(1, 2, 3)
    world.beating.remove(1)
    world.network[1] = "unknown"
    world.run(20.0)
    assert not world.gone


def test_one_that_leads_no_more_asks_nobody() -> None:
    world = _Silent(1, 2, 3)
    world.probes.lead(False, world.now)
    world.cut(1, 2, 3)
    world.run(10.0)
    assert not world.asked


def test_who_begins_to_lead_gives_up_a_machine_that_went_with_the_controller_before() -> None:
    world = _Silent(1, 2, 3)
    world.probes.lead(False, world.now)
    world.cut(1)
    world.probes.lead(True, world.now)
    world.run(4.0)
    assert world.gone == [1]
