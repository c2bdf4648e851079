"""Markers of other brokers' transactions, written here: what their coordinators are told of them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.commit_wait import CommitWait
from barnabas.broker.transactions.partition_markers import PartitionMarkers
from barnabas.protocol.message import Message
from barnabas.protocol.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.cluster_member import MemberBroker, broker, change, topic

FLIGHTS = bytes(15) + b"\x01"


def member(*records: Message) -> MemberBroker:
    return MemberBroker({}, *broker(1), *broker(2), *records)


def partition(found: MemberBroker, name: str = "flights") -> Any:
    return found.state.replica_manager.used_partition(name, 0)


def test_a_marker_that_no_replica_has_in_time_is_refused_and_not_written_twice() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1]))
    client = found.connect()
    marker = WritableTxnMarker(7, 2, transaction_result=True, topics=[WritableTxnMarkerTopic("flights", [0])])
    assert client.request(WriteTxnMarkersRequest(markers=[marker]), 1) is None
    found.advance(31)
    assert refusal_of_marker(client) == (7, "flights", errors.KafkaTimeoutError.code)
    assert partition(found).log.log_end_offset == 1


def test_a_marker_of_an_earlier_coordinator_epoch_is_refused_and_not_written() -> None:
    """A coordinator that was replaced, and does not know it yet, ends nothing that its successor has begun."""
    found = member(*topic("flights", FLIGHTS, [3]))
    client = found.connect()

    def end(coordinator_epoch: int, producer_id: int = 7) -> int:
        topics = [WritableTxnMarkerTopic("flights", [0])]
        client.responses.clear()
        client.request(WriteTxnMarkersRequest([WritableTxnMarker(producer_id, 2, True, topics, coordinator_epoch)]), 1)
        return refusal_of_marker(client)[2]

    assert [end(4), end(5)] == [0, 0]
    assert end(4) == errors.TransactionCoordinatorFencedError.code
    assert partition(found).log.log_end_offset == 2
    assert end(5) == 0, "of the same epoch: it was sent again"
    assert end(4, producer_id=8) == 0, "another transaction has another coordinator"


def test_a_fault_while_a_marker_waits_ends_the_connection_so_that_it_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A coordinator of Apache Kafka takes UNKNOWN_SERVER_ERROR for a fault of its own, and sends the marker no more."""

    def fail(*_: Any) -> Any:
        raise RuntimeError("planted")

    found = member(*topic("flights", FLIGHTS, [3, 1]))
    client = found.connect()
    marker = WritableTxnMarker(7, 2, transaction_result=True, topics=[WritableTxnMarkerTopic("flights", [0])])
    assert client.request(WriteTxnMarkersRequest(markers=[marker]), 2) is None
    monkeypatch.setattr(CommitWait, "try_complete", fail)
    found.follower_fetches(FLIGHTS, 1)
    found.advance(0.1)
    assert client.responses == []
    assert client.closed


def _errors_of_kafka() -> list[type[errors.KafkaError]]:
    return [one for one in vars(errors).values() if isinstance(one, type) and getattr(one, "code", 0) not in (0, None)]


def test_no_marker_is_answered_with_what_a_coordinator_of_apache_kafka_does_not_expect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would take that for a fault of its own, and the transaction would stay open in this partition."""
    expected = {3, 6, 7, 19, 20, 47, 52, 56}
    told = set()
    client = member(*topic("flights", FLIGHTS, [3])).connect()
    for error in _errors_of_kafka():

        def fail(*_: Any, error: type[errors.KafkaError] = error) -> None:
            raise error("planted")

        monkeypatch.setattr(PartitionMarkers, "append", fail)
        asked = WritableTxnMarker(7, 2, transaction_result=True, topics=[WritableTxnMarkerTopic("flights", [0])])
        client.responses.clear()
        client.send(WriteTxnMarkersRequest(markers=[asked]), 2)
        told.add(refusal_of_marker(client)[2])
    assert told == expected


def refusal_of_marker(client: Any) -> tuple[int, str, int]:
    """Whose marker was refused, where, and why: a coordinator of Apache Kafka forgets what is not named."""
    [result] = client.responses[0].markers
    [told] = result.topics
    return result.producer_id, told.name, told.partitions[0].error_code


def test_a_marker_that_waits_while_another_broker_comes_to_lead_is_refused_by_its_names() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1]))
    client = found.connect()
    marker = WritableTxnMarker(7, 2, transaction_result=True, topics=[WritableTxnMarkerTopic("flights", [0])])
    assert client.request(WriteTxnMarkersRequest(markers=[marker]), 2) is None
    found.tell(change(FLIGHTS, leader=1))
    found.advance(0.1)
    assert refusal_of_marker(client) == (7, "flights", errors.NotLeaderOrFollowerError.code)


def test_markers_that_are_written_in_pieces_are_refused_where_another_broker_leads_in_between() -> None:
    names = [f"of-{number}" for number in range(30)]
    topics = [record for number, name in enumerate(names) for record in topic(name, bytes([1] * 15 + [number]), [3, 1])]
    found = member(*topics)
    client = found.connect()
    asked = [WritableTxnMarkerTopic(name, [0]) for name in names]
    client.send(WriteTxnMarkersRequest(markers=[WritableTxnMarker(7, 2, transaction_result=True, topics=asked)]), 1)
    first = partition(found, name=names[0])
    assert (first.log.log_end_offset, partition(found, name=names[-1]).log.log_end_offset) == (1, 0)
    found.tell(change(bytes([1] * 15 + [0]), 0, leader=1))
    found.advance(0.1)
    for number in range(1, 30):
        found.follower_fetches(bytes([1] * 15 + [number]), 1)
    found.node.core.settle(found.instant)
    codes = [one.partitions[0].error_code for one in client.responses[0].markers[0].topics]
    assert codes == [errors.NotLeaderOrFollowerError.code] + [0] * 29
