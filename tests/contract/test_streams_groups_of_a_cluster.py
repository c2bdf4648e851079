"""Streams groups on three brokers of ours: the coordinator makes topics by the controller, and follows elections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas import AdminClient, Broker, NewTopic, errors
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient
from tests.support.streams_member import StreamsMember, subtopology, topic
from tests.support.streams_oracle import flat

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUICK = {"group.streams.initial.rebalance.delay.ms": "500", "offsets.topic.num.partitions": "4"}
MOVED = (
    errors.NotCoordinatorError.code,
    errors.CoordinatorNotAvailableError.code,
    errors.CoordinatorLoadInProgressError.code,
)


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(brokers=3, config=QUICK) as running:
        yield running
        assert "please report this" not in running.log_text()


class Clients:
    """Sends heartbeats to the coordinator, which it looks for anew when that has moved."""

    def __init__(self, broker: Broker, group: str) -> None:
        self._servers = broker.bootstrap_servers.split(",")
        self._group = group
        self._client: SocketClient | None = None

    def send(self, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
        found: list[StreamsGroupHeartbeatResponse] = []

        def asked() -> bool:
            with suppress(OSError, EOFError, AssertionError):
                if self._client is None:
                    self._client = self._coordinator()
                found.append(self._client.request(request, 0))
                if found[-1].error_code not in MOVED:
                    return True
            self.close()
            return False

        eventually(asked)
        return found[-1]

    def _coordinator(self) -> SocketClient:
        for server in self._servers:
            with suppress(OSError, EOFError), SocketClient(server) as client:
                request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._group])
                told = client.request(request, 4).coordinators[0]
                assert not told.error_code
                return SocketClient(f"{told.host}:{told.port}")
        raise AssertionError("no broker can be reached")

    def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()
        self._client = None


def test_a_group_goes_on_at_the_next_coordinator(ours: Broker) -> None:
    part = subtopology("0", "lines")
    part.state_changelog_topics = [topic("app-store", replicas=2)]
    clients = Clients(ours, "app")
    with AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("lines", 6, 3)])
        a, b = (StreamsMember(clients.send, name, (part,), group="app") for name in "ab")

        def whole() -> bool:
            for member in (a, b):
                assert member.heartbeat().error_code == 0
            return flat(a.active) | flat(b.active) == {("0", number) for number in range(6)}

        eventually(whole)
        made = admin.describe_topics(["app-store"])["app-store"].partitions
        assert {len(one.replicas) for one in made} == {2}, "as the application wants"
        assert len(made) == 6
        before, epochs = (a.active, b.active), (a.epoch, b.epoch)

        killed = admin.describe_streams_groups(["app"])["app"].coordinator.id
        ours.kill(killed)
        try:
            eventually(whole)
            assert ((a.active, b.active), (a.epoch, b.epoch)) == (before, epochs), "nothing had to move"
            after = admin.describe_streams_groups(["app"])["app"]
            assert after.coordinator.id != killed
            assert after.state == "Stable"
        finally:
            ours.start(killed)
        a.leave()
        eventually(lambda: whole_of(b))
        b.leave()
    clients.close()


def whole_of(member: StreamsMember) -> bool:
    assert member.heartbeat().error_code == 0
    return len(flat(member.active)) == 6
