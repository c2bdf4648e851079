"""Which brokers have ended, by their connections and ports; one rule a test."""

from __future__ import annotations

from barnabas import errors
from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.instant import Instant
from barnabas.broker.kraft.broker_probes import BrokerProbes, Probe
from barnabas.broker.metadata.metadata_image import BrokerRegistration, Endpoint
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
        self.probes.heard(5, _LIFE)

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
    world.probes.heard(6, _LIFE)
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
    world.probes.heard(6, _LIFE)
    world.probes.answered(world.asked[-1], is_open=False, is_refused=True, now=world.now)
    assert not world.ended


def test_an_older_connection_of_a_broker_may_end() -> None:
    world = _World()
    world.probes.heard(6, _LIFE)
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
