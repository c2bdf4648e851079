"""A connection whose setup is interrupted, or whose first request cannot be written, is given up and tried again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.network.api_versions import ApiVersions
from barnabas.network.cluster_connection_states import ClusterConnectionStates, ConnectionState
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse


def test_an_interruption_while_the_connection_becomes_ready_leaves_no_attempt_behind() -> None:
    states = ClusterConnectionStates(ConnectionSettings(), random.Random(1))
    states.connecting(1, 0.0, "h")
    # As where an exception comes between the two lines of `checking_api_versions`.
    states._nodes[1].state = ConnectionState.CHECKING_API_VERSIONS

    states.disconnected(1, 5.0)

    assert states.nodes_with_setup_timeout(100.0) == []
    assert not states.is_connecting(1)


def test_a_connection_that_cannot_ask_what_the_broker_understands_is_made_anew(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = ApiVersions.build
    monkeypatch.setattr(ApiVersions, "build", lambda self, request: 1 // 0)
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    assert world.selector.closed == [1]
    assert world.client.connection_failed(world.node)

    monkeypatch.setattr(ApiVersions, "build", build)
    world.now += 10.0
    world.client.ready(world.node, world.now)
    world.poll()
    world.poll()
    world.selector.respond(1, ApiVersionsResponse(api_keys=[ApiVersion(api_key=12, min_version=0, max_version=3)]))
    world.poll()
    assert world.client.is_ready(world.node, world.now)
