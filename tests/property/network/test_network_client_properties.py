"""Whatever the network does, every request is answered exactly once, in order, and the counts agree."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.network.client_request import ClientResponse
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.network_client import NetworkClient
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.produce_request import ProduceRequest
from tests.support.network_fakes import FakeSelector, all_api_versions

NODES = [Node(1, "one", 9092), Node(2, "two", 9093)]
MESSAGE = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
NODE = st.sampled_from(NODES)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), NODE),
        st.tuples(st.just("send"), NODE),
        st.tuples(st.just("send without response"), NODE),
        st.tuples(st.just("respond"), NODE),
        st.tuples(st.just("respond"), NODE),
        st.tuples(st.just("respond nonsense"), NODE),
        st.tuples(st.just("break"), NODE),
        st.tuples(st.just("disconnect"), NODE),
        st.tuples(st.just("refuse"), NODE),
        st.tuples(st.just("get stuck"), NODE),
        st.tuples(st.just("wait"), st.sampled_from([0.001, 0.1, 5.0, 40.0])),
    ),
    max_size=60,
)


class Run:
    """A client whose every request and response is written down."""

    def __init__(self) -> None:
        self.now = 0.0
        self.selector = FakeSelector()
        self.selector.handlers = {ApiKey.API_VERSIONS: lambda request: all_api_versions()}
        self.client = NetworkClient(
            self.selector,
            ManualMetadataUpdater(NODES),
            "me",
            ConnectionSettings(max_in_flight_requests=3),
            random=Random(1),
        )
        self.sent: list[int] = []
        self.answered: list[int] = []
        self.called_back: list[int] = []

    def act(self, action: str, subject: Any) -> None:
        selector = self.selector
        if action.startswith("send"):
            self.send(subject, expect_response=action == "send")
        elif action == "respond" and selector.waiting.get(subject.id):
            selector.respond(subject.id, HeartbeatResponse())
        elif action == "respond nonsense" and selector.waiting.get(subject.id):
            selector.respond_bytes(subject.id, b"\1\2\3")
        elif action == "break" and selector.is_channel_ready(subject.id):
            selector.break_connection(subject.id)
        elif action == "disconnect":
            self.client.disconnect(subject.id, self.now)
        elif action == "refuse":
            selector.refusing ^= {subject.port}
        elif action == "get stuck":
            selector.is_sending_stuck = not selector.is_sending_stuck
        elif action == "wait":
            self.now += subject
        self.poll()

    def send(self, node: Node, *, expect_response: bool) -> None:
        if not self.client.ready(node, self.now):
            return
        message = MESSAGE if expect_response else ProduceRequest(acks=0)
        request = self.client.new_client_request(node.id, message, self.now, expect_response, callback=self.on_complete)
        self.client.send(request, self.now)
        self.sent.append(request.correlation_id)

    def on_complete(self, response: ClientResponse) -> None:
        self.called_back.append(response.request.correlation_id)
        assert response.message is None or response.error is None
        assert not response.disconnected or response.error is not None

    def poll(self) -> None:
        responses = self.client.poll(0.0, self.now)
        self.answered.extend(response.request.correlation_id for response in responses)
        for node in NODES:
            assert self.client.in_flight_request_count(node.id) <= 3
        # A node's own ApiVersions request may be in flight as well, at most one each.
        assert 0 <= self.client.in_flight_request_count() - (len(self.sent) - len(self.answered)) <= 2 or (
            self.client._aborted_sends
        )


@settings(deadline=None)
@given(ACTIONS)
def test_every_request_is_answered_exactly_once(actions: list[tuple[str, Any]]) -> None:
    run = Run()
    for action, subject in actions:
        run.act(action, subject)
    # After this long, what nobody answered has timed out.
    for _ in range(4):
        run.now += 40.0
        run.poll()
    assert Counter(run.answered) == Counter(run.sent)
    assert run.called_back == run.answered


@settings(deadline=None)
@given(ACTIONS)
def test_it_recovers_from_everything(actions: list[tuple[str, Any]]) -> None:
    run = Run()
    for action, subject in actions:
        run.act(action, subject)
    run.selector.refusing.clear()
    run.selector.is_sending_stuck = False
    for node in NODES:
        for _ in range(100):
            if run.client.ready(node, run.now):
                break
            while run.selector.waiting.get(node.id):
                run.selector.respond(node.id, HeartbeatResponse())
            run.now += 1.0
            run.poll()
        assert run.client.ready(node, run.now)
