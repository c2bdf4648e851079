"""MockProducer as the tests of programs use it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from barnabas import Producer
from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.client.producer.partitioner import partition_for_key
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaTimeoutError,
    NotEnoughReplicasError,
    ProducerFencedError,
    SerializationError,
    TransactionAbortableError,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.mock_producer import MockProducer

TP = TopicPartition("t", 0)


def test_records_succeed_at_once_and_are_kept() -> None:
    producer: MockProducer[str, str] = MockProducer(
        key_serializer="StringSerializer", value_serializer="StringSerializer", partitions={"t": 5}
    )
    answers: list[Any] = []

    first = producer.send("t", "one", key="k", timestamp_ms=7, on_delivery=lambda *answer: answers.append(answer))
    second = producer.send(ProducerRecord("t", "two", key="k"))

    partition = partition_for_key(b"k", 5)
    assert [str(first.result(0)), str(second.result(0))] == [f"t-{partition}@0", f"t-{partition}@1"]
    assert first.result(0).timestamp == 7
    assert answers == [(first.result(0), None)]
    assert [record.value for record in producer.history()] == ["one", "two"]
    assert len(producer.partitions_for("t")) == 5


def test_records_wait_for_the_test_to_complete_or_fail_them() -> None:
    producer: MockProducer[bytes, bytes] = MockProducer(auto_complete=False)
    futures = [producer.send("t", b"%d" % n) for n in range(4)]
    error = KafkaTimeoutError("as the test wants")

    assert not producer.flushed
    assert producer.complete_next()
    assert producer.error_next(error)
    assert [future.done() for future in futures] == [True, True, False, False]
    producer.flush()

    assert [future.exception(0) for future in futures] == [None, error, None, None]
    assert futures[3].result(0).offset == 3
    assert producer.flushed
    assert not producer.complete_next()


def test_transactions_show_only_what_was_committed() -> None:
    producer: MockProducer[bytes, bytes] = MockProducer()
    producer.init_transactions()
    with producer.transaction():
        producer.send("t", b"kept")
        producer.send_offsets_to_transaction({TP: 5}, ConsumerGroupMetadata("g"))
        assert [record.value for record in producer.uncommitted_records()] == [b"kept"]
        assert producer.uncommitted_offsets() == {"g": {TP: OffsetAndMetadata(5)}}
        assert producer.history() == []
    assert (producer.transaction_committed, producer.sent_offsets, producer.commit_count) == (True, True, 1)

    producer.begin_transaction()
    producer.send("t", b"dropped")
    producer.send_offsets_to_transaction({TP: 9}, "g")
    producer.abort_transaction()

    assert (producer.transaction_committed, producer.transaction_aborted, producer.commit_count) == (False, True, 1)
    assert [record.value for record in producer.history()] == [b"kept"]
    assert producer.consumer_group_offsets_history() == [{"g": {TP: OffsetAndMetadata(5)}}]
    producer.clear()
    assert (producer.history(), producer.consumer_group_offsets_history()) == ([], [])


def test_a_failed_record_makes_the_commit_fail_and_the_context_abort() -> None:
    producer: MockProducer[bytes, bytes] = MockProducer(auto_complete=False)
    producer.init_transactions()
    transaction = producer.transaction()
    transaction.__enter__()
    producer.send("t", b"v")
    producer.error_next(KafkaTimeoutError("lost"))

    with pytest.raises(TransactionAbortableError, match="lost"):
        transaction.__exit__(None, None, None)
    assert producer.transaction_aborted


def test_a_fenced_producer_behaves_like_one() -> None:
    producer: MockProducer[bytes, bytes] = MockProducer()
    producer.init_transactions()
    producer.begin_transaction()
    producer.fence_producer()

    assert isinstance(producer.send("t", b"v").exception(0), ProducerFencedError)
    for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
        with pytest.raises(ProducerFencedError):
            call()
    assert producer.uncommitted_records() == []


def test_calls_at_the_wrong_time_and_of_the_wrong_kind_are_refused() -> None:
    producer: MockProducer[Any, Any] = MockProducer()
    for early in (producer.begin_transaction, producer.commit_transaction, producer.fence_producer):
        with pytest.raises(IllegalStateError, match="init_transactions"):
            early()
    with pytest.raises(SerializationError, match="value_serializer"):
        producer.send("t", 5)
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match="begin_transaction"):
        producer.send("t", b"v")
    producer.close()
    with pytest.raises(IllegalStateError, match="closed"):
        producer.send("t", b"v")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("send_exception", lambda producer: producer.send("t", b"v")),
        ("flush_exception", lambda producer: producer.flush()),
        ("partitions_for_exception", lambda producer: producer.partitions_for("t")),
        ("close_exception", lambda producer: producer.close()),
        ("init_transaction_exception", lambda producer: producer.init_transactions()),
    ],
)
def test_errors_that_the_test_asks_for_are_raised(name: str, call: Any) -> None:
    producer: MockProducer[bytes, bytes] = MockProducer()
    setattr(producer, name, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        call(producer)


def test_it_has_every_method_of_a_producer_with_the_same_parameters() -> None:
    takes_a_broker = {"prepare_transaction", "complete_transaction"}
    for name in set(dir(Producer)) - takes_a_broker:
        if not name.startswith("_"):
            mine = inspect.signature(getattr(MockProducer, name)).parameters
            theirs = inspect.signature(getattr(Producer, name)).parameters
            assert [*mine] == [parameter for parameter in theirs if parameter != "keep_prepared_txn"], name


def test_the_rows_of_a_table_are_records() -> None:
    pa = pytest.importorskip("pyarrow")
    producer = MockProducer[Any, Any](auto_complete=False, value_serializer=str.encode, partitions={"t": 3})
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    table = pa.table(
        {
            "key": [b"a", None],
            "value": ["one", "two"],
            "partition": [2, 1],
            "timestamp": [5, None],
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], pa.list_(header)),
        }
    )

    future = producer.send_table("t", table)

    assert not future.done()
    producer.complete_next()
    assert producer.error_next(NotEnoughReplicasError())
    assert isinstance(future.exception(0), NotEnoughReplicasError)
    sent = [(r.partition, r.key, r.value, r.timestamp_ms, list(r.headers)) for r in producer.history()]
    assert sent == [(1, None, b"two", None, []), (2, b"a", b"one", 5, [("h", b"1")])]
    with pytest.raises(IllegalArgumentError, match="no column 'value'"):
        producer.send_table("t", pa.table({"text": ["v"]}))
