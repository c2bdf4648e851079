"""A broker after an exception before any line of its deferred work: that of one is over, all others are served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from barnabas import errors
from barnabas.protocol.messages.create_topics_request import CreateTopicsRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce
from tests.support.line_errors import EVERY, LineErrors, check_places
from tests.unit.broker.transactions.wire import WireProducer

#: What runs deferred. Left out is what guards it, and loops over it: `purgatory`, `request_channel`, `faults`, timers.
ROOMS = tuple(
    f"broker/{name}"
    for name in (
        "client_quota_manager", "cold_fetch", "commit_wait", "coordinator/c", "coordinator/d", "coordinator/e",
        "coordinator/i", "coordinator/l", "coordinator/p", "delayed_", "fetch_", "groups/", "handlers/", "log/",
        "log_opening", "metadata/", "network/client_connection", "partition", "piecewise", "replica_manager",
        "security/", "topic_admin", "transactions/",
    )
)  # fmt: skip
#: How many places are tried in the short form; the lines of a life are some thousands.
PLACES = 24
SASL = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": 'PlainLoginModule required user_alice="secret";',
}
SETTINGS = {
    **SASL,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "group.min.session.timeout.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "connections.max.idle.ms": 600_000,
}
UNKNOWN = errors.UnknownServerError.code


class BesideStorage:
    """Work that is done at once, and told when `deliver` is called; off until `is_beside`."""

    def __init__(self) -> None:
        self.done: deque[Callable[[], None]] = deque()
        self.is_beside = False

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        work()
        if self.is_beside:
            self.done.append(done)
        else:
            done()

    def deliver(self) -> None:
        while self.done:
            self.done.popleft()()

    def drain(self) -> None:
        self.deliver()


class Life:
    """A broker in whose turns all kinds of deferred work are done, and clients that wait for it."""

    def __init__(self, errors_: LineErrors) -> None:
        self.errors = errors_
        self.storage = BesideStorage()
        self.broker = CoreBroker(SETTINGS, storage=self.storage)
        self.broker.state.advertised["SASL"] = ("127.0.0.1", 9093)
        self.clients: dict[str, CoreClient] = {}
        self.sent: dict[str, int] = {}
        self.client("admin").request(
            CreateTopicsRequest(topics=create("t").topics + create("flushed", flush_messages="1").topics), 7
        )
        self.producers = [WireProducer(self.broker.connect(), name, second=False) for name in ("committing", "slow")]

    def client(self, name: str, listener: str = "PLAINTEXT") -> CoreClient:
        found = self.clients.get(name)
        if found is None:
            found = self.clients[name] = self.broker.connect(listener)
        return found

    def send(self, name: str, message: Any, version: int) -> None:
        client = self.client(name)
        self.sent[name] = self.sent.get(name, len(client.responses)) + 1
        client.send(message, version)

    # -- what is deferred --------------------------------------------------------------------------------------------

    def park(self) -> None:
        """Have requests of all kinds wait."""
        self.send("for its time", fetch("t", 0, max_wait_ms=400, min_bytes=1 << 20), 12)
        self.send("for records", fetch("t", 0, max_wait_ms=20_000), 12)
        self.send("for a transaction", fetch("t", 1, max_wait_ms=20_000, isolation_level=1), 12)
        for producer in self.producers:
            assert producer.init(timeout_ms=3000) == 0
            assert producer.add(("t", 0)) == 0
            producer.send("t", b"of a transaction")
        self.storage.is_beside = True
        self.send("for a flush", produce("flushed", batch(b"1")), 9)
        self.send("for the metadata", create("another"), 7)
        for group in ("of two", "without leader"):
            self.join(group, "first")
            self.join(group, "second")
        self.mute("muted")
        self.log_in_wrongly()

    def join(self, group: str, name: str, member_id: str = "") -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = JoinGroupRequest(
            group_id=group, session_timeout_ms=2000, rebalance_timeout_ms=3000, member_id=member_id,
            protocol_type="consumer", protocols=protocols,
        )  # fmt: skip
        self.send(f"{name} {group}", request, 3)

    def mute(self, name: str) -> None:
        channel = self.broker.node.core.channel
        channel.mute(self.client(name).connection, 1.0)
        self.send(name, MetadataRequest(topics=[]), 9)

    def log_in_wrongly(self) -> None:
        client = self.client("login", "SASL")
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        self.sent["login"] = 2

    def work(self) -> None:
        """What happens meanwhile: records, commits, the disk answers, sessions and times end."""
        self.turn(self.storage.deliver)
        self.request("writer", produce("t", batch(b"a", b"b")), 9)
        self.sync("first without leader")
        self.producers[0].end(commit=True)
        for _ in range(60):
            self.turn(self.storage.deliver)
            self.broker.now += 0.25
            self.turn(lambda: self.broker.node.core.tick(self.broker.instant))

    def sync(self, name: str) -> None:
        """A member that does not lead, or leads and is lost, waits for its assignment."""
        client = self.client(name)
        if client.responses and not client.responses[-1].error_code:
            joined = client.responses[-1]
            self.send(name, SyncGroupRequest("without leader", joined.generation_id, joined.member_id), 2)

    def request(self, name: str, message: Any, version: int) -> None:
        self.send(name, message, version)
        self.turn(lambda: self.broker.node.core.settle(self.broker.instant))

    def turn(self, call: Callable[[], None]) -> None:
        """One turn of the broker, in which an error may be raised: none comes out of it."""
        with self.errors.watching():
            call()

    # -- what has to hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        where = self.errors.place, self.broker.warnings
        self.storage.deliver()
        self.broker.advance(60)
        for name, count in self.sent.items():
            client = self.clients[name]
            assert client.closed or len(client.responses) == count, (name, where)
        assert self.broker.state.purgatory.parked == 0, where
        reports = [line for line in self.broker.warnings if "please report this" in line]
        assert len(reports) <= 2, where
        self.storage.is_beside = False
        self.check_others(where)
        assert self.broker.now <= self.broker.node.core.next_deadline() < inf, where

    def check_others(self, where: object) -> None:
        other = self.broker.connect()
        assert other.request(create("later"), 7).topics[0].error_code == 0, where
        for topic in ("t", "flushed", "later"):
            answer = other.request(produce(topic, batch(b"later")), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0, (topic, where)
        # No transaction hangs: what is committed can be read to the end.
        [read] = other.request(fetch("t", 0, isolation_level=1), 12).responses
        assert read.partitions[0].last_stable_offset == read.partitions[0].high_watermark, where
        for group in ("of two", "without leader", "new"):
            request = JoinGroupRequest(
                group_id=group, session_timeout_ms=2000, rebalance_timeout_ms=3000, protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            )  # fmt: skip
            joined = other.request(request, 3) or self.later(other)
            assert joined.error_code == 0, (group, where)

    def later(self, client: CoreClient) -> Any:
        count = len(client.responses)
        self.broker.advance(5)
        return client.responses[-1] if len(client.responses) > count else None


def run(errors_: LineErrors) -> list[str]:
    life = Life(errors_)
    life.park()
    life.work()
    life.check()
    return life.broker.warnings


def test_whatever_is_raised_in_deferred_work_the_others_are_served_and_no_request_waits_for_ever() -> None:
    check_places(run, ROOMS, PLACES, places_of=lambda counting: range(counting.count))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY, places_of=lambda counting: range(counting.count))
