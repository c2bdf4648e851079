"""A NetworkClient on a selector without sockets, and the time it lives in."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from barnabas.network.client_request import ClientResponse
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from tests.support.network_fakes import FakeSelector, all_api_versions


class World:
    """The client under test, the selector that stands for the network, and virtual time."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.node = Node(1, "host", 9092)
        self.other = Node(2, "host", 9093)
        self.selector = FakeSelector()
        self.updater: Any = settings.pop("updater", None) or ManualMetadataUpdater([self.node, self.other])
        self.client = NetworkClient(self.selector, self.updater, "me", ConnectionSettings(**settings), random=Random(1))

    def poll(self, timeout: float = 0.0) -> list[ClientResponse]:
        """Polls once; time passes as the selector says."""
        responses = self.client.poll(timeout, self.now)
        self.now += self.selector.polled[-1] if timeout and not responses else 0.0
        return responses

    def make_ready(self, node: Node | None = None) -> None:
        """Connects to a node and goes through the ApiVersions exchange."""
        node = node or self.node
        assert not self.client.ready(node, self.now)
        self.poll()
        self.poll()
        self.selector.respond(node.id, all_api_versions(telemetry=True))
        self.poll()
        assert self.client.is_ready(node, self.now)

    def send(self, message: Any, node: Node | None = None, **options: Any) -> Any:
        """Sends a request and transmits it; gives the ClientRequest."""
        request = self.client.new_client_request((node or self.node).id, message, self.now, **options)
        self.client.send(request, self.now)
        self.poll()
        return request


@pytest.fixture
def new_world() -> Callable[..., World]:
    """Makes worlds with settings of their own."""
    return World


@pytest.fixture
def world() -> World:
    """A world with Kafka's default settings."""
    return World()
