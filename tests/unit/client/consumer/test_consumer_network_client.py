"""ConsumerNetworkClient: unsent requests, transmission, completion."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from typing import Any

import pytest

from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient, RequestFutureCompletionHandler
from barnabas.client.consumer.request_future import RequestFuture
from barnabas.errors import (
    DisconnectError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    WakeupError,
)
from barnabas.network.client_request import ClientResponse
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from barnabas.network.sampled_stat import Statistic
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from tests.support.network_fakes import FakeSelector, all_api_versions

A, B = Node(0, "a", 1), Node(1, "b", 2)


class Clock:
    """Virtual seconds, moved by the selector."""

    now = 100.0


class Rig:
    """A client on a selector that answers API versions only."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.selector = FakeSelector()
        self.selector.handlers = {ApiKey.API_VERSIONS: lambda request: all_api_versions()}
        network = NetworkClient(self.selector, ManualMetadataUpdater([A, B]), "test", random=random.Random(1))
        original = self.selector.poll

        def poll(timeout: float, now: float) -> float:
            self.clock.now = original(timeout, now)
            return self.clock.now

        self.selector.poll = poll  # type: ignore[method-assign]  # virtual time passes where the selector waits
        self.client = ConsumerNetworkClient(network, lambda: self.clock.now, retry_backoff=0.1, request_timeout=30.0)

    def send(self, node: Node = A, member: str = "m") -> RequestFuture[ClientResponse]:
        return self.client.send(node, HeartbeatRequest(group_id="g", member_id=member), self.clock.now)

    def poll(self, timeout: float = 0.0) -> None:
        self.client.poll(timeout, self.clock.now)

    def connect(self) -> None:
        """Poll until what is queued has been transmitted."""
        for _ in range(5):
            self.poll()

    def transmitted(self) -> list[tuple[int, str]]:
        return [
            (node, message.member_id)
            for node, header, message in self.selector.received
            if header.request_api_key == 12
        ]


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.shows("S1.60", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.send")
@pytest.mark.shows("S1.59", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.send")
def test_send_only_prepares(rig: Rig) -> None:
    future = rig.send(B, "m")

    assert rig.selector.connects == []
    assert (rig.client.pending_request_count(A), rig.client.pending_request_count(B)) == (0, 1)
    # The handler that completes the future, in a ClientRequest, which waits for its node.
    ((request, handler),) = rig.client._unsent[B.id]
    assert handler.future is future
    assert request.callback == handler.on_complete
    assert (request.destination, request.message.member_id, request.created_at) == (B.id, "m", rig.clock.now)


@pytest.mark.shows("S1.50", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient._try_send")
def test_requests_queue_per_node_the_oldest_first(rig: Rig) -> None:
    for member in ("1", "2", "3"):
        rig.send(A, member)
        rig.send(B, member)

    rig.connect()

    assert [member for node, member in rig.transmitted() if node == 0] == ["1", "2", "3"]
    assert [member for node, member in rig.transmitted() if node == 1] == ["1", "2", "3"]


@pytest.mark.shows("S1.65", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.poll")
@pytest.mark.shows("S1.41", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient._try_send")
def test_only_poll_transmits(rig: Rig) -> None:
    rig.send()
    assert rig.transmitted() == []

    rig.connect()

    assert rig.transmitted() == [(0, "m")]


@pytest.mark.shows("S1.67", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient._try_send")
def test_the_queues_of_all_nodes_are_gone_through_and_what_is_not_ready_stays(rig: Rig) -> None:
    handed_over: list[tuple[int, str]] = []
    send = rig.client.client.send

    def noted(request: Any, now: float) -> None:
        handed_over.append((request.destination, request.message.member_id))
        send(request, now)

    rig.client.client.send = noted  # type: ignore[method-assign]
    rig.selector.handlers = {}
    for member in ("1", "2"):
        rig.send(A, member)
        rig.send(B, member)
    rig.connect()
    assert handed_over == []

    rig.selector.respond(B.id, all_api_versions())
    rig.connect()
    assert handed_over == [(1, "1"), (1, "2")]
    assert {node: len(queue) for node, queue in rig.client._unsent.items()} == {A.id: 2}

    rig.selector.respond(A.id, all_api_versions())
    rig.connect()
    assert handed_over == [(1, "1"), (1, "2"), (0, "1"), (0, "2")]
    assert rig.transmitted() == handed_over


@pytest.mark.shows("S1.66", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.poll")
def test_poll_transmits_empties_the_queue_collects_answers_and_runs_callbacks(rig: Rig) -> None:
    future = rig.send()
    rig.connect()
    assert rig.transmitted() == [(0, "m")]

    rig.selector.respond(0, HeartbeatResponse())
    rig.client.poll(0.0, rig.clock.now)

    assert future.value.message == HeartbeatResponse()
    assert not rig.client.has_pending_requests


def test_an_answer_that_cannot_be_read_is_a_lost_connection_which_callers_get_over(rig: Rig) -> None:
    future = rig.send()
    rig.connect()
    rig.selector.respond_bytes(0, b"\0\0")
    rig.client.poll(0.0, rig.clock.now)

    assert isinstance(future.error, DisconnectError)
    assert isinstance(future.error.__cause__, ProtocolError)


@pytest.mark.shows("S1.75", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient._try_send")
def test_only_sent_requests_leave_the_queue(rig: Rig) -> None:
    rig.selector.silent = {B.port}
    rig.send(A)
    rig.send(B)

    rig.connect()

    assert rig.transmitted() == [(0, "m")]
    assert rig.client.pending_request_count(B) == 1


@pytest.mark.shows(
    "S1.74", breaks="barnabas.client.consumer.consumer_network_client:RequestFutureCompletionHandler.on_complete"
)
@pytest.mark.shows(
    "S1.62", breaks="barnabas.client.consumer.consumer_network_client:RequestFutureCompletionHandler.on_complete"
)
@pytest.mark.shows(
    "S1.76",
    breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.fire_pending_completed_requests",
)
def test_an_answer_first_waits_in_pending_completion(rig: Rig) -> None:
    future = rig.send()
    rig.connect()
    rig.selector.respond(0, HeartbeatResponse())

    rig.client.client.poll(0.0, rig.clock.now)
    assert not future.is_done
    assert rig.client.has_pending_requests

    rig.client.fire_pending_completed_requests()
    assert future.value.message == HeartbeatResponse()


@pytest.mark.shows(
    "S1.61", breaks="barnabas.client.consumer.consumer_network_client:RequestFutureCompletionHandler.on_failure"
)
def test_the_completion_handler_puts_itself_into_pending_completion_either_way() -> None:
    pending: deque[RequestFutureCompletionHandler] = deque()
    latencies = defaultdict[int, Statistic](Statistic)
    good, bad = (RequestFutureCompletionHandler(pending, latencies) for _ in range(2))

    good.on_complete(ClientResponse(Rig().client.client.new_client_request(0, HeartbeatRequest(), 0.0), 1.0, message=1))
    bad.on_failure(KafkaTimeoutError("late"))

    assert list(pending) == [good, bad]
    assert not good.future.is_done
    good.fire_completion()
    bad.fire_completion()
    assert good.future.value.message == 1
    assert str(bad.future.error) == "late"
    assert latencies[ApiKey.HEARTBEAT].at(1.0).maximum == 1000


@pytest.mark.shows(
    "S1.77",
    breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.fire_pending_completed_requests",
)
@pytest.mark.shows(
    "S1.78",
    breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.fire_pending_completed_requests",
)
def test_poll_tells_of_answers_to_earlier_polls_first_and_of_its_own_at_the_end(rig: Rig) -> None:
    order: list[str] = []
    first, second = rig.send(member="1"), rig.send(member="2")
    rig.connect()
    first.add_listener(lambda response: order.append("first"), order.append)
    second.add_listener(lambda response: order.append("second"), order.append)
    rig.selector.respond(0, HeartbeatResponse())
    rig.client.client.poll(0.0, rig.clock.now)
    rig.selector.respond(0, HeartbeatResponse())
    original = rig.selector.poll
    rig.selector.poll = lambda timeout, now: (order.append("network"), original(timeout, now))[1]  # type: ignore[method-assign]  # to see when it runs

    rig.poll()

    assert order == ["first", "network", "second"]


@pytest.mark.shows("S1.63", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.send")
def test_every_request_of_a_consumer_expects_a_response(rig: Rig) -> None:
    made: list[Any] = []
    original = rig.client.client.new_client_request
    rig.client.client.new_client_request = lambda *args, **kw: made.append(original(*args, **kw)) or made[-1]  # type: ignore[method-assign]  # to see what is made

    rig.send()

    assert [request.expect_response for request in made] == [True]


def test_a_request_that_finds_no_connection_in_time_fails(rig: Rig) -> None:
    rig.selector.silent = {A.port}
    future = rig.client.send(A, HeartbeatRequest(), rig.clock.now, timeout=2.0)

    for _ in range(40):
        rig.poll(0.1)

    assert isinstance(future.error, KafkaTimeoutError)
    assert not rig.client.has_pending_requests


def test_what_is_queued_for_a_node_that_refuses_fails_at_once(rig: Rig) -> None:
    rig.selector.refusing = {A.port}
    future = rig.send()

    rig.connect()

    assert isinstance(future.error, DisconnectError)


def test_a_listener_may_send_and_poll_again(rig: Rig) -> None:
    answered: list[str] = []
    future = rig.send(member="1")

    def on_success(response: ClientResponse) -> None:
        answered.append("1")
        rig.send(member="2").add_listener(lambda response: answered.append("2"), answered.append)
        rig.poll()

    future.add_listener(on_success, answered.append)
    rig.connect()
    rig.selector.respond(0, HeartbeatResponse())
    rig.connect()
    rig.selector.respond(0, HeartbeatResponse())
    rig.connect()

    assert answered == ["1", "2"]


def test_poll_waits_as_long_as_it_may_and_not_when_there_is_nothing_to_wait_for(rig: Rig) -> None:
    rig.send()
    rig.connect()
    rig.selector.polled.clear()

    rig.poll(3.0)
    rig.client.poll(3.0, rig.clock.now, should_block=lambda: False)

    assert rig.selector.polled == [3.0, 0.0]


def test_wakeup_ends_the_next_poll_once(rig: Rig) -> None:
    rig.client.wakeup()
    with pytest.raises(WakeupError):
        rig.poll()
    rig.poll()

    rig.client.wakeup()
    rig.client.disable_wakeups()
    rig.poll()


@pytest.mark.shows("S1.56", breaks="barnabas.client.consumer.request_future:RequestFuture.add_listener")
def test_a_future_is_completed_once_and_tells_late_listeners_too() -> None:
    future: RequestFuture[int] = RequestFuture()
    told: list[object] = []
    future.add_listener(told.append, told.append)
    future.complete(1)
    future.add_listener(told.append, told.append)

    assert told == [1, 1]
    with pytest.raises(IllegalStateError):
        future.complete(2)
    with pytest.raises(IllegalStateError):
        _ = RequestFuture.failure(KafkaError("no")).value


@pytest.mark.shows("S1.51", breaks="barnabas.client.consumer.request_future:RequestFuture.compose")
def test_a_composed_future_passes_failures_on() -> None:
    def refuse(value: int, composed: RequestFuture[int]) -> None:
        raise KafkaError(f"not {value}")

    first: RequestFuture[int] = RequestFuture()
    composed = first.compose(refuse)
    first.complete(1)
    assert str(composed.error) == "not 1"

    second: RequestFuture[int] = RequestFuture()
    doubled: RequestFuture[int] = second.compose(lambda value, composed: composed.complete(2 * value))
    second.complete(4)
    assert doubled.value == 8
