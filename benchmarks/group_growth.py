"""Growth: what does one group cost the broker as it grows to 1,000 members and 10,000 partitions? Beside Apache Kafka.

Both protocols, over 20 connections: joining until each member has its part, then heartbeats that change nothing.
Run: ./run bench group_growth [--largest N]
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from barnabas import AdminClient, NewTopic, errors
from barnabas.protocol.framing import decode_response
from barnabas.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from benchmarks._many_clients import Clients, Connection
from benchmarks._options import options
from benchmarks._race import Peer, brokers, cpu_seconds

MEMBERS = (10, 100, 1000)
PARTITIONS_PER_MEMBER = 10
CONNECTIONS = 20
HEARTBEATS_PER_MEMBER = 5
#: Subscribes to one topic, version 0.
SUBSCRIPTION = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", -1)


class Cost(NamedTuple):
    """The broker's CPU: to bring the group together, in ms per member, and in µs per heartbeat that changes nothing."""

    joining_ms: float
    heartbeat_us: float


class Group:
    """The members of one group, spread over the connections, each with at most one request in flight."""

    def __init__(self, clients: Clients, peer: Peer, size: int, name: str) -> None:
        self.name = name
        self.size = size
        self._clients = clients
        self._lines = [Line(clients, peer) for _ in range(CONNECTIONS)]

    def ask_all(self, requests: dict[int, Any], version: int, answered: Callable[[int, Any], None]) -> None:
        """Send each member's request, and wait for all answers."""
        left = len(requests)

        def one(member: int, response: Any) -> None:
            nonlocal left
            left -= 1
            answered(member, response)

        for member, request in requests.items():
            self._lines[member % CONNECTIONS].ask(request, version, member, one)
        self._clients.run(lambda: not left, 300)
        if left:
            raise SystemExit(f"{left} of {len(requests)} requests were not answered within five minutes")


class Line:
    """One connection: requests wait for the answer to the one before."""

    def __init__(self, clients: Clients, peer: Peer) -> None:
        self._connection: Connection = clients.connect(peer.bootstrap_servers, self._on_frame)
        self._waiting: list[tuple[Any, int, int, Callable[[int, Any], None]]] = []

    def ask(self, request: Any, version: int, member: int, answered: Callable[[int, Any], None]) -> None:
        """Send the request once those before it are answered."""
        self._waiting.append((request, version, member, answered))
        if len(self._waiting) == 1:
            self._connection.send(request, version)

    def _on_frame(self, frame: memoryview) -> None:
        request, version, member, answered = self._waiting.pop(0)
        if self._waiting:
            self._connection.send(*self._waiting[0][:2])
        answered(member, decode_response(request.API_KEY, version, frame)[1])


def wait_for_coordinator(peer: Peer, clients: Clients, group: str) -> None:
    """Wait until the group's partition of `__consumer_offsets` exists and is loaded."""
    line, codes = Line(clients, peer), [0]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for request, version in (
            (FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4),
            (HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody"), 4),
        ):
            answers: list[Any] = []
            line.ask(request, version, 0, lambda _, response, answers=answers: answers.append(response))
            clients.run(lambda answers=answers: bool(answers), 30)
            codes.append(getattr(answers[0], "error_code", 0))
        if codes[-1] == errors.UnknownMemberIdError.code:
            return
        time.sleep(0.1)
    raise SystemExit(f"{peer.name}: no coordinator for {group} within a minute, error {codes[-1]}")


def consumer_group(peer: Peer, clients: Clients, size: int) -> Cost:
    """KIP-848: members join and send heartbeats until each has its ten partitions in one epoch."""
    group = Group(clients, peer, size, f"consumer-{size}")
    wait_for_coordinator(peer, clients, group.name)
    ids = [f"member-{index:05}" for index in range(size)]
    epochs, owned = [0] * size, [[]] * size  # type: ignore[var-annotated]

    def heartbeat(index: int, full: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group.name, member_id=ids[index], member_epoch=epochs[index], topic_partitions=owned[index]
        )
        if full:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = [f"growth-{size}"]
        return request

    def answered(index: int, response: Any) -> None:
        if response.error_code:
            raise SystemExit(f"{peer.name}: {response.error_code} {response.error_message}")
        epochs[index] = response.member_epoch
        if response.assignment is not None:
            owned[index] = [
                TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in response.assignment.topic_partitions
            ]

    before, began = cpu_seconds(peer.pid()), time.monotonic()
    group.ask_all({index: heartbeat(index, True) for index in range(size)}, 1, answered)
    while {sum(len(topic.partitions) for topic in each) for each in owned} != {PARTITIONS_PER_MEMBER}:
        if time.monotonic() - began > 300:
            raise SystemExit(f"{peer.name}: the group did not come together within five minutes")
        time.sleep(0.2)
        group.ask_all({index: heartbeat(index, False) for index in range(size)}, 1, answered)
    group.ask_all({index: heartbeat(index, False) for index in range(size)}, 1, answered)
    joining = cpu_seconds(peer.pid()) - before
    return Cost(
        joining / size * 1e3, _heartbeats(peer, group, lambda index: _idle(heartbeat(index, False)), 1, answered)
    )


def _idle(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    request.topic_partitions = None
    return request


def classic_group(peer: Peer, clients: Clients, size: int) -> Cost:
    """JoinGroup of all, SyncGroup of all, each on a connection of its own while it is parked."""
    name = f"classic-{size}"
    wait_for_coordinator(peer, clients, name)
    lines = [Line(clients, peer) for _ in range(size)]
    ids, generation = [""] * size, [0]
    left = [0]

    def ask_all(request: Callable[[int], Any], version: int, answered: Callable[[int, Any], None]) -> None:
        left[0] = size

        def one(index: int, response: Any) -> None:
            left[0] -= 1
            answered(index, response)

        for index in range(size):
            lines[index].ask(request(index), version, index, one)
        clients.run(lambda: not left[0], 300)
        if left[0]:
            raise SystemExit(f"{peer.name}: {left[0]} requests were not answered within five minutes")

    def join(index: int) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=name,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id=ids[index],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    def joined(index: int, response: Any) -> None:
        ids[index], generation[0] = response.member_id, response.generation_id

    def sync(index: int) -> SyncGroupRequest:
        parts = [SyncGroupRequestAssignment(member_id=id, assignment=bytes(60)) for id in ids] if index == 0 else []
        return SyncGroupRequest(
            group_id=name,
            generation_id=generation[0],
            member_id=ids[index],
            protocol_type="consumer",
            protocol_name="range",
            assignments=parts,
        )

    before = cpu_seconds(peer.pid())
    ask_all(join, 9, joined)
    # Everybody is known now; the round in which all join is the generation that counts.
    ask_all(join, 9, joined)
    ask_all(sync, 5, lambda index, response: None)
    joining = cpu_seconds(peer.pid()) - before

    group = Group(clients, peer, size, name)

    def heartbeat(index: int) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=name, generation_id=generation[0], member_id=ids[index])

    return Cost(joining / size * 1e3, _heartbeats(peer, group, heartbeat, 4, lambda index, response: None))


def _heartbeats(
    peer: Peer, group: Group, request: Callable[[int], Any], version: int, answered: Callable[[int, Any], None]
) -> float:
    rounds = max(HEARTBEATS_PER_MEMBER, 5000 // group.size)
    before = cpu_seconds(peer.pid())
    for _ in range(rounds):
        group.ask_all({index: request(index) for index in range(group.size)}, version, answered)
    return (cpu_seconds(peer.pid()) - before) / (rounds * group.size) * 1e6


def main() -> None:
    """Measure and print."""
    given = options(__doc__, largest=MEMBERS[-1])
    sizes = [size for size in MEMBERS if size <= given.largest]
    with brokers({"group.initial.rebalance.delay.ms": "1000"}) as peers:
        for peer in peers:
            with Clients() as clients:
                wait_for_coordinator(peer, clients, "first")
            with AdminClient(bootstrap_servers=peer.bootstrap_servers) as admin:
                for size in sizes:
                    # Apache Kafka makes fewer than 10,000 partitions at once.
                    partitions = PARTITIONS_PER_MEMBER * size
                    admin.create_topics([NewTopic(f"growth-{size}", num_partitions=max(partitions // 2, 1))])
                    admin.create_partitions({f"growth-{size}": partitions})
                admin.create_topics([NewTopic("growth-30", num_partitions=PARTITIONS_PER_MEMBER * 30)])
            for protocol in (consumer_group, classic_group):
                with Clients() as clients:
                    protocol(peer, clients, 30)  # Java compiles what it runs often
                costs = []
                for size in sizes:
                    with Clients() as clients:
                        costs.append(protocol(peer, clients, size))
                for what, unit, row in (
                    ("joining, per member", "ms", [cost.joining_ms for cost in costs]),
                    ("one heartbeat", "µs", [cost.heartbeat_us for cost in costs]),
                ):
                    figures = "   ".join(
                        f"{size:>5}: {each:9.2f} {unit}" for size, each in zip(sizes, row, strict=True)
                    )
                    growth = row[-1] / row[0] if row[0] else float("nan")
                    print(f"{peer.name:<13} {protocol.__name__:<15} {what:<20} {figures}   {growth:.2f} x", flush=True)


if __name__ == "__main__":
    main()
