"""With `flush.messages` no record stands in a transaction that a loss of power makes its coordinator forget."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.message import Message
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.produce_request import ProduceRequest
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.core_broker import CoreBroker, CoreClient, create, produce
from tests.support.slow_storage import SlowStorage, finish
from tests.unit.broker.transactions.wire import READ_UNCOMMITTED, WireProducer, read, transactional_batch

SETTINGS = {
    "log.flush.interval.messages": 1,
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}


class SlowClient(CoreClient):
    """Lets the disk finish where a request waits for it; `started` leaves the disk alone."""

    storage: SlowStorage

    def request(self, message: Message, version: int, client_id: str | None = "test") -> Any:
        before = len(self.responses)
        super().request(message, version, client_id)
        for _ in range(100):
            if len(self.responses) > before:
                break
            settled(self.broker, self.storage)
        return self.responses[-1]

    def started(self, message: Message, version: int) -> Any:
        return super().request(message, version)


def settled(broker: CoreBroker, storage: SlowStorage, steps: int = -1) -> None:
    """Let the disk be done with so many pieces of work, and what waited for them go on."""
    finish(broker, storage, steps)
    broker.advance(0)
    broker.node.core.settle(broker.instant)


def at_rest(broker: CoreBroker, storage: SlowStorage) -> None:
    """Let the disk be done with everything, and with what follows from it."""
    while storage.in_flight:
        settled(broker, storage)


def connected(broker: CoreBroker, storage: SlowStorage) -> SlowClient:
    client = SlowClient(broker)
    client.storage = storage
    return client


def started(seed: int = 1) -> tuple[CoreBroker, SlowStorage, SlowClient, WireProducer]:
    """A broker with a topic, and a producer whose first transaction was committed."""
    storage = SlowStorage()
    broker = CoreBroker(SETTINGS, MemoryFileSystem(Random(seed)), storage=storage)
    client = connected(broker, storage)
    client.request(create("t", 1), 7)
    producer = WireProducer(client)
    for key_type, key in ((0, "group"), (1, producer.transactional_id)):
        client.request(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
    assert producer.init() == 0
    assert producer.send("t", b"first").error_code == 0
    assert producer.commit_offset("group", "t", 1) == 0
    assert producer.end(commit=True) == 0
    at_rest(broker, storage)
    return broker, storage, client, producer


def sending(producer: WireProducer, value: bytes) -> ProduceRequest:
    request = produce("t", transactional_batch([value], producer.producer_id, producer.epoch, 0))
    request.transactional_id = producer.transactional_id
    return request


def end_of(broker: CoreBroker, topic: str) -> int:
    return int(broker.state.replica_manager.partition(topic, 0).log.log_end_offset)


def test_a_record_is_written_when_its_transaction_is_on_the_disk() -> None:
    broker, storage, client, producer = started()
    end = end_of(broker, "t")

    assert client.started(sending(producer, b"second"), 12) is None
    assert end_of(broker, "t") == end
    assert len(storage.in_flight) == 1, "the coordinator's record"
    settled(broker, storage, 1)
    assert end_of(broker, "t") == end + 1
    settled(broker, storage)

    assert client.responses[-1].responses[0].partition_responses[0].base_offset == end
    producer.end(commit=True)
    at_rest(broker, storage)
    assert read(client, "t") == [b"first", b"second"]


def test_other_transactions_may_go_on_meanwhile() -> None:
    # Those whose records follow in the coordinator's log have flushes of their own, for which nothing else waits.
    broker, storage, client, producer = started()
    end = end_of(broker, "t")
    others = [WireProducer(client, f"other{number}") for number in range(3)]
    for other in others:
        assert other.init() == 0
    assert client.started(sending(producer, b"second"), 12) is None
    waiting = [connected(broker, storage) for _ in others]
    for other, its in zip(others, waiting, strict=True):
        assert its.started(sending(other, b"other"), 12) is None
    settled(broker, storage, 1)
    assert end_of(broker, "t") == end + 1

    at_rest(broker, storage)
    assert [len(its.responses) for its in waiting] == [1, 1, 1]


def test_a_client_that_knows_only_verification_waits_too() -> None:
    broker, storage, client, _ = started()
    producer = WireProducer(client, "old", second=False)
    assert producer.init() == 0
    adding = connected(broker, storage)
    end = end_of(broker, "t")
    producer.client, answered = adding, len(adding.responses)
    # The answer to AddPartitionsToTxn is not awaited.
    adding.request = adding.started  # type: ignore[method-assign]
    with pytest.raises(AttributeError):
        producer.add(("t", 0))
    assert len(adding.responses) == answered

    assert client.started(sending(producer, b"second"), 11) is None
    assert end_of(broker, "t") == end
    settled(broker, storage, 1)
    assert end_of(broker, "t") == end + 1


def test_a_flush_that_fails_is_told_as_what_passes() -> None:
    broker, storage, client, producer = started()
    end = end_of(broker, "t")
    client.started(sending(producer, b"second"), 12)
    broker.filesystem.fail = lambda operation, path: OSError(5, "broken") if operation == "sync" else None
    settled(broker, storage)
    answer = client.responses[-1].responses[0].partition_responses[0]
    assert answer.error_code == errors.NotEnoughReplicasError.code, "which producers try again"
    assert end_of(broker, "t") == end


def test_a_client_that_goes_meanwhile_leaves_nothing_behind() -> None:
    broker, storage, client, producer = started()
    end = end_of(broker, "t")
    client.started(sending(producer, b"second"), 12)
    client.lose()
    settled(broker, storage)
    assert end_of(broker, "t") == end
    other = connected(broker, storage)
    producer.client = other
    assert producer.send("t", b"second").error_code == 0


def test_offsets_of_partitions_that_do_not_exist_are_refused_one_by_one_after_the_wait() -> None:
    broker, storage, client, producer = started()
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id="group",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=[part]) for name in ("missing", "t")],
    )
    end = end_of(broker, "__consumer_offsets")
    assert client.started(request, 5) is None
    assert end_of(broker, "__consumer_offsets") == end
    at_rest(broker, storage)
    codes = {topic.name: topic.partitions[0].error_code for topic in client.responses[-1].topics}
    assert codes == {"missing": errors.UnknownTopicOrPartitionError.code, "t": 0}


@settings(max_examples=30)
@example(seed=3, sends=2, steps=1)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 8))
def test_a_loss_of_power_leaves_no_transaction_that_hangs(seed: int, sends: int, steps: int) -> None:
    broker, storage, client, _ = started(seed)
    producers = [WireProducer(client, f"producer{number}") for number in range(sends)]
    for producer in producers:
        assert producer.init() == 0
    for producer in producers:
        connected(broker, storage).started(sending(producer, b"open"), 12)
    for _ in range(steps):
        settled(broker, storage, 1)

    broker.node.metadata.close()
    broker.filesystem.power_loss()
    again = CoreBroker(broker.settings, broker.filesystem, broker.store, seed=2)
    again.advance(120)

    # The coordinator has aborted what timed out: readers of committed records come to the end.
    reader = again.connect()
    assert read(reader, "t") == [b"first"]
    everything = again.state.replica_manager.partition("t", 0).log
    assert everything.last_stable_offset == everything.log_end_offset
    assert read(reader, "t", isolation=READ_UNCOMMITTED)[:1] == [b"first"]
