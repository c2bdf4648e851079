"""Transactions of the producer, with confluent-kafka as the reader that is known to be right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.client.consumer.offsets import ConsumerGroupMetadata
from barnabas.errors import (
    CommitFailedError,
    IllegalStateError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationError,
    UnsupportedVersionError,
)
from tests.contract.waiting import create_topic, eventually
from tests.support.patience import PATIENCE

TRANSACTIONS = "barnabas.client.producer.producer:Producer"


@pytest.fixture
def topic(bootstrap_servers: str, new_name: Callable[[str], str]) -> str:
    return create_topic(bootstrap_servers, new_name("transactions"), 2)


@pytest.fixture
def producer(bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Producer[bytes, bytes]]:
    with connect(bootstrap_servers, new_name("id")) as made:
        made.init_transactions()
        yield made


def connect(bootstrap_servers: str, transactional_id: str, **settings: Any) -> Producer[bytes, bytes]:
    settings = {"max_block_ms": 30_000, **settings}
    return Producer(bootstrap_servers=bootstrap_servers, transactional_id=transactional_id, **settings)


def read_to_end(bootstrap_servers: str, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """All that confluent-kafka reads before the ends of the partitions; for read_committed, before what is open.

    A commit is answered once it is decided; its markers are in the partitions a moment later.
    """
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        eventually(lambda: not admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in (0, 1)])
        values, ends = list[bytes](), 0
        deadline = time.monotonic() + PATIENCE
        while ends < 2 and time.monotonic() < deadline:
            record = consumer.poll(1.0)
            if record is None:
                continue
            error = record.error()
            if error is None:
                values.append(record.value())
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ends += 1
        assert ends == 2
        return values
    finally:
        consumer.close()


def test_readers_see_each_committed_record_once_and_no_aborted_one(
    producer: Producer[bytes, bytes], bootstrap_servers: str, topic: str
) -> None:
    for number in range(6):
        producer.begin_transaction()
        futures = [producer.send(topic, b"%d-%d" % (number, n), partition=n % 2) for n in range(20)]
        if number % 3 == 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        assert all(future.exception(0) is None for future in futures)

    committed = sorted(b"%d-%d" % (number, n) for number in (0, 1, 3, 4) for n in range(20))
    assert sorted(read_to_end(bootstrap_servers, topic)) == committed
    assert len(read_to_end(bootstrap_servers, topic, "read_uncommitted")) == 120


def test_nothing_is_seen_before_the_commit(
    producer: Producer[bytes, bytes], bootstrap_servers: str, topic: str
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"open", partition=0).result(30)

    assert read_to_end(bootstrap_servers, topic) == []
    producer.commit_transaction()
    assert read_to_end(bootstrap_servers, topic) == [b"open"]


def test_the_context_commits_at_its_end_and_aborts_after_an_error(
    producer: Producer[bytes, bytes], bootstrap_servers: str, topic: str
) -> None:
    with producer.transaction():
        producer.send(topic, b"kept")
    with pytest.raises(ZeroDivisionError):
        send_and_fail(producer, topic)
    with producer.transaction():
        producer.send(topic, b"kept too")

    assert sorted(read_to_end(bootstrap_servers, topic)) == [b"kept", b"kept too"]


def send_and_fail(producer: Producer[bytes, bytes], topic: str) -> None:
    with producer.transaction():
        producer.send(topic, b"dropped").result(30)
        raise ZeroDivisionError


def test_an_abort_drops_what_was_not_sent_yet(bootstrap_servers: str, topic: str, new_name: Any) -> None:
    with connect(bootstrap_servers, new_name("id"), linger_ms=60_000) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        waiting = producer.send(topic, b"never")
        producer.abort_transaction()

    assert isinstance(waiting.exception(0), TransactionAbortedError)
    assert read_to_end(bootstrap_servers, topic, "read_uncommitted") == []


def test_a_transaction_without_records_costs_no_request(producer: Producer[bytes, bytes]) -> None:
    started = time.monotonic()
    for _ in range(20):
        producer.begin_transaction()
        producer.commit_transaction()
        producer.begin_transaction()
        producer.abort_transaction()
    assert time.monotonic() - started < 5


def test_closing_aborts_the_open_transaction(bootstrap_servers: str, topic: str, new_name: Any) -> None:
    with connect(bootstrap_servers, new_name("id")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(30)

    # Were it still open, this record would wait behind it.
    with Producer(bootstrap_servers=bootstrap_servers) as plain:
        plain.send(topic, b"after", partition=0).result(30)
    assert read_to_end(bootstrap_servers, topic) == [b"after"]


def test_records_are_taken_only_inside_a_transaction(bootstrap_servers: str, topic: str, new_name: Any) -> None:
    with connect(bootstrap_servers, new_name("id")) as producer:
        for call, why in [
            (lambda: producer.send(topic, b"v"), r"call init_transactions\(\) first"),
            (producer.begin_transaction, "UNINITIALIZED"),
            (producer.commit_transaction, "UNINITIALIZED"),
        ]:
            with pytest.raises(IllegalStateError, match=why):
                call()
        producer.init_transactions()
        with pytest.raises(IllegalStateError, match="no transaction is open"):
            producer.send(topic, b"v")
        with pytest.raises(IllegalStateError, match="READY"):
            producer.abort_transaction()
        producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="IN_TRANSACTION"):
            producer.begin_transaction()
        producer.commit_transaction()
        with pytest.raises(IllegalStateError, match="READY"):
            producer.init_transactions()

    assert read_to_end(bootstrap_servers, topic, "read_uncommitted") == []
    with (
        Producer(bootstrap_servers=bootstrap_servers) as plain,
        pytest.raises(IllegalStateError, match="transactional"),
    ):
        plain.begin_transaction()


def test_a_new_producer_fences_the_old_one_and_aborts_what_it_left(
    producer: Producer[bytes, bytes], bootstrap_servers: str, topic: str
) -> None:
    producer.begin_transaction()
    producer.send(topic, b"left behind", partition=0).result(30)

    with connect(bootstrap_servers, producer._core.parts.config.transactional_id or "") as successor:
        successor.init_transactions()
        zombie = producer.send(topic, b"of a zombie", partition=0)
        # A partition's leader only sees an old epoch; that it is fenced the coordinator says.
        with pytest.raises(TransactionAbortableError, match="abort_transaction"):
            producer.commit_transaction()
        with pytest.raises(ProducerFencedError, match="taken over"):
            producer.abort_transaction()
        with successor.transaction():
            successor.send(topic, b"good", partition=0)

    assert zombie.exception(0) is not None
    assert producer._calls.has_failed
    with pytest.raises(ProducerFencedError):
        producer.begin_transaction()
    assert isinstance(producer.send(topic, b"again").exception(1), ProducerFencedError)
    assert read_to_end(bootstrap_servers, topic) == [b"good"]


def test_offsets_count_if_and_only_if_their_transaction_is_committed(
    producer: Producer[bytes, bytes], bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    first, source = TopicPartition(topic, 0), new_name("source")
    with Producer(bootstrap_servers=bootstrap_servers) as plain:
        for n in range(10):
            plain.send(source, b"%d" % n, partition=0).result(30)
    settings: dict[str, Any] = {"group_id": new_name("group"), "auto_offset_reset": "earliest"}
    copied = TopicPartition(source, 0)

    for outcome in ("commit", "abort", "commit"):
        with Consumer(source, bootstrap_servers=bootstrap_servers, enable_auto_commit=False, max_poll_records=4,
                      **settings) as consumer:  # fmt: skip
            records = poll_some(consumer)
            producer.begin_transaction()
            for record in records:
                producer.send(topic, record.value, partition=first.partition)
            position = {copied: records[-1].offset + 1}
            producer.send_offsets_to_transaction(position, consumer.group_metadata())
            if outcome == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()

    assert read_to_end(bootstrap_servers, topic) == [b"%d" % n for n in range(8)]
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        assert admin.list_consumer_group_offsets(settings["group_id"])[copied].offset == 8


def poll_some(consumer: Consumer[Any, Any]) -> list[Any]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        records = list(consumer.poll(1.0))
        if records:
            return records
    raise AssertionError("nothing came")


def test_offsets_of_a_member_that_was_replaced_abort_the_transaction(
    producer: Producer[bytes, bytes], topic: str, new_name: Callable[[str], str]
) -> None:
    stale = ConsumerGroupMetadata(new_name("group"), 5, "a-member-of-old")

    producer.begin_transaction()
    producer.send(topic, b"v")
    with pytest.raises(CommitFailedError, match="group_metadata"):
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, stale)
    with pytest.raises(TransactionAbortableError):
        producer.commit_transaction()
    producer.abort_transaction()

    with producer.transaction():
        producer.send(topic, b"the producer goes on")


def test_a_record_that_fails_makes_the_commit_fail_and_the_next_transaction_succeeds(
    bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    small = create_topic(bootstrap_servers, new_name("small"), 1, **{"max.message.bytes": "500"})
    with connect(bootstrap_servers, new_name("id")) as producer:
        producer.init_transactions()
        transaction = producer.transaction()
        transaction.__enter__()
        producer.send(topic, b"dropped", partition=0)
        too_large = producer.send(small, b"x" * 1000)
        with pytest.raises(TransactionAbortableError, match="abort_transaction"):
            transaction.__exit__(None, None, None)
        assert too_large.exception(0) is not None
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
            producer.send(small, b"kept")

    assert read_to_end(bootstrap_servers, topic) == [b"kept"]


@pytest.mark.shows("S4.45", breaks="barnabas.client.producer.transaction_calls:TransactionCalls.leave")
def test_acks_retries_idempotence_linger_compression_and_transactions_work_together_and_each_record_is_answered(
    bootstrap_servers: str, topic: str, new_name: Callable[[str], str]
) -> None:
    answers: list[tuple[int, int]] = []
    with connect(bootstrap_servers, new_name("id"), acks="all", retries=5, enable_idempotence=True, linger_ms=20,
                 compression_type="zstd") as producer:  # fmt: skip
        producer.init_transactions()
        before = producer.metrics()["request-total"]
        with producer.transaction():
            for n in range(100):
                producer.send(
                    topic,
                    b"%d" % n,
                    partition=n % 2,
                    on_delivery=lambda metadata, error: answers.append((metadata.partition, metadata.offset)),
                )
        requests = producer.metrics()["request-total"] - before

    assert sorted(answers) == [(partition, offset) for partition in (0, 1) for offset in range(50)]
    # Batches, not records, were sent, also where some had to be sent again.
    assert requests < 50
    assert sorted(map(int, read_to_end(bootstrap_servers, topic))) == list(range(100))


def test_two_phase_commit_where_the_broker_offers_none_says_so(bootstrap_servers: str, new_name: Any) -> None:
    with (
        connect(bootstrap_servers, new_name("id"), transaction_two_phase_commit_enable=True) as producer,
        # Apache Kafka 4.3 does not know it yet, our broker does not allow it unless told to.
        pytest.raises((UnsupportedVersionError, TransactionalIdAuthorizationError), match="KIP-939"),
    ):
        producer.init_transactions()
