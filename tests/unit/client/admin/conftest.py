"""An AdminClient on a network without sockets, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.environment import Environment
from barnabas.config.client_config import ClientConfig
from barnabas.protocol.api import ApiKey
from tests.support.network_fakes import FakeSelector, all_api_versions, metadata_response


class FakeEnvironment(Environment):
    """One fake selector, in whose polls alone time passes."""

    def __init__(self, selector: FakeSelector) -> None:
        super().__init__(Random(1))
        self.now = 1000.0
        self._selector = selector
        original = selector.poll

        def poll(timeout: float, now: float) -> float:
            self.now = original(timeout, self.now)
            return self.now

        selector.poll = poll  # type: ignore[method-assign]  # the test's own object

    def clock(self) -> float:
        return self.now

    def selector(self, config: ClientConfig, client_id: str) -> FakeSelector:
        return self._selector


class Admin:
    """The client under test and the cluster it talks to: two brokers, the second one is the controller."""

    def __init__(self, client: AdminClient, selector: FakeSelector, clock: FakeEnvironment) -> None:
        self.client = client
        self.selector = selector
        self.clock = clock
        self.handlers: dict[int, Any] = {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(),
            ApiKey.METADATA: lambda request: self.metadata(request),
        }
        selector.handlers = self.handlers
        self.controller = 2

    def metadata(self, request: Any) -> Any:
        brokers = [(1, "one", 9092), (2, "two", 9092)]
        return metadata_response(brokers, {"t": 2}, leader=1, controller_id=self.controller)

    def answer(self, key: ApiKey, *responses: Any) -> None:
        """The responses to the next requests of an API; the last one is given to all later ones."""
        left = list(responses)
        self.handlers[key] = lambda request: left.pop(0) if len(left) > 1 else left[0]

    def asked(self, key: ApiKey) -> list[int]:
        """The nodes that got requests of an API."""
        return [node for node, header, _ in self.selector.received if header.request_api_key == key]

    def requests(self, key: ApiKey) -> list[Any]:
        """The requests of an API."""
        return [message for _, header, message in self.selector.received if header.request_api_key == key]


@pytest.fixture
def new_admin() -> Iterator[Callable[..., Admin]]:
    """Makes admin clients with settings of their own."""
    made: list[AdminClient] = []

    def make(**settings: Any) -> Admin:
        selector = FakeSelector()
        environment = FakeEnvironment(selector)
        client = AdminClient(environment=environment, **{"bootstrap_servers": "boot:9092", **settings})
        made.append(client)
        return Admin(client, selector, environment)

    yield make
    for client in made:
        client.close()


@pytest.fixture
def admin(new_admin: Callable[..., Admin]) -> Admin:
    """An admin client with Kafka's default settings."""
    return new_admin()
