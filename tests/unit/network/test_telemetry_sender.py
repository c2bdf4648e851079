"""How telemetry takes its way through a NetworkClient's connections."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.network.telemetry_sender import TelemetrySender
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest


class Telemetry:
    """Always has something to ask, unless an answer is waited for."""

    def __init__(self) -> None:
        self.is_awaited = self.is_urgent = self.is_done = False
        self.is_waiting = False
        self.told: list[Any] = []

    def time_to_next_request(self, now: float) -> float:
        return float("inf") if self.is_waiting else 0.0

    def create_request(self, now: float) -> Any:
        self.is_waiting = True
        return GetTelemetrySubscriptionsRequest()

    def handle_response(self, now: float, message: Any) -> None:
        self.is_waiting = False
        self.told.append(message)

    def handle_failed_request(self, now: float, error: Any) -> None:
        self.is_waiting = False
        self.told.append(error)


@pytest.fixture
def telemetry(world: Any) -> Telemetry:
    telemetry = Telemetry()
    world.client.telemetry_sender = TelemetrySender(telemetry)
    return telemetry


def asked(world: Any) -> list[int]:
    """The nodes that were asked, in order."""
    key = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS
    return [node for node, header, _ in world.selector.received if header.request_api_key == key]


def test_nothing_is_connected_for_telemetry_alone(world: Any, telemetry: Telemetry) -> None:
    world.poll()
    assert world.selector.connects == []


def test_a_connection_is_made_for_somebody_who_waits(world: Any, telemetry: Telemetry) -> None:
    telemetry.is_awaited = True
    world.poll()
    world.poll()
    assert len(world.selector.connects) == 1


def test_the_answer_goes_to_the_telemetry_and_not_to_the_caller(world: Any, telemetry: Telemetry) -> None:
    world.make_ready()
    world.poll()
    world.selector.respond(1, GetTelemetrySubscriptionsResponse(subscription_id=7))

    assert world.poll() == []
    assert [message.subscription_id for message in telemetry.told] == [7]


def test_it_stays_with_one_broker_until_that_cannot_be_sent_to(world: Any, telemetry: Telemetry) -> None:
    world.make_ready()
    world.make_ready(world.other)
    for _ in range(3):
        world.poll()
        (first, *_) = asked(world)
        world.selector.respond(first, GetTelemetrySubscriptionsResponse())
        world.poll()
    assert set(asked(world)) == {first}

    world.client.disconnect(first, world.now)
    world.poll()
    world.poll()
    assert asked(world)[-1] == {1: 2, 2: 1}[first]


def test_a_connection_that_ends_is_told_as_a_failure_without_an_error(world: Any, telemetry: Telemetry) -> None:
    world.make_ready()
    world.poll()
    world.selector.break_connection(1)
    world.poll()

    assert telemetry.told == [None]


def test_a_broker_without_the_api_is_told_as_an_error_and_asked_nothing(world: Any, telemetry: Telemetry) -> None:
    assert not world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    world.selector.respond(1, ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=3)]))
    telemetry.is_waiting = False
    world.poll()
    world.poll(10.0)

    assert asked(world) == []
    assert world.selector.polled[-1] == 0, "who waits for the answer hears of it at once"
    assert "does not support GET_TELEMETRY_SUBSCRIPTIONS" in str(telemetry.told[0])


def test_of_two_brokers_the_one_with_the_api_is_asked(world: Any, telemetry: Telemetry) -> None:
    telemetry.is_waiting = True
    assert not world.client.ready(world.other, world.now)
    world.poll()
    world.poll()
    world.selector.respond(2, ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=3)]))
    world.poll()
    world.make_ready()
    telemetry.is_waiting = False
    world.poll()
    world.poll()

    assert asked(world) == [1]


def test_of_two_senders_the_one_that_defers_sends_only_what_is_urgent(world: Any, telemetry: Telemetry) -> None:
    world.client.telemetry_sender = TelemetrySender(telemetry, lambda: True)
    world.make_ready()
    world.poll()
    assert asked(world) == []

    telemetry.is_urgent = True
    world.poll()
    world.poll()
    assert asked(world) == [1]


def test_a_full_connection_is_waited_for(new_world: Any) -> None:
    world = new_world(max_in_flight_requests=1)
    world.make_ready()
    world.send(HeartbeatRequest(group_id="g"))
    world.client.telemetry_sender = TelemetrySender(Telemetry())
    world.poll(10.0)

    assert asked(world) == []
    assert world.selector.polled[-1] == world.client.reconnect_backoff


def test_the_end_of_telemetry_ends_the_wait_for_it(world: Any, telemetry: Telemetry) -> None:
    telemetry.is_done = True
    world.make_ready()
    world.poll(10.0)

    assert asked(world) == []
    assert world.selector.polled[-1] == 0


def test_a_client_that_closes_leaves_no_request_waiting_for_its_answer(world: Any, telemetry: Telemetry) -> None:
    world.make_ready()
    world.poll()
    assert telemetry.is_waiting

    world.client.close()

    assert telemetry.told == [None]


def test_a_client_that_begins_anew_does_not_fail_what_the_other_one_has_in_flight(
    world: Any, telemetry: Telemetry
) -> None:
    telemetry.is_waiting = True
    world.make_ready()

    world.client.recover(world.now)

    assert telemetry.told == []


def test_of_a_client_that_closes_only_what_is_in_flight_holds_up_the_end(world: Any, telemetry: Telemetry) -> None:
    sender = world.client.telemetry_sender
    world.make_ready()
    world.poll()
    assert not sender.holds_up_the_end, "it does not close"

    telemetry.is_urgent = True
    assert sender.holds_up_the_end
    world.selector.respond(1, GetTelemetrySubscriptionsResponse())
    sender.retire()
    world.poll()

    assert not sender.holds_up_the_end
    world.poll()
    assert len(asked(world)) == 1, "nothing is begun that closing would cut off"
