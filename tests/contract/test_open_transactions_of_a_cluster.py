"""Before the exactly-once sink decides, it knows of every open transaction, also when a broker has died for good."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, Producer
from barnabas.client.producer.transactions import detached as detached_transaction
from barnabas.errors import KafkaTimeoutError
from barnabas.spark.exactly_once.open_transactions import OpenTransactions, end_all
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka_cluster import ApacheKafkaCluster
from tests.peers.mixed_cluster import MixedCluster

PREFIX, TOPIC = "sink-q-task-", "rows"
#: So many ids that each of three brokers coordinates some.
NAMES = [f"{PREFIX}{number}" for number in range(12)]
AnyCluster = ApacheKafkaCluster | MixedCluster
Identities = dict[str, tuple[int, int]]


@contextmanager
def of_ours(settings: dict[str, str] | None = None) -> Iterator[MixedCluster]:
    with MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1, settings=settings) as running:
        yield running


@contextmanager
def of_theirs(settings: dict[str, str] | None = None) -> Iterator[ApacheKafkaCluster]:
    if (why := apache_kafka.why_not()) is not None:
        pytest.skip(why)
    with ApacheKafkaCluster(settings=settings) as running:
        yield running


BOTH = pytest.mark.parametrize(
    "started", [of_ours, pytest.param(of_theirs, marks=pytest.mark.slow)], ids=["barnabas", "apache-kafka"]
)


def open_transactions(servers: str) -> Identities:
    """As tasks leave them: nobody is connected any more."""
    producer: Producer[Any, Any] = Producer(bootstrap_servers=servers, transactional_id="-")
    found = {}
    for name in NAMES:
        found[name] = detached_transaction.initialize(producer, name)
        producer.begin_transaction()
        producer.send(TOPIC, value=name.encode())
        detached_transaction.detach(producer)
    producer.close(0)
    return found


@BOTH
def test_a_broker_that_dies_for_good_is_waited_for_until_others_coordinate(started: Any) -> None:
    with started() as cluster, AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 3)])
        identities = open_transactions(cluster.bootstrap_servers)
        known = OpenTransactions(admin)
        expected = {name: producer_id for name, (producer_id, _) in identities.items()}
        assert known.now(PREFIX) == expected
        coordinators = {each.coordinator_id for each in admin.describe_transactions(NAMES).values()}
        assert len(coordinators) > 1

        dead = min(coordinators)
        cluster.brokers[dead].stop(kill=True)
        began = time.monotonic()

        assert known.now(PREFIX) == expected
        assert OpenTransactions(admin).now(PREFIX) == expected
        assert time.monotonic() - began < 40
        ended = tuple((name, *identity) for name, identity in identities.items())
        assert end_all(admin, ended, commit=True) == set()
        assert known.now(PREFIX) == {}


@BOTH
def test_a_coordinator_whose_log_is_gone_is_told_and_then_an_error(
    started: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """No other broker has the dead one's transactions, so nothing is known of them."""
    settings = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    caplog.set_level(logging.WARNING, "barnabas.spark")
    with started(settings) as cluster:
        patient = AdminClient(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=20_000)
        with patient as admin:
            admin.create_topics([NewTopic(TOPIC, 3)])
            open_transactions(cluster.bootstrap_servers)
            known = OpenTransactions(admin)
            known.now(PREFIX)
            (dead, *_) = sorted({each.coordinator_id for each in admin.describe_transactions(NAMES).values()})
            cluster.brokers[dead].stop(kill=True)

            with pytest.raises(KafkaTimeoutError, match=r"__transaction_state \d.*: it has no leader"):
                known.now(PREFIX)
            assert "a batch waits" in caplog.text

            cluster.brokers[dead].start()
            eventually(lambda: set(known.now(PREFIX)) == set(NAMES))
