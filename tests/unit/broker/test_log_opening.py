"""Requests for many partitions that were not used yet: their logs are opened while others are served."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.log.log_preparation import LogPreparation, LogToPrepare
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log_opening import OPEN_AT_ONCE
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, produce
from tests.support.slow_storage import SlowStorage

MANY = 5 * OPEN_AT_ONCE


@pytest.fixture
def broker() -> CoreBroker:
    broker = CoreBroker()
    broker.connect().request(create("t", MANY), 7)
    return broker


def fetch_all(max_wait_ms: int = 0, *, unknown: int = 0) -> FetchRequest:
    partitions = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(MANY + unknown)]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchTopic(topic="t", partitions=partitions)])


def produce_all(acks: int = -1, *, unknown: int = 0) -> ProduceRequest:
    data = [PartitionProduceData(index=n, records=batch(b"%d" % n)) for n in range(MANY + unknown)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])


def opened(broker: CoreBroker) -> int:
    return len(broker.state.replica_manager.partitions())


def others_are_served(broker: CoreBroker, client: CoreClient) -> None:
    before = len(client.responses)
    while len(client.responses) == before and broker.state.large_responses.next_deadline() <= broker.now:
        assert broker.connect().request(MetadataRequest(topics=[]), 12) is not None
        at_first = opened(broker)
        broker.state.large_responses.tick(broker.instant)
        assert opened(broker) - at_first <= OPEN_AT_ONCE


@pytest.mark.parametrize(("request_", "version"), [(fetch_all(), 12), (produce_all(), 9)], ids=["fetch", "produce"])
def test_logs_are_opened_a_few_at_a_time(broker: CoreBroker, request_: Any, version: int) -> None:
    client = broker.connect()
    client.send(request_, version)
    broker.node.core.settle(broker.instant)
    assert opened(broker) <= OPEN_AT_ONCE

    others_are_served(broker, client)

    assert opened(broker) == MANY
    (response,) = client.responses
    topic = response.responses[0]
    found = topic.partitions if version == 12 else topic.partition_responses
    assert [one.error_code for one in found] == [0] * MANY


def test_what_was_sent_is_appended_although_the_connection_reads_on(broker: CoreBroker) -> None:
    client = broker.connect()
    client.send_together([produce_all(), produce("t", batch(b"second"))], 9)
    broker.advance(0)

    assert len(client.responses) == 2
    answers = client.request(fetch_all(), 12).responses[0].partitions
    assert [bytes(one.records).count(b"%d" % n) >= 1 for n, one in enumerate(answers)] == [True] * MANY
    assert b"second" in bytes(answers[0].records)


def test_each_partition_has_its_own_error(broker: CoreBroker) -> None:
    answers = broker.connect().request(fetch_all(unknown=3), 12).responses[0].partitions
    assert [one.error_code for one in answers[MANY:]] == [errors.UnknownTopicOrPartitionError.code] * 3
    answers = CoreBroker.connect(broker).request(produce_all(unknown=1), 9).responses[0].partition_responses
    assert answers[MANY].error_code == errors.UnknownTopicOrPartitionError.code


def test_a_fetch_still_waits_for_records(broker: CoreBroker) -> None:
    client = broker.connect()
    assert client.request(fetch_all(max_wait_ms=500), 12) is None
    assert opened(broker) == MANY

    broker.connect().request(produce("t", batch(b"1"), 7), 9)
    broker.advance(0)

    (response,) = client.responses
    assert response.responses[0].partitions[7].records


def test_nothing_is_left_of_a_client_that_goes_away_meanwhile(broker: CoreBroker) -> None:
    opening, waiting = broker.connect(), broker.connect()
    opening.send(fetch_all(max_wait_ms=60_000), 12)
    opening.lose()
    assert waiting.request(fetch_all(max_wait_ms=60_000), 12) is None
    waiting.lose()
    broker.advance(0)

    assert broker.state.purgatory.parked == 0
    assert broker.state.large_responses.next_deadline() > broker.now


def test_without_acknowledgement_an_error_ends_the_connection_and_is_no_fault(broker: CoreBroker) -> None:
    client = broker.connect()
    client.send(produce_all(acks=0, unknown=1), 9)
    broker.advance(0)

    assert client.closed
    assert not [warning for warning in broker.warnings if "please report this" in warning]
    good = broker.connect()
    good.send(produce_all(acks=0), 9)
    good._expected.clear()
    broker.advance(0)
    assert not good.closed
    assert not good.responses


def test_who_waits_for_a_log_is_told_although_noting_its_files_fails() -> None:
    storage = SlowStorage()
    preparation = LogPreparation(MemoryFileSystem(Random(1)), storage)
    name = TopicPartition("t", 0)
    told: list[str] = []
    preparation.begin([LogToPrepare(name, "/data/t-0", bytes(16))], lambda: told.append("first"))
    preparation.begin([LogToPrepare(name, "/data/t-0", bytes(16))], lambda: told.append("second"))
    preparation.note_deleted(name)

    def fail(_name: TopicPartition, _directory: str) -> None:
        raise RuntimeError("planted")

    preparation.on_unwanted = fail
    with pytest.raises(RuntimeError, match="planted"):
        storage.drain()
    assert (told, preparation.is_making(name)) == (["first", "second"], False)
