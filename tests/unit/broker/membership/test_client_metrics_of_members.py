"""Subscriptions of client metrics that one broker is told are served by the others, which have them by the metadata."""

from __future__ import annotations

from typing import Any

from barnabas.broker.client_metrics.client_metrics_manager import ClientMetricsManager
from barnabas.broker.controller.controller_apis import ControllerApis, ControllerIdentity
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.controller.envelopes import ForwardedRequest, handle_envelope
from barnabas.protocol.message import Message
from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.cluster_member import MemberBroker, broker
from tests.support.controllers import CLUSTER_ID, Controllers

SET, DELETE = 0, 1
CLIENT_METRICS = 16
ALL_MS = 300_000


class NoReceiver:
    """A `Receiver` that keeps nothing."""

    def export(self, *_: Any) -> None:
        pass


class World:
    """A controller, the member that is told, and another one that serves."""

    def __init__(self) -> None:
        self.controllers = Controllers()
        self.controllers.elect()
        self.controllers.start(1, 2, 3)
        self.apis = ControllerApis(self.controllers.active, ControllerIdentity(CLUSTER_ID, "CONTROLLER"))
        self.told, self.serving = (MemberBroker({}, *broker(1), *broker(2)) for _ in range(2))
        for found in (self.told, self.serving):
            state = found.state
            state.client_metrics = ClientMetricsManager(state.metadata, NoReceiver(), state.random, 1 << 20)

    def alter(self, operation: int, **settings: str) -> None:
        """Tell one broker, which asks the controller; the others read what the controller has written."""
        configs = [AlterableConfig(name.replace("_", "."), operation, value) for name, value in settings.items()]
        resource = AlterConfigsResource(CLIENT_METRICS, "all", configs)
        client = self.told.connect()
        assert client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1) is None
        before = len(self.controllers.quorum.records())
        answer = self.controllers.given(handle_envelope(self._handle, self.told.asked("forwarding")))
        assert self.told.answer("forwarding", answer)
        assert [one.error_code for one in client.responses[0].responses] == [0]
        for found in (self.told, self.serving):
            found.tell(*self.controllers.quorum.records()[before:])

    def _handle(self, forwarded: ForwardedRequest) -> Deferred[Message]:
        version, principal = forwarded.header.request_api_version, forwarded.principal
        context = self.controllers.context(version, principal=principal, is_forwarded=True)
        return self.apis.handle(context, forwarded.message)

    def served(self, client_id: str = "shop") -> tuple[list[str], int]:
        """What the other broker asks a new client for, and how often, in milliseconds."""
        found = self.serving.connect().request(GetTelemetrySubscriptionsRequest(), 0, client_id)
        assert found.error_code == 0
        return found.requested_metrics, found.push_interval_ms


def test_what_one_broker_is_told_another_asks_its_clients_for_until_it_is_taken_back() -> None:
    world = World()
    assert world.served() == ([], ALL_MS)
    world.alter(SET, metrics="org.apache.kafka.producer.", interval_ms="5000", match="client_id=shop")
    assert world.served() == (["org.apache.kafka.producer."], 5000)
    assert world.served("another") == ([], ALL_MS)
    world.alter(SET, interval_ms="7000")
    assert world.served() == (["org.apache.kafka.producer."], 7000)
    world.alter(DELETE, metrics="", interval_ms="", match="")
    assert world.served() == ([], ALL_MS)
