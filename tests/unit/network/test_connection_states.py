"""Backoffs, timeouts and the order of requests in flight."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from barnabas.errors import IllegalStateError
from barnabas.network.client_request import ClientRequest
from barnabas.network.cluster_connection_states import ClusterConnectionStates, ConnectionState
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.exponential_backoff import ExponentialBackoff
from barnabas.network.in_flight_requests import InFlightRequest, InFlightRequests
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest


class Middle:
    """A random source in the middle: no jitter."""

    def random(self) -> float:
        return 0.5


@pytest.fixture
def states() -> ClusterConnectionStates:
    return ClusterConnectionStates(ConnectionSettings(), Middle())


def fail(states: ClusterConnectionStates, now: float, host: str = "host") -> int:
    attempt = states.connecting(1, now, host)
    states.disconnected(1, now)
    return attempt


def test_the_backoff_doubles_up_to_its_maximum() -> None:
    backoff = ExponentialBackoff(0.1, 1.0, Middle())
    assert [round(backoff.backoff(n), 3) for n in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.backoff(100_000) == 1.0


def test_the_backoff_is_spread_by_a_fifth_and_never_exceeds_its_maximum() -> None:
    backoff = ExponentialBackoff(0.1, 1.0, Random(7))
    first = [backoff.backoff(0) for _ in range(500)]
    assert 0.08 <= min(first) < 0.085
    assert 0.115 < max(first) <= 0.12
    assert max(backoff.backoff(9) for _ in range(500)) == 1.0


def test_a_backoff_whose_initial_wait_is_its_maximum_is_constant() -> None:
    assert {ExponentialBackoff(0.5, 0.5, Random(1)).backoff(n) for n in range(5)} == {0.5}
    assert {ExponentialBackoff(2.0, 0.5, Random(1)).backoff(n) for n in range(5)} == {0.5}


def test_a_node_may_be_tried_at_once_and_then_after_growing_waits(states: ClusterConnectionStates) -> None:
    assert states.can_connect(1, 0.0)
    assert states.connection_delay(1, 0.0) == 0.0
    waits = []
    now = 0.0
    for _ in range(7):
        fail(states, now)
        assert not states.can_connect(1, now)
        waits.append(states.connection_delay(1, now))
        now += waits[-1] + 1e-9
        assert states.can_connect(1, now)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_connection_that_was_ready_starts_the_backoff_afresh(states: ClusterConnectionStates) -> None:
    for now in range(5):
        fail(states, float(now))
    states.connecting(1, 9.0, "host")
    states.checking_api_versions(1)
    states.ready(1)
    assert states.connection_delay(1, 9.0) == math.inf
    states.disconnected(1, 9.0)
    assert states.connection_delay(1, 9.0) == pytest.approx(0.05)


def test_each_attempt_on_a_host_is_counted_until_one_succeeds(states: ClusterConnectionStates) -> None:
    assert [fail(states, float(now)) for now in range(3)] == [0, 1, 2]
    assert fail(states, 4.0, host="elsewhere") == 0
    states.connecting(1, 5.0, "elsewhere")
    states.ready(1)
    states.disconnected(1, 6.0)
    assert fail(states, 7.0, host="elsewhere") == 0


def test_the_time_to_connect_doubles_with_each_attempt_that_was_too_slow(states: ClusterConnectionStates) -> None:
    now = 0.0
    timeouts = []
    for _ in range(4):
        states.connecting(1, now, "host")
        timeouts.append(states.setup_timeout(1))
        assert states.connection_delay(1, now) == timeouts[-1]
        assert states.time_to_next_setup_timeout(now) == pytest.approx(timeouts[-1])
        assert states.nodes_with_setup_timeout(now + timeouts[-1] - 0.001) == []
        now += timeouts[-1]
        assert states.nodes_with_setup_timeout(now) == [1]
        states.disconnected(1, now)
        assert states.nodes_with_setup_timeout(now + 1000) == []
    assert timeouts == [10.0, 20.0, 30.0, 30.0]
    states.connecting(1, now, "host")
    states.checking_api_versions(1)
    assert states.setup_timeout(1) == 10.0


def test_throttling_never_becomes_shorter_and_ends(states: ClusterConnectionStates) -> None:
    states.connecting(1, 0.0, "host")
    states.ready(1)
    states.throttle(1, 5.0)
    states.throttle(1, 3.0)
    assert not states.is_ready(1, 4.9)
    assert states.poll_delay(1, 4.0) == 1.0
    assert states.is_ready(1, 5.0)
    assert states.poll_delay(1, 5.0) == math.inf
    states.throttle(99, 5.0)
    assert states.throttle_delay(99, 0.0) == 0.0


def test_the_states_of_a_connection(states: ClusterConnectionStates) -> None:
    assert states.state(1) is None
    assert not states.is_disconnected(1)
    states.connecting(1, 0.0, "host")
    assert states.is_connecting(1)
    assert states.is_preparing(1)
    assert not states.is_connected(1)
    states.checking_api_versions(1)
    assert not states.is_connecting(1)
    assert states.is_preparing(1)
    assert states.is_connected(1)
    states.ready(1)
    assert states.has_ready_nodes(0.0)
    assert not states.is_preparing(1)
    states.disconnected(1, 0.0)
    assert states.state(1) == ConnectionState.DISCONNECTED
    assert states.is_disconnected(1)
    states.remove(1)
    assert states.can_connect(1, 0.0)


def request(node_id: int, timeout: float = 30.0) -> ClientRequest:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return ClientRequest(node_id, message, 0, 0.0, True, timeout, None)


def add(in_flight: InFlightRequests, node_id: int, sent_at: float = 0.0, timeout: float = 30.0) -> Any:
    made = InFlightRequest(request(node_id, timeout), 4, False, sent_at)
    in_flight.add(made)
    return made


def test_requests_are_answered_in_the_order_they_were_sent() -> None:
    in_flight = InFlightRequests(5)
    first, second, third = (add(in_flight, 1) for _ in range(3))
    assert in_flight.complete_next(1, 0.0) is first
    assert in_flight.last_sent(1) is third
    assert in_flight.complete_last_sent(1) is third
    assert in_flight.complete_next(1, 0.0) is second
    assert in_flight.count() == 0
    for ask in (lambda node: in_flight.complete_next(node, 0.0), in_flight.complete_last_sent, in_flight.last_sent):
        with pytest.raises(IllegalStateError, match="no in-flight requests for node 1"):
            ask(1)


def test_room_and_counts_are_kept_for_each_node() -> None:
    in_flight = InFlightRequests(2)
    add(in_flight, 1)
    assert in_flight.has_room(1)
    add(in_flight, 1)
    assert not in_flight.has_room(1)
    assert in_flight.has_room(2)
    add(in_flight, 2)
    assert (in_flight.count(), in_flight.count(1), in_flight.count(2)) == (3, 2, 1)
    assert len(in_flight.clear_all(1)) == 2
    assert in_flight.clear_all(1) == []
    assert (in_flight.count(), in_flight.count(1), in_flight.count(2)) == (1, 0, 1)


def test_any_request_that_waits_too_long_makes_its_node_late() -> None:
    in_flight = InFlightRequests(5)
    assert in_flight.time_to_next_timeout(0.0) == math.inf
    add(in_flight, 1, sent_at=0.0, timeout=30.0)
    add(in_flight, 1, sent_at=1.0, timeout=5.0)
    add(in_flight, 2, sent_at=0.0, timeout=10.0)
    assert in_flight.time_to_next_timeout(2.0) == 4.0
    assert in_flight.nodes_with_timed_out_requests(5.9) == []
    assert in_flight.nodes_with_timed_out_requests(6.0) == [1]
    assert in_flight.nodes_with_timed_out_requests(10.0) == [1, 2]
