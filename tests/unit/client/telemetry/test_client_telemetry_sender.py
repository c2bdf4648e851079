"""When a client asks for its subscription, when it pushes, and what it makes of the answers (KIP-714)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.client.telemetry.client_telemetry_sender import (
    DEFAULT_PUSH_INTERVAL,
    LAST_PUSH_TIMEOUT,
    ClientTelemetrySender,
    ClientTelemetryState,
    ClientTelemetrySubscription,
    TelemetryPayload,
)
from barnabas.errors import InvalidRequestError, UnsupportedVersionError
from barnabas.protocol.kafka_uuid import ZERO_UUID
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest
from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse

ID = bytes(range(16))
INTERVAL = 10.0


class Jitter:
    """Always the middle."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class Payloads:
    """Numbers what it makes; `why_not` stands for what cannot be made."""

    def __init__(self) -> None:
        self.made = 0
        self.accepted_up_to = 0
        self.is_possible = True

    def make(self, subscription: ClientTelemetrySubscription) -> TelemetryPayload | None:
        self.made += 1
        return TelemetryPayload(4, b"%d" % self.made) if self.is_possible else None

    def on_accepted(self) -> None:
        self.accepted_up_to = self.made


class World:
    """A sender and its time."""

    def __init__(self) -> None:
        self.payloads = Payloads()
        self.sender = ClientTelemetrySender(self.payloads, Jitter())
        self.now = 1000.0

    def next_request(self) -> Any:
        """Wait for it, and take it."""
        wait = self.sender.time_to_next_request(self.now)
        assert wait < float("inf"), "nothing is due"
        self.now += wait
        return self.sender.create_request(self.now)

    def answer(self, message: Any) -> None:
        self.sender.handle_response(self.now, message)

    def subscribe(self, *metrics: str, **fields: Any) -> None:
        assert isinstance(self.next_request(), GetTelemetrySubscriptionsRequest)
        self.answer(subscription(*metrics, **fields))

    def push(self) -> PushTelemetryRequest:
        request = self.next_request()
        assert isinstance(request, PushTelemetryRequest)
        return request


def subscription(*metrics: str, **fields: Any) -> GetTelemetrySubscriptionsResponse:
    given: dict[str, Any] = {
        "client_instance_id": ID, "subscription_id": 7, "push_interval_ms": int(INTERVAL * 1000),
        "accepted_compression_types": [4, 1], "telemetry_max_bytes": 1000, "requested_metrics": list(metrics),
    }  # fmt: skip
    return GetTelemetrySubscriptionsResponse(**{**given, **fields})


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_thing_is_to_ask_without_an_id_what_is_wanted(world: World) -> None:
    assert world.sender.time_to_next_request(world.now) == 0
    assert world.next_request().client_instance_id == ZERO_UUID
    assert world.sender.time_to_next_request(world.now) == float("inf"), "one request at a time"
    assert world.sender.create_request(world.now) is None


def test_pushes_follow_at_the_interval_and_the_first_one_is_spread(world: World) -> None:
    world.subscribe("*")

    began, first = world.now, world.push()

    assert world.now - began == INTERVAL * 1.0  # the middle of 0.5 and 1.5
    assert (first.client_instance_id, first.subscription_id, first.terminating) == (ID, 7, False)
    assert (first.compression_type, first.metrics) == (4, b"1")
    world.answer(PushTelemetryResponse())
    assert world.sender.time_to_next_request(world.now) == INTERVAL
    assert world.push().metrics == b"2"


def test_without_metrics_asked_for_nothing_is_collected_and_the_question_comes_again(world: World) -> None:
    world.subscribe()

    assert world.sender.time_to_next_request(world.now) == INTERVAL
    assert world.next_request().client_instance_id == ID
    assert world.payloads.made == 0


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_that_makes_no_sense_is_replaced(world: World, interval: int) -> None:
    world.subscribe("*", push_interval_ms=interval)

    assert world.sender.time_to_next_request(world.now) == DEFAULT_PUSH_INTERVAL


def test_a_subscription_that_changed_is_asked_for_at_once_but_not_again_and_again(world: World) -> None:
    world.subscribe("*")
    world.push()
    world.answer(PushTelemetryResponse(error_code=117))
    assert world.sender.time_to_next_request(world.now) == 0

    world.subscribe("*", subscription_id=8)
    assert world.push().subscription_id == 8
    world.answer(PushTelemetryResponse(error_code=117))

    assert world.sender.time_to_next_request(world.now) == INTERVAL, "a broker that goes on so is given a pause"


@pytest.mark.parametrize("code", [89, 118])
def test_what_is_too_much_for_the_broker_is_tried_at_the_next_interval(world: World, code: int) -> None:
    world.subscribe("*")
    world.push()
    world.answer(PushTelemetryResponse(error_code=code))

    assert world.sender.time_to_next_request(world.now) == INTERVAL
    assert world.payloads.accepted_up_to == 0, "what was refused is told again"


@pytest.mark.parametrize("code", [42, 87, 35, 31])
def test_an_error_that_stays_ends_telemetry_with_a_warning(
    world: World, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    world.subscribe("*")
    world.push()
    with caplog.at_level(logging.WARNING, "barnabas.telemetry"):
        world.answer(PushTelemetryResponse(error_code=code))

    assert world.sender.time_to_next_request(world.now) == float("inf")
    assert "no more telemetry is sent" in caplog.text


def test_an_answer_without_an_id_ends_telemetry(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.subscribe("*", client_instance_id=ZERO_UUID)

    assert world.sender.time_to_next_request(world.now) == float("inf")
    assert "no client instance id" in caplog.text


def test_after_a_lost_connection_another_broker_gets_the_next_push(world: World) -> None:
    world.subscribe("*")
    world.push()
    world.sender.handle_failed_request(world.now, None)

    assert world.sender.time_to_next_request(world.now) == INTERVAL
    assert world.push().client_instance_id == ID, "it stays who it is"
    assert world.payloads.accepted_up_to == 1, "it may have arrived, and is not told twice"


def test_a_broker_without_telemetry_is_left_in_peace_for_five_minutes(world: World) -> None:
    world.next_request()
    world.sender.handle_failed_request(world.now, UnsupportedVersionError("not there"))

    assert world.sender.time_to_next_request(world.now) == DEFAULT_PUSH_INTERVAL


def test_metrics_that_cannot_be_collected_are_left_for_the_next_interval(world: World) -> None:
    world.subscribe("*")
    world.payloads.is_possible = False

    assert world.next_request() is None
    assert world.sender.time_to_next_request(world.now) == INTERVAL


# The id


def test_who_asks_for_the_id_makes_a_broker_be_asked_at_once(world: World) -> None:
    world.next_request()
    world.sender.handle_failed_request(world.now, UnsupportedVersionError("not there"))

    world.sender.ask_for_instance_id()
    assert world.sender.is_awaited
    assert not world.sender.has_answer()
    assert world.sender.time_to_next_request(world.now) == 0
    world.subscribe("*")

    assert world.sender.instance_id() == ID
    assert not world.sender.is_awaited


def test_why_there_is_no_id_is_raised(world: World) -> None:
    world.sender.ask_for_instance_id()
    world.next_request()
    world.answer(GetTelemetrySubscriptionsResponse(error_code=42))

    assert world.sender.has_answer()
    with pytest.raises(InvalidRequestError):
        world.sender.instance_id()


def test_a_lost_connection_is_no_answer_to_who_waits_for_the_id(world: World) -> None:
    world.sender.ask_for_instance_id()
    world.next_request()
    world.sender.handle_failed_request(world.now, None)

    assert not world.sender.has_answer()
    assert world.sender.time_to_next_request(world.now) == 0


# The end


def test_a_client_that_closes_pushes_a_last_time(world: World) -> None:
    world.subscribe("*")
    world.sender.initiate_close(world.now)

    assert world.sender.time_to_next_request(world.now) == 0
    assert world.push().terminating
    assert not world.sender.is_done
    world.answer(PushTelemetryResponse())
    assert world.sender.is_done
    assert world.sender.time_to_next_request(world.now) == float("inf")


def test_the_last_push_waits_for_the_one_under_way_and_tells_what_came_since(world: World) -> None:
    world.subscribe("*")
    world.push()
    world.sender.initiate_close(world.now)
    assert world.sender.time_to_next_request(world.now) > 0

    world.answer(PushTelemetryResponse())

    assert world.payloads.accepted_up_to == 1
    assert world.push().terminating


@pytest.mark.parametrize("is_sent", [False, True])
def test_the_end_never_waits_longer_than_a_second(world: World, is_sent: bool) -> None:
    world.subscribe("*")
    world.sender.initiate_close(world.now)
    if is_sent:
        world.push()
        assert world.sender.time_to_next_request(world.now) == LAST_PUSH_TIMEOUT
    world.now += LAST_PUSH_TIMEOUT

    assert world.sender.time_to_next_request(world.now) == 0, "who waits for the end hears of it"
    assert world.sender.is_done
    assert world.sender.time_to_next_request(world.now) == float("inf")


def test_a_push_whose_connection_is_closed_does_not_keep_the_last_one_back(world: World) -> None:
    world.subscribe("*")
    world.push()
    world.sender.handle_failed_request(world.now, None)
    world.sender.initiate_close(world.now)

    assert world.push().terminating


def test_a_client_that_pushes_nothing_is_done_at_once(world: World) -> None:
    world.subscribe()
    world.sender.initiate_close(world.now)

    assert world.sender.state is ClientTelemetryState.TERMINATED
    world.answer(subscription("*"))
    assert world.sender.is_done, "an answer that comes too late changes nothing"


# What is wanted


@pytest.mark.parametrize(
    ("wanted", "metric", "is_wanted"),
    [
        (("*",), "a.b", True),
        (("a.",), "a.b", True),
        (("x", "a.b"), "a.b.c", True),
        (("",), "a", True),
        (("b",), "a.b", False),
        ((), "a", False),
    ],
)
def test_metrics_are_wanted_by_how_their_names_begin(wanted: tuple[str, ...], metric: str, is_wanted: bool) -> None:
    assert ClientTelemetrySubscription.of(subscription(*wanted)).wants(metric) is is_wanted
