"""Transactions that somebody else decides about (KIP-939)."""

from __future__ import annotations

import pytest

from barnabas import errors
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from tests.support.core_broker import CoreBroker, create
from tests.unit.broker.transactions.harness import T0, T1, TV_0, TV_2, Harness, Marker
from tests.unit.broker.transactions.wire import WireProducer, read


@pytest.fixture
def harness() -> Harness:
    return Harness(transaction_two_phase_commit_enable=True)


def test_it_is_off_unless_the_broker_allows_it() -> None:
    with pytest.raises(errors.TransactionalIdAuthorizationError, match=r"transaction\.two\.phase\.commit\.enable"):
        Harness().init(two_phase=True)


def test_a_prepared_transaction_outlives_every_time_out(harness: Harness) -> None:
    producer = harness.init(two_phase=True)
    harness.add(producer, T0)
    harness.advance(30 * 86_400)
    harness.restart()
    harness.advance(86_400)
    assert harness.state() == "Ongoing"
    harness.end(producer, commit=True)
    assert harness.markers.written == [Marker(T0, 1000, 1, True)]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [TV_0, TV_2])
@pytest.mark.parametrize("recoveries", [1, 2])
@pytest.mark.parametrize("crash", [False, True])
def test_a_new_producer_takes_the_prepared_transaction_over_and_ends_it(
    harness: Harness, commit: bool, version: int, recoveries: int, crash: bool
) -> None:
    old = harness.init(two_phase=True)
    harness.add(old, T0, version=version)
    for _ in range(recoveries):
        new = harness.init(two_phase=True, keep_prepared=True)
    if crash:
        harness.restart()
    assert new == (1000, recoveries)
    assert harness.state() == "Ongoing"

    with pytest.raises(errors.ProducerFencedError):
        harness.end(old, commit=commit, version=version)
    with pytest.raises(errors.InvalidTxnStateError, match="prepared transaction"):
        harness.add(new, T1, version=version)
    following = harness.end(new, commit=commit, version=version)

    [marker] = harness.markers.written
    assert (marker.partition, marker.commit) == (T0, commit)
    # In the second protocol a marker's epoch is later than that of the records, and earlier than what follows.
    assert (marker.epoch, following.epoch) == ((1, recoveries + 1) if version == TV_2 else (0, recoveries))
    assert harness.end(new, commit=commit, version=version) == following
    harness.add(following, T0, version=version)


def test_taking_over_where_nothing_is_open_is_an_ordinary_beginning(harness: Harness) -> None:
    harness.init(two_phase=True)
    found = harness.coordinator.init_producer_id("id", 60_000, None, harness.at, two_phase=True, keep_prepared=True)
    assert (found.identity, found.ongoing) == ((1000, 1), None)


def test_without_taking_over_the_prepared_transaction_is_aborted(harness: Harness) -> None:
    harness.add(harness.init(two_phase=True), T0)
    harness.init(two_phase=True, keep_prepared=True)
    with pytest.raises(errors.ConcurrentTransactionsError):
        harness.init(two_phase=True)
    assert [marker.commit for marker in harness.markers.written] == [False]
    assert harness.init(two_phase=True).epoch > harness.markers.written[0].epoch


def test_two_phase_commit_through_the_protocol() -> None:
    client = CoreBroker({"transaction.two.phase.commit.enable": "true"}).connect()
    client.request(create("t", 1), 7)
    request = InitProducerIdRequest("tx", 0, enable2_pc=True, keep_prepared_txn=True)
    first = client.request(request, 6)
    assert (first.error_code, first.ongoing_txn_producer_id) == (0, -1)
    producer = WireProducer(client)
    producer.producer_id, producer.epoch = first.producer_id, first.producer_epoch
    producer.send("t", b"prepared")

    restarted = client.broker.crashed()
    restarted.advance(3600)
    producer.client = after = restarted.connect()
    second = after.request(request, 6)
    assert (second.ongoing_txn_producer_id, second.ongoing_txn_producer_epoch) == (first.producer_id, 0)
    producer.producer_id, producer.epoch = second.producer_id, second.producer_epoch
    assert producer.end(commit=True) == 0
    producer.send("t", b"next")
    producer.end(commit=True)
    assert read(after, "t") == [b"prepared", b"next"]
