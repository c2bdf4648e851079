"""Race: what waiting costs, against Apache Kafka: 2,000 idle partitions, long polls, and 100 groups that rebalance.

Run: ./run bench race_idle [--rounds N] [--seconds S]
"""

from __future__ import annotations

import time

from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from benchmarks._many_clients import Clients
from benchmarks._options import options
from benchmarks._race import Figures, Peer, answered, brokers, cpu_seconds, create_topic, in_turns
from tests.support.core_broker import SocketClient, fetch

GROUPS = 100
JOIN, SYNC = 5, 3


def core_used(peer: Peer, seconds: float) -> float:
    """Return the share of one core that a broker uses, in percent."""
    before = cpu_seconds(peer.pid())
    time.sleep(seconds)
    return (cpu_seconds(peer.pid()) - before) / seconds * 100


def long_polls(peer: Peer, consumers: int, seconds: float) -> float:
    """Return the share of a core with so many consumers that wait at the end of a partition, again and again."""
    at_end = encode_request(fetch("polled", offset=0, max_wait_ms=500, min_bytes=1 << 20), 12, 1, "bench")
    with Clients() as clients:
        for _ in range(consumers):
            connection = clients.connect(peer.bootstrap_servers, lambda _frame: None)
            connection.on_frame = lambda _frame, connection=connection: connection.send_bytes(at_end)  # type: ignore[misc]
            connection.send_bytes(at_end)
        clients.run(lambda: False, 1)
        before = cpu_seconds(peer.pid())
        clients.run(lambda: False, seconds)
        return (cpu_seconds(peer.pid()) - before) / seconds * 100


class Member:
    """One member of a classic group that joins and synchronizes when it is told to."""

    def __init__(self, clients: Clients, peer: Peer, group: str) -> None:
        self.group = group
        self.member_id = ""
        self.stable = False
        self._joins = 0
        self._api = ApiKey.JOIN_GROUP
        self._connection = clients.connect(peer.bootstrap_servers, self._received)

    def join(self) -> None:
        """Join, or join again with another subscription, which always makes a rebalance."""
        self.stable = False
        self._api = ApiKey.JOIN_GROUP
        self._joins += 1
        subscription = ConsumerProtocolSubscription(topics=["polled"], user_data=self._joins.to_bytes(4, "big"))
        metadata = b"\0\1" + subscription.encode(1)
        protocol = JoinGroupRequestProtocol(name="range", metadata=metadata)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._connection.send(request, JOIN)

    def _received(self, frame: memoryview) -> None:
        version = JOIN if self._api == ApiKey.JOIN_GROUP else SYNC
        _, answer = decode_response(self._api, version, frame)
        if self._api == ApiKey.SYNC_GROUP:
            self.stable = answer.error_code == 0  # type: ignore[attr-defined]  # a SyncGroupResponse
            return
        self._joined(answer)

    def _joined(self, answer: object) -> None:
        self.member_id = answer.member_id  # type: ignore[attr-defined]  # a JoinGroupResponse
        if answer.error_code:  # type: ignore[attr-defined]
            self.join()
            return
        self._api = ApiKey.SYNC_GROUP
        members = [member.member_id for member in answer.members]  # type: ignore[attr-defined]
        assignments = [SyncGroupRequestAssignment(member_id=name, assignment=b"\0\0") for name in members]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=answer.generation_id,  # type: ignore[attr-defined]
            member_id=self.member_id,
            assignments=assignments,
        )
        self._connection.send(request, SYNC)


def rebalance(peer: Peer, number: int) -> float:
    """Milliseconds until 100 stable groups of two members, all of which join again at once, are stable again."""
    with Clients() as clients:
        pairs = [
            (Member(clients, peer, f"g{number}-{group}"), Member(clients, peer, f"g{number}-{group}"))
            for group in range(GROUPS)
        ]
        members = [member for pair in pairs for member in pair]
        for first, _ in pairs:
            first.join()
        clients.run(lambda: all(first.stable for first, _ in pairs), 60)
        for _, second in pairs:
            second.join()
        clients.run(lambda: all(second.member_id for _, second in pairs), 60)
        clients.run(lambda: False, 0.5)  # they wait for the first members now
        for first, _ in pairs:
            first.join()
        clients.run(lambda: all(member.stable for member in members), 60)
        began = time.perf_counter()
        for member in members:
            member.join()
        clients.run(lambda: all(member.stable for member in members), 60)
        if not all(member.stable for member in members):
            raise SystemExit(f"{peer.name}: some groups did not become stable within a minute")
        return (time.perf_counter() - began) * 1e3


def coordinators_ready(peer: Peer) -> None:
    """Wait until every group has its coordinator."""
    groups = [f"g-1-{group}" for group in range(GROUPS)]
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
    with SocketClient(peer.bootstrap_servers) as client:
        while any(found.error_code for found in client.request(request, 4).coordinators):
            time.sleep(0.2)
    time.sleep(2)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=3, seconds=8.0)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            create_topic(peer, "idle", 2000)
            create_topic(peer, "polled", 1)
            answered(peer, "polled")
            coordinators_ready(peer)
            rebalance(peer, -1)
        time.sleep(10)
        for number, peer in enumerate(in_turns(peers, given.rounds)):
            figures.add("2,000 partitions, idle", peer, core_used(peer, given.seconds))
            for consumers in (60, 200):
                figures.add(f"{consumers} consumers, long polls", peer, long_polls(peer, consumers, given.seconds))
            figures.add("100 groups rebalancing at once, until all are stable", peer, rebalance(peer, number))
    figures.report(
        {
            "2,000 partitions, idle": ("% core", 0.5),
            "60 consumers, long polls": ("% core", 0.5),
            "200 consumers, long polls": ("% core", 0.5),
            "100 groups rebalancing at once, until all are stable": ("ms", 1.0),
        }
    )


if __name__ == "__main__":
    main()
