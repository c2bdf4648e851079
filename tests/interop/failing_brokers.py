"""Three brokers that are killed in rotation, ours and Apache Kafka's: other people's suites run on both meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas import AdminClient, Broker
from barnabas.errors import KafkaError
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

OURS, THEIRS = "barnabas", "apache-kafka"
FAILING = [
    pytest.param(name, id=f"killed-in-turn-{name}", marks=[pytest.mark.slow, pytest.mark.timeout(600)])
    for name in (OURS, THEIRS)
]
#: The suites whose tests run on them.
SUITES = frozenset(
    (
        "test_confluent_kafka",
        "test_franz_go",
        "test_java_clients",
        "test_transactions_confluent_kafka",
        "test_transactions_java",
        "test_trogdor",
    )
)
#: Tests that ask for what no cluster gives while its brokers die, with the reason.
NOT_HERE = {
    "test_acks_0": "what is sent with acks=0 may be lost with the broker that it was sent to",
    "test_administration": "it counts the brokers, of which one may be away",
}
#: How long a broker is away, and how long all three live then, in seconds.
_AWAY, _CALM = 1.5, 3.0
_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200, "default.api.timeout.ms": 10_000}


class Rotation:
    """Kills one broker after the other as long as the block lasts, each when all replicas are in sync again."""

    def __init__(self, servers: str, kill: Callable[[int], None], start: Callable[[int], None]) -> None:
        self._servers = servers
        self._kill, self._start = kill, start
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self.kills = 0

    def _run(self) -> None:
        try:
            with AdminClient({"bootstrap.servers": self._servers, **_SOON}) as admin:
                while not self._is_over.wait(_CALM):
                    number = self.kills % 3 + 1
                    self._kill(number)
                    self.kills += 1
                    self._is_over.wait(_AWAY)
                    self._start(number)
                    eventually(lambda: self._is_whole(admin), 120)
        except BaseException as problem:  # noqa: BLE001 - raised again by the thread of the tests
            self._failure = problem

    @staticmethod
    def _is_whole(admin: AdminClient) -> bool:
        """Whether every replica is in sync; topics come and go meanwhile."""
        try:
            topics = admin.describe_topics(admin.list_topics(include_internal=True), raise_errors=False)
        except KafkaError:
            return False
        parts = [part for topic in topics.values() for part in topic.partitions]
        return all(part.leader and len(part.in_sync_replicas) == len(part.replicas) for part in parts)

    def __enter__(self) -> Rotation:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self.kills, "no broker was killed"


@contextmanager
def killed_in_turn(kind: str, **settings: Any) -> Iterator[Broker | MixedCluster]:
    """Give a cluster of three whose brokers are killed in rotation; `settings` are those of `Broker`."""
    if kind == OURS:
        with (
            Broker(brokers=3, **settings) as ours,
            Rotation(ours.bootstrap_servers, ours.kill, ours.start),
        ):
            yield ours
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    properties = {name.replace("_", "."): str(value) for name, value in settings.pop("config").items()}
    properties.update({name.replace("_", "."): str(value) for name, value in settings.items()})
    with MixedCluster(theirs=3, ours=0, controllers=1, settings=properties) as theirs:
        brokers = theirs.brokers

        def start(number: int) -> None:
            brokers[number].start()

        with Rotation(theirs.bootstrap_servers, lambda number: brokers[number].stop(kill=True), start):
            yield theirs
