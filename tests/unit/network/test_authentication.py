"""What NetworkClient and metadata do with a broker that does not let the client in."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.client.default_metadata_updater import DefaultMetadataUpdater
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.errors import DisconnectError, SaslAuthenticationError
from barnabas.network.network_metrics import network_metrics
from barnabas.network.node import Node
from barnabas.network.selectable import Authentication
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from tests.support.network_client_utils import await_ready
from tests.support.network_fakes import all_api_versions, metadata_response

DENIAL = SaslAuthenticationError("Authentication failed: Invalid username or password")


def test_the_reason_is_kept_until_a_connection_ends_otherwise(world: Any) -> None:
    world.selector.denying[9092] = DENIAL
    world.client.ready(world.node, world.now)
    world.poll()
    assert world.client.connection_failed(world.node)
    assert world.client.authentication_error(world.node) is DENIAL

    world.selector.denying.clear()
    world.selector.refusing.add(9092)
    world.now += 10
    world.client.ready(world.node, world.now)
    assert world.client.authentication_error(world.node) is DENIAL, "while it is tried again"
    world.poll()
    assert world.client.authentication_error(world.node) is None


def test_whoever_waits_for_the_connection_is_told(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.selector.denying[9092] = DENIAL

    with pytest.raises(SaslAuthenticationError, match="Invalid username or password"):
        await_ready(world.client, world.node, lambda: world.now, 5.0)

    assert "me: the connection to node 1 (host:9092) failed authentication: Authentication failed" in caplog.text
    assert network_metrics([world.client.metrics], world.now)["failed-authentication-total"] == 1


def test_what_is_in_flight_when_a_session_is_not_renewed_fails_with_the_reason(world: Any) -> None:
    world.make_ready()
    request = world.send(HeartbeatRequest())
    world.selector.denying[9092] = DENIAL
    world.selector.deny(1, 9092)

    (response,) = world.poll()

    assert response.request is request
    assert response.disconnected
    assert response.error is DENIAL


class Asking:
    """A client that wants metadata of one bootstrap server, which denies it."""

    def __init__(self, new_world: Any) -> None:
        self.metadata = Metadata(MetadataRefresh(0.1, 1.0, 300.0, Random(1)))
        self.metadata.bootstrap([Node(-1, "host", 9092)])
        updater = DefaultMetadataUpdater(self.metadata, request_timeout=30.0, rebootstrap_trigger=None)
        self.world = new_world(updater=updater)
        self.selector = self.world.selector
        self.selector.denying[9092] = DENIAL
        self.selector.handlers = {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(),
            ApiKey.METADATA: lambda request: metadata_response([(1, "host", 9092)], {"t": 1}),
        }

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            self.world.client.poll(0.1, self.world.now)
            self.world.now += 0.1


def test_it_does_not_knock_again_before_somebody_was_told(new_world: Any) -> None:
    asking = Asking(new_world)
    asking.run(60)
    assert len(asking.selector.connects) == 1

    with pytest.raises(SaslAuthenticationError):
        asking.metadata.raise_fatal_error()
    asking.run(60)
    assert len(asking.selector.connects) == 2


def test_once_it_is_let_in_all_is_well(new_world: Any) -> None:
    asking = Asking(new_world)
    asking.run(5)
    asking.selector.denying.clear()
    with pytest.raises(SaslAuthenticationError):
        asking.metadata.raise_fatal_error()

    asking.run(5)

    asking.metadata.raise_fatal_error()
    assert asking.metadata.fetch().partition_count_for_topic("t") == 1


def test_another_broker_that_lets_it_in_still_gives_metadata(new_world: Any) -> None:
    asking = Asking(new_world)
    asking.selector.denying.clear()
    asking.run(5)
    asking.world.client.ready(Node(1, "host", 9092), asking.world.now)
    asking.run(1)
    asking.selector.denying[9099] = DENIAL
    asking.world.client.ready(Node(2, "host", 9099), asking.world.now)
    asking.run(1)
    asked = len(asking.selector.received)

    asking.metadata.request_update()
    asking.run(5)

    assert len(asking.selector.received) > asked
    with pytest.raises(SaslAuthenticationError):
        asking.metadata.raise_fatal_error()


def test_a_connection_that_just_ends_is_no_denial(world: Any) -> None:
    world.selector.refusing.add(9092)
    with pytest.raises(DisconnectError):
        await_ready(world.client, world.node, lambda: world.now, 5.0)


def test_authentications_renewals_and_refusals_are_counted(world: Any) -> None:
    metrics = world.client.metrics
    metrics.on_authenticated(Authentication(1), 10.0)
    metrics.on_authenticated(Authentication(1, renewed_in=0.25), 20.0)
    metrics.on_authenticated(Authentication(1, renewed_in=0.75), 20.0)
    metrics.on_authentication_failed(30.0, was_accepted=True)

    found = network_metrics([metrics], 30.0)
    assert found["successful-authentication-total"] == 1
    assert found["successful-authentication-rate"] == pytest.approx(1 / 50)
    assert found["successful-reauthentication-total"] == 2
    assert (found["reauthentication-latency-avg"], found["reauthentication-latency-max"]) == (500, 750)
    assert (found["failed-authentication-total"], found["failed-reauthentication-total"]) == (0, 1)
