"""NetworkClient on a selector without sockets."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest

from barnabas.errors import (
    DisconnectError,
    IllegalStateError,
    ProtocolError,
    UnsupportedVersionError,
)
from barnabas.network.client_request import LAST_CORRELATION_ID, RequestBuilder
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.produce_request import ProduceRequest
from barnabas.protocol.messages.produce_response import ProduceResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def produce(acks: int = 1) -> ProduceRequest:
    return ProduceRequest(acks=acks, timeout_ms=1000)


# Connecting


def test_ready_begins_a_connection_and_is_true_after_the_api_versions_exchange(world: Any) -> None:
    assert not world.client.ready(world.node, world.now)
    assert world.selector.connects == [(1, "host", 9092, 0)]

    world.poll()
    assert not world.client.ready(world.node, world.now)
    world.poll()
    _, header, _ = world.selector.received[0]
    assert (header.request_api_key, header.request_api_version) == (ApiKey.API_VERSIONS, 4)
    assert not world.client.is_ready(world.node, world.now)

    world.selector.respond(1, ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=3)]))
    world.poll()
    assert world.client.is_ready(world.node, world.now)
    assert world.client.api_versions(1).supported(ApiKey.HEARTBEAT) == (0, 3)


def test_connecting_twice_does_not_connect_twice(world: Any) -> None:
    world.client.ready(world.node, world.now)
    world.client.ready(world.node, world.now)
    assert len(world.selector.connects) == 1


def test_the_frames_of_an_unknown_peer_are_bounded_until_it_has_shown_to_be_a_broker(world: Any) -> None:
    world.client.ready(world.node, world.now)
    world.poll()
    assert world.selector.max_receive_sizes == {}
    world.poll()
    world.selector.respond(1, ApiVersionsResponse())
    world.poll()
    assert world.selector.max_receive_sizes == {1: 2**31 - 1}


def test_a_broker_that_knows_only_older_api_versions_requests_is_asked_again_in_its_own(world: Any) -> None:
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    refusal = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)]
    )
    world.selector.respond(1, refusal, version=0)
    world.poll()
    world.poll()
    assert [header.request_api_version for _, header, _ in world.selector.received] == [4, 2]

    world.selector.respond(1, ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=1)]))
    world.poll()
    assert world.client.is_ready(world.node, world.now)


def test_a_broker_that_does_not_say_which_is_asked_in_version_0(world: Any) -> None:
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    world.selector.respond(1, ApiVersionsResponse(error_code=35), version=0)
    world.poll()
    world.poll()
    assert [header.request_api_version for _, header, _ in world.selector.received] == [4, 0]


def test_any_other_error_in_the_api_versions_response_ends_the_connection(world: Any) -> None:
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    world.selector.respond(1, ApiVersionsResponse(error_code=29))
    world.poll()
    assert world.selector.closed == [1]
    assert world.client.connection_failed(world.node)


def test_a_refused_connection_is_tried_again_only_after_its_backoff(world: Any) -> None:
    world.selector.refusing.add(9092)
    world.client.ready(world.node, world.now)
    world.poll()
    assert world.client.connection_failed(world.node)
    delay = world.client.connection_delay(world.node, world.now)
    assert 0.04 <= delay <= 0.06

    world.client.ready(world.node, world.now + delay / 2)
    assert len(world.selector.connects) == 1
    world.client.ready(world.node, world.now + delay)
    assert world.selector.connects[1:] == [(1, "host", 9092, 1)]


def test_a_connection_that_is_not_made_in_time_is_given_up(new_world: Any) -> None:
    world = new_world(connection_setup_timeout=10.0)
    world.selector.silent.add(9092)
    world.client.ready(world.node, world.now)
    for _ in range(3):
        world.poll(60.0)
    assert world.selector.closed == [1]
    assert world.client.connection_failed(world.node)
    assert world.selector.polled[0] <= 12.0


def test_a_failed_connection_is_reported_with_client_id_and_address(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.selector.refusing.add(9092)
    world.client.ready(world.node, world.now)
    with caplog.at_level(logging.WARNING, logger="barnabas.network"):
        world.poll()
    assert caplog.messages == ["me: the connection to node 1 (host:9092) could not be established: Connection refused"]


def test_it_recovers_when_a_broker_that_was_gone_is_back(world: Any) -> None:
    world.make_ready()
    world.selector.break_connection(1)
    world.selector.refusing.add(9092)
    for _ in range(20):
        world.client.ready(world.node, world.now)
        world.poll()
        world.now += 1.2
    world.selector.refusing.clear()

    world.make_ready()
    assert world.send(HEARTBEAT)


# Requests and responses


@pytest.mark.shows("S1.2", breaks="barnabas.network.network_client:NetworkClient._do_send")
def test_every_request_carries_the_client_id(world: Any) -> None:
    world.make_ready()
    world.send(HEARTBEAT)
    assert [header.client_id for _, header, _ in world.selector.received] == ["me", "me"]


def test_a_request_to_a_node_that_is_not_ready_is_refused(world: Any) -> None:
    request = world.client.new_client_request(1, HEARTBEAT, world.now)
    with pytest.raises(IllegalStateError, match="node 1, which is not ready"):
        world.client.send(request, world.now)


@pytest.mark.shows("S1.68", breaks="barnabas.network.in_flight_requests:InFlightRequests.add")
def test_a_request_is_in_flight_before_it_is_handed_to_the_selector(world: Any) -> None:
    world.make_ready()
    counts: list[int] = []
    original = world.selector.send

    def send(node_id: int, buffers: Any, **options: Any) -> None:
        counts.append(world.client.in_flight_request_count(node_id))
        original(node_id, buffers, **options)

    world.selector.send = send
    world.client.send(world.client.new_client_request(1, HEARTBEAT, world.now), world.now)
    assert counts == [1]


@pytest.mark.shows("S1.69", breaks="barnabas.network.network_client:NetworkClient._handle_completed_receives")
def test_what_is_sent_and_not_answered_is_in_flight(world: Any) -> None:
    world.make_ready()
    for expected in (1, 2, 3):
        world.send(HEARTBEAT)
        assert world.client.in_flight_request_count(1) == expected
    world.selector.respond(1, HeartbeatResponse())
    world.poll()
    assert world.client.in_flight_request_count(1) == 2
    assert world.client.in_flight_request_count() == 2
    assert world.client.in_flight_request_count(2) == 0


@pytest.mark.shows("S1.71", breaks="barnabas.network.network_client:NetworkClient._handle_completed_sends")
def test_a_request_without_a_response_leaves_as_soon_as_it_is_sent_and_it_is_the_newest(world: Any) -> None:
    world.make_ready()
    first = world.send(produce(acks=1))
    second = world.client.new_client_request(1, produce(acks=0), world.now, expect_response=False)
    world.client.send(second, world.now)
    assert world.client.in_flight_request_count(1) == 2

    (response,) = world.poll()
    assert response.request is second
    assert response.message is None
    assert response.error is None
    assert world.client.in_flight_requests.last_sent(1).request is first


@pytest.mark.shows("S1.72", breaks="barnabas.network.in_flight_requests:InFlightRequests.add")
def test_a_request_with_a_response_stays_when_it_is_sent(world: Any) -> None:
    world.make_ready()
    request = world.send(produce())
    assert world.selector.completed_sends == [1]
    assert world.client.in_flight_requests.last_sent(1).request is request


@pytest.mark.shows("S1.73", breaks="barnabas.network.network_client:NetworkClient._handle_completed_receives")
def test_a_response_removes_the_oldest_request_of_its_node(world: Any) -> None:
    world.make_ready()
    first, second = world.send(HEARTBEAT), world.send(HEARTBEAT)
    world.selector.respond(1, HeartbeatResponse(error_code=27))
    (response,) = world.poll()
    assert response.request is first
    assert response.message.error_code == 27
    assert world.client.in_flight_requests.last_sent(1).request is second
    assert world.client.in_flight_request_count(1) == 1


def test_a_response_with_another_correlation_id_ends_the_connection_and_fails_what_waits(world: Any) -> None:
    world.make_ready()
    first, second = world.send(HEARTBEAT), world.send(HEARTBEAT)
    world.selector.respond(1, HeartbeatResponse(), correlation_id=4711)
    responses = world.poll()
    assert [response.request for response in responses] == [first, second]
    assert isinstance(responses[0].error, ProtocolError)
    assert isinstance(responses[1].error, DisconnectError)
    assert all(response.disconnected for response in responses)
    assert world.selector.closed == [1]


def test_a_response_that_cannot_be_read_ends_the_connection(world: Any) -> None:
    world.make_ready()
    request = world.send(HEARTBEAT)
    world.selector.respond_bytes(1, b"\0\0")
    (response,) = world.poll()
    assert response.request is request
    assert isinstance(response.error, ProtocolError)
    assert world.client.connection_failed(world.node)


@pytest.mark.shows("S1.70", breaks="barnabas.network.network_client:NetworkClient.poll")
@pytest.mark.shows("S1.42", breaks="barnabas.network.network_client:NetworkClient.send")
def test_poll_completes_sends_then_receives_and_runs_callbacks_last(world: Any) -> None:
    world.make_ready()
    seen: list[str] = []
    world.send(HEARTBEAT, callback=lambda response: seen.append("response"))
    world.selector.respond(1, HeartbeatResponse())
    unanswered = world.client.new_client_request(
        1, produce(acks=0), world.now, expect_response=False, callback=lambda response: seen.append("sent")
    )
    world.client.send(unanswered, world.now)
    original = world.selector.poll

    def poll(timeout: float, now: float) -> float:
        assert seen == []
        result: float = original(timeout, now)
        seen.append("selector")
        return result

    world.selector.poll = poll
    responses = world.poll()
    assert seen == ["selector", "sent", "response"]
    assert [type(response.message) for response in responses] == [type(None), HeartbeatResponse]


def test_a_request_that_is_answered_lets_go_of_its_callback(world: Any) -> None:
    world.make_ready()
    seen: list[Any] = []
    world.send(HEARTBEAT, callback=seen.append)

    world.selector.respond(1, HeartbeatResponse())
    world.poll()

    assert seen[0].request.callback is None


def test_a_callback_that_fails_stops_neither_poll_nor_the_other_callbacks(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.make_ready()
    seen: list[Any] = []

    def fail(response: Any) -> None:
        raise ZeroDivisionError

    world.send(HEARTBEAT, callback=fail)
    world.send(HEARTBEAT, callback=seen.append)
    world.selector.respond(1, HeartbeatResponse())
    world.selector.respond(1, HeartbeatResponse())
    assert len(world.poll()) == 2
    assert len(seen) == 1
    assert "the callback of" in caplog.text


def test_no_more_requests_than_allowed_are_in_flight_to_a_node(new_world: Any) -> None:
    world = new_world(max_in_flight_requests=2)
    world.make_ready()
    world.send(HEARTBEAT)
    assert world.client.is_ready(world.node, world.now)
    world.send(HEARTBEAT)
    assert not world.client.is_ready(world.node, world.now)
    world.selector.respond(1, HeartbeatResponse())
    world.poll()
    assert world.client.is_ready(world.node, world.now)


def test_a_node_is_not_ready_while_a_send_is_in_progress(world: Any) -> None:
    world.make_ready()
    world.selector.is_sending_stuck = True
    world.send(HEARTBEAT)
    assert not world.client.is_ready(world.node, world.now)
    world.selector.is_sending_stuck = False
    world.poll()
    assert world.client.is_ready(world.node, world.now)


def test_correlation_ids_start_again_after_the_largest(world: Any) -> None:
    world.client._correlation_id = LAST_CORRELATION_ID
    ids = [world.client.new_client_request(1, HEARTBEAT, 0.0).correlation_id for _ in range(3)]
    assert ids == [LAST_CORRELATION_ID, 0, 1]


# Versions


@pytest.mark.shows("S3.110", breaks="barnabas.network.node_api_versions:NodeApiVersions.latest_usable_version")
@pytest.mark.parametrize(("oldest", "newest"), [(0, 0), (0, 1), (1, 2), (2, 4), (4, 99)])
def test_the_highest_version_that_both_sides_know_is_used(world: Any, oldest: int, newest: int) -> None:
    """A broker of any age: a client is not of its version, the two agree on one for each API."""
    used = min(newest, HeartbeatRequest.VALID_VERSIONS[1])
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    ranges = [ApiVersion(api_key=ApiKey.HEARTBEAT, min_version=oldest, max_version=newest)]
    world.selector.respond(1, ApiVersionsResponse(api_keys=ranges))
    world.poll()
    world.send(HEARTBEAT)
    assert world.selector.received[-1][1].request_api_version == used
    world.selector.respond(1, HeartbeatResponse())
    (response,) = world.poll()
    assert response.api_version == used


def test_a_builder_makes_the_message_for_the_version_that_is_used(world: Any) -> None:
    world.make_ready()
    built = []

    def build(version: int) -> HeartbeatRequest:
        built.append(version)
        return HEARTBEAT

    world.send(RequestBuilder(ApiKey.HEARTBEAT, build, 0, 2))
    assert built == [2]
    assert world.selector.received[-1][1].request_api_version == 2


@pytest.mark.parametrize(
    "message",
    [HEARTBEAT, RequestBuilder(ApiKey.METADATA, lambda version: MetadataRequest(), 12, 13)],
    ids=["an API that the broker lacks", "a version that the broker lacks"],
)
def test_what_the_broker_does_not_know_is_answered_at_once_and_never_sent(world: Any, message: Any) -> None:
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    ranges = [ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=5)]
    world.selector.respond(1, ApiVersionsResponse(api_keys=ranges))
    world.poll()
    seen: list[Any] = []
    request = world.client.new_client_request(1, message, world.now, callback=seen.append)
    world.client.send(request, world.now)
    polled = len(world.selector.polled)
    responses = world.client.poll(60.0, world.now)
    assert responses == seen
    assert responses[0].version_mismatch
    assert isinstance(responses[0].error, UnsupportedVersionError)
    assert len(world.selector.polled) == polled
    assert world.client.in_flight_request_count() == 0


# Trouble


def test_a_disconnection_fails_all_requests_in_flight_to_that_node_only(world: Any) -> None:
    world.make_ready(world.node)
    world.make_ready(world.other)
    lost = [world.send(HEARTBEAT), world.send(HEARTBEAT)]
    world.send(HEARTBEAT, world.other)
    world.selector.break_connection(1)
    responses = world.poll()
    assert [response.request for response in responses] == lost
    assert all(response.disconnected and not response.timed_out for response in responses)
    assert all(isinstance(response.error, DisconnectError) for response in responses)
    assert world.client.in_flight_request_count() == 1
    assert world.client.api_versions(1) is None


def test_a_request_that_takes_too_long_ends_the_connection_and_fails_all_of_the_node(world: Any) -> None:
    world.make_ready()
    requests = [world.send(HEARTBEAT, timeout=5.0), world.send(HEARTBEAT, timeout=20.0)]
    responses = world.poll(60.0)
    assert world.selector.polled[-1] == pytest.approx(5.0)
    assert [response.request for response in responses] == requests
    assert all(response.disconnected and response.timed_out for response in responses)
    assert world.selector.closed == [1]
    assert world.client.connection_failed(world.node)


def test_disconnect_fails_what_is_in_flight_with_the_next_poll(world: Any) -> None:
    world.make_ready()
    request = world.send(HEARTBEAT)
    world.client.disconnect(1, world.now)
    assert world.selector.closed == [1]
    (response,) = world.client.poll(60.0, world.now)
    assert response.request is request
    assert response.disconnected
    world.client.disconnect(1, world.now)
    world.client.disconnect(99, world.now)


def test_a_throttled_node_is_left_alone_for_as_long_as_it_asked(world: Any) -> None:
    world.make_ready()
    world.send(produce())
    world.selector.respond(1, ProduceResponse(throttle_time_ms=2000))
    world.poll()
    assert not world.client.ready(world.node, world.now)
    assert world.client.poll_delay(world.node, world.now) == pytest.approx(2.0)
    assert not world.client.ready(world.node, world.now + 1.9)
    assert world.client.ready(world.node, world.now + 2.0)


def test_a_broker_that_has_throttled_by_itself_is_not_left_alone(world: Any) -> None:
    world.make_ready()
    world.send(RequestBuilder(ApiKey.PRODUCE, lambda version: produce(), 3, 5))
    world.selector.respond(1, ProduceResponse(throttle_time_ms=2000))
    world.poll()
    assert world.client.ready(world.node, world.now)


def test_an_idle_connection_is_closed_and_not_counted_as_news(new_world: Any) -> None:
    world = new_world(connections_max_idle=100.0, request_timeout=1000.0)
    world.make_ready(world.node)
    world.make_ready(world.other)
    world.now += 60
    world.send(HEARTBEAT, world.other)
    world.now += 60
    world.poll()
    assert world.selector.closed == [1]
    assert not world.client.is_ready(world.node, world.now)
    assert world.client.in_flight_request_count(2) == 1


# Which node to ask


def test_the_least_loaded_node_is_a_ready_one_with_the_fewest_requests(world: Any) -> None:
    world.make_ready(world.node)
    world.make_ready(world.other)
    for _ in range(2):
        world.send(HEARTBEAT, world.node)
    world.send(HEARTBEAT, world.other)
    assert world.client.least_loaded_node(world.now) == world.other


def test_a_connecting_node_comes_before_one_that_is_not_connected(world: Any) -> None:
    world.selector.silent.add(9092)
    world.client.ready(world.node, world.now)
    world.poll()
    assert {world.client.least_loaded_node(world.now) for _ in range(20)} == {world.node}


def test_of_nodes_that_are_not_connected_the_one_tried_longest_ago_is_chosen(world: Any) -> None:
    world.selector.refusing |= {9092, 9093}
    for node in (world.node, world.other):
        world.client.ready(node, world.now)
        world.poll()
        world.now += 1.0
    assert {world.client.least_loaded_node(world.now) for _ in range(20)} == {world.node}


def test_no_node_is_chosen_while_all_are_in_their_backoff(world: Any) -> None:
    world.selector.refusing |= {9092, 9093}
    for node in (world.node, world.other):
        world.client.ready(node, world.now)
    world.poll()
    assert world.client.least_loaded_node(world.now) is None


# Waiting and ending


def test_poll_waits_no_longer_than_asked_and_not_past_the_next_timeout(new_world: Any) -> None:
    world = new_world(request_timeout=30.0)
    world.poll(3.0)
    assert world.selector.polled[-1] == 3.0
    world.poll(100.0)
    assert world.selector.polled[-1] == 30.0
    world.make_ready()
    world.send(HEARTBEAT, timeout=2.0)
    world.poll(100.0)
    assert world.selector.polled[-1] == pytest.approx(2.0)


def test_wakeup_reaches_the_selector(world: Any) -> None:
    world.client.wakeup()
    assert world.selector.wakeups == 1


def test_a_closed_client_says_so(world: Any) -> None:
    world.make_ready()
    world.client.close()
    world.client.close()
    assert world.selector.is_closed
    with pytest.raises(IllegalStateError, match="me: the network client is closed"):
        world.client.poll(0.0, world.now)


def test_connection_delay_of_a_connected_node_is_infinite(world: Any) -> None:
    world.make_ready()
    assert world.client.connection_delay(world.node, world.now) == math.inf
