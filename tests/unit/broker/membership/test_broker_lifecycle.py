"""A broker's registration, heartbeats and controlled shutdown, on scripts of what the controller answers."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.instant import Instant
from barnabas.broker.membership.broker_lifecycle import BrokerLifecycle, Identity, LifecycleState
from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd, told
from barnabas.network.node import Node
from barnabas.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse

CONTROLLER = Node(100, "c", 1)
WHERE = {"TLS": Endpoint("h", 9, 1)}
IDENTITY = Identity(3, "cluster", b"i" * 16, WHERE, {"kraft.version": (0, 1)}, "r", (b"d" * 16,), 41)


class Life:
    """A lifecycle, and its controller's answers."""

    def __init__(self) -> None:
        self.now = 50.0
        self.controller: Node | None = CONTROLLER
        self.offset = 7
        self.said: list[str] = []
        self.states: list[LifecycleState] = []
        self.lifecycle = BrokerLifecycle(
            IDENTITY,
            lambda: self.controller,
            lambda: self.offset,
            heartbeat_interval=2.0,
            report=self.said.append,
        )
        self.lifecycle.on_changed = lambda: self.states.append(self.lifecycle.state)

    def ask(self) -> Any:
        found = self.lifecycle.next_request(self.now)
        return None if found is None else found[1]

    def answer(self, response: Any) -> Any:
        request = self.ask()
        assert request is not None, "something is due"
        self.lifecycle.receive(response, Instant(self.now, 0))
        return request

    def register(self, epoch: int = 60) -> Any:
        return self.answer(BrokerRegistrationResponse(broker_epoch=epoch))

    def beat(self, *, fenced: bool = False, caught_up: bool = True, shut_down: bool = False, code: int = 0) -> Any:
        self.now = max(self.now, self.lifecycle.next_deadline())
        return self.answer(
            BrokerHeartbeatResponse(
                error_code=code, is_caught_up=caught_up, is_fenced=fenced, should_shut_down=shut_down
            )
        )

    def run(self) -> None:
        """Come to the state of a broker at work."""
        self.register()
        self.lifecycle.is_ready_to_unfence = True
        self.beat(fenced=True)
        self.beat()
        assert self.lifecycle.state is LifecycleState.RUNNING


@pytest.fixture
def life() -> Life:
    return Life()


def test_a_broker_registers_with_all_that_it_is(life: Life) -> None:
    request = life.register()
    assert isinstance(request, BrokerRegistrationRequest)
    assert (request.broker_id, request.cluster_id, request.incarnation_id) == (3, "cluster", b"i" * 16)
    listeners = [(found.name, found.host, found.port, found.security_protocol) for found in request.listeners]
    assert listeners == [("TLS", "h", 9, 1)]
    assert [(found.name, found.max_supported_version) for found in request.features] == [("kraft.version", 1)]
    assert (request.rack, request.log_dirs, request.previous_broker_epoch) == ("r", [b"d" * 16], 41)
    assert life.lifecycle.broker_epoch == 60


def test_it_is_fenced_until_its_logs_are_there_and_the_controller_has_seen_it_catch_up(life: Life) -> None:
    life.register()
    request = life.beat(fenced=True, caught_up=False)
    assert isinstance(request, BrokerHeartbeatRequest)
    assert (request.broker_epoch, request.current_metadata_offset, request.want_fence) == (60, 7, True)
    assert life.lifecycle.state is LifecycleState.STARTING
    life.lifecycle.is_ready_to_unfence = True
    assert life.beat(fenced=True).want_fence is False
    assert life.lifecycle.state is LifecycleState.RECOVERY
    life.beat()
    assert life.lifecycle.state is LifecycleState.RUNNING


def test_a_running_broker_beats_once_in_its_interval_and_a_fenced_one_more_often(life: Life) -> None:
    life.register()
    life.beat(fenced=True, caught_up=False)
    assert life.lifecycle.next_deadline() <= life.now + 0.1
    life.lifecycle.is_ready_to_unfence = True
    life.beat(fenced=True)
    life.beat()
    assert life.lifecycle.next_deadline() == life.now + 2.0
    assert life.ask() is None


def test_new_metadata_are_told_at_once_while_the_broker_waits_to_be_unfenced(life: Life) -> None:
    life.register()
    life.beat(fenced=True, caught_up=False)
    assert life.ask() is None
    life.offset = 99
    life.lifecycle.hurry()
    assert life.ask().current_metadata_offset == 99


def test_new_metadata_make_no_heartbeat_of_a_running_broker(life: Life) -> None:
    life.run()
    life.lifecycle.hurry()
    assert life.ask() is None


def test_without_a_controller_nothing_is_due(life: Life) -> None:
    life.controller = None
    assert life.ask() is None
    assert life.lifecycle.next_deadline() > 1e9
    life.controller = CONTROLLER
    assert life.ask() is not None


def test_a_refused_registration_is_tried_again_ever_later_and_told_once(life: Life) -> None:
    waits = []
    for _ in range(6):
        life.now = max(life.now, life.lifecycle.next_deadline())
        life.answer(BrokerRegistrationResponse(error_code=errors.DuplicateBrokerRegistrationError.code))
        waits.append(round(life.lifecycle.next_deadline() - life.now, 2))
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(life.said) == 1
    assert "another process with this node.id" in life.said[0]


def test_another_process_with_the_same_id_is_told_to_the_operator(life: Life) -> None:
    life.run()
    life.beat(code=errors.StaleBrokerEpochError.code)
    assert "another process has registered" in life.said[0]


def test_a_controller_that_is_no_longer_active_is_no_news(life: Life) -> None:
    life.run()
    life.beat(code=errors.NotControllerError.code)
    assert life.said == []
    assert life.lifecycle.next_deadline() <= life.now + 0.1


def test_a_broker_that_was_unregistered_registers_again(life: Life) -> None:
    life.run()
    life.beat(code=errors.BrokerIdNotRegisteredError.code)
    life.now = life.lifecycle.next_deadline()
    assert isinstance(life.register(61), BrokerRegistrationRequest)
    assert life.lifecycle.broker_epoch == 61


def test_a_lost_heartbeat_is_sent_again(life: Life) -> None:
    life.run()
    life.now = life.lifecycle.next_deadline()
    assert life.ask() is not None
    life.lifecycle.disconnected(life.now)
    assert life.ask() is None
    life.now += 0.1
    assert life.ask() is not None


def test_a_broker_that_leaves_asks_until_the_controller_lets_it_go(life: Life) -> None:
    life.run()
    life.lifecycle.begin_controlled_shutdown()
    assert life.beat().want_shut_down is True
    assert life.lifecycle.next_deadline() <= life.now + 0.1
    assert life.beat(shut_down=True).want_shut_down is True
    assert life.lifecycle.state is LifecycleState.SHUTTING_DOWN
    assert life.ask() is None
    assert life.states[-2:] == [LifecycleState.PENDING_CONTROLLED_SHUTDOWN, LifecycleState.SHUTTING_DOWN]


def test_a_broker_that_was_unregistered_while_it_lived_leaves_at_once(life: Life) -> None:
    life.run()
    life.lifecycle.begin_controlled_shutdown()
    life.beat(code=errors.StaleBrokerEpochError.code)
    assert life.lifecycle.state is LifecycleState.SHUTTING_DOWN


def test_a_broker_that_never_registered_leaves_at_once(life: Life) -> None:
    life.lifecycle.begin_controlled_shutdown()
    assert life.lifecycle.state is LifecycleState.SHUTTING_DOWN


def test_an_offline_directory_is_told_with_the_heartbeat(life: Life) -> None:
    life.run()
    life.lifecycle.offline_directories = lambda: [b"d" * 16]
    assert life.beat().offline_log_dirs == [b"d" * 16]


class _Ends:
    """What a broker would tell of its logs."""

    def __init__(self) -> None:
        self.has_news = False

    def take(self) -> list[ReplicaLogEnd]:
        self.has_news = False
        return [ReplicaLogEnd(b"t" * 16, 0, 4, 3, 17)]


def test_ends_of_logs_are_told_with_each_heartbeat_and_news_at_once(life: Life) -> None:
    ends: Any = _Ends()
    life.run()
    assert told(life.beat()) is None, "a broker that cannot tell says nothing"
    life.lifecycle.log_ends = ends
    ends.has_news = True
    life.lifecycle.hurry()
    assert life.lifecycle.next_deadline() <= life.now
    assert told(life.beat()) == [ReplicaLogEnd(b"t" * 16, 0, 4, 3, 17)]
    assert life.lifecycle.next_deadline() == life.now + 2.0


def test_news_that_came_while_a_heartbeat_was_in_flight_is_told_with_the_next(life: Life) -> None:
    life.run()
    ends: Any = _Ends()
    life.lifecycle.log_ends = ends
    life.now = life.lifecycle.next_deadline()
    assert life.ask() is not None
    ends.has_news = True
    life.lifecycle.receive(BrokerHeartbeatResponse(is_caught_up=True), Instant(life.now, 0))
    assert life.lifecycle.next_deadline() <= life.now
