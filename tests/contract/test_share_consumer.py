"""A share consumer against a running cluster: delivery, every kind of acknowledgement, locks, members that vanish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AcknowledgeType, Producer, ShareConsumer, TopicIdPartition, TopicPartition
from barnabas.errors import (
    IllegalStateError,
    InvalidRecordStateError,
    KafkaError,
    RecordDeserializationError,
    WakeupError,
)
from tests.contract.queue import EXPLICIT, Queue, eventually, read, values
from tests.contract.waiting import create_topic

FIVE = [b"%d" % number for number in range(5)]


@pytest.fixture
def queue(bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Queue]:
    """A queue in one partition."""
    made = Queue(bootstrap_servers, create_topic(bootstrap_servers, new_name("queue"), 1), new_name("share"))
    yield made
    made.close()


def test_the_next_poll_accepts_what_the_last_one_brought(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer()

    records = read(consumer, 5)

    assert values(records) == FIVE
    assert [record.delivery_count for record in records] == [1] * 5
    assert consumer.acquisition_lock_timeout() == 30
    assert queue.rest() == []
    assert values(consumer.poll(0.2)) == []
    consumer.close()
    assert queue.rest() == []


def test_close_releases_what_was_not_accepted(queue: Queue) -> None:
    queue.send(*FIVE)
    first, second = queue.consumer(), queue.consumer()
    assert values(read(first, 5)) == FIVE

    first.close()

    assert values(read(second, 5)) == FIVE
    assert {partition.topic: error for partition, error in second.commit_sync().items()} == {queue.topic: None}
    second.close()
    assert queue.rest() == []


def test_each_record_is_accepted_released_or_rejected(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer(**EXPLICIT)
    kinds = {b"1": "release", b"2": AcknowledgeType.REJECT, b"3": "RELEASE"}

    for record in read(consumer, 5):
        consumer.acknowledge(record, kinds.get(record.value, AcknowledgeType.ACCEPT))
    again = read(consumer, 2)

    assert [(record.value, record.delivery_count) for record in again] == [(b"1", 2), (b"3", 2)]
    for record in again:
        consumer.acknowledge(record)
    assert list(consumer.commit_sync().values()) == [None]
    assert values(consumer.poll(0.2)) == []
    consumer.close()
    assert queue.rest() == []


def test_a_record_is_archived_after_as_many_deliveries_as_the_group_allows(queue: Queue) -> None:
    queue.configure(share_delivery_count_limit="2")
    queue.send(b"poison", b"good")
    consumer = queue.consumer(**EXPLICIT)

    seen = []
    for _ in range(2):
        for record in read(consumer, 1):
            seen.append((record.value, record.delivery_count))
            consumer.acknowledge(record, "release" if record.value == b"poison" else "accept")
        consumer.commit_sync()

    assert seen == [(b"poison", 1), (b"good", 1), (b"poison", 2)]
    assert values(consumer.poll(0.3)) == []
    consumer.close()
    assert queue.rest() == []


def test_a_record_that_nothing_is_said_of_in_time_goes_to_another(queue: Queue) -> None:
    queue.configure(share_record_lock_duration_ms="1000")
    queue.send(b"slow")
    slow, other = queue.consumer(**EXPLICIT), queue.consumer(**EXPLICIT)
    (record,) = read(slow, 1)

    (again,) = read(other, 1)
    slow.acknowledge(record)
    ((_, error),) = slow.commit_sync().items()
    other.acknowledge(again)

    assert (again.offset, again.delivery_count) == (0, 2)
    assert isinstance(error, InvalidRecordStateError)
    assert list(other.commit_sync().values()) == [None]


def test_a_renewed_record_stays_with_its_consumer_and_is_handed_out_again(queue: Queue) -> None:
    queue.configure(share_record_lock_duration_ms="1000")
    queue.send(b"long", b"short")
    consumer, other = queue.consumer(**EXPLICIT), queue.consumer()
    for record in read(consumer, 2):
        consumer.acknowledge(record, "renew" if record.value == b"long" else "accept")

    seen = []
    until = time.monotonic() + 2.2
    while time.monotonic() < until:
        for record in consumer.poll(0.5):
            seen.append((record.value, record.delivery_count))
            time.sleep(0.3)
            consumer.acknowledge(record, "renew")
        assert values(other.poll(0)) == []
    (record,) = consumer.poll(5)
    consumer.acknowledge(record)

    assert len(seen) > 3
    assert set(seen) == {(b"long", 1)}
    assert list(consumer.commit_sync().values()) == [None]
    consumer.close()
    assert queue.rest() == []


def test_two_consumers_share_one_partition_and_no_record_is_in_two_hands(queue: Queue) -> None:
    sent = [b"%d" % number for number in range(200)]
    members = [queue.consumer(max_poll_records=10, share_acquire_mode="record_limit") for _ in range(2)]
    for member in members:
        member.poll(0.3)
    queue.send(*sent)

    found: list[list[bytes]] = [[], []]
    assert eventually(
        lambda: (
            [mine.extend(values(member.poll(0.1))) for mine, member in zip(found, members, strict=True)]
            and len(found[0]) + len(found[1]) >= 200
        )
    )

    assert sorted(found[0] + found[1]) == sorted(sent)
    assert all(found)


def test_record_limit_keeps_to_max_poll_records(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer(max_poll_records=2, share_acquire_mode="record_limit")

    found: list[list[bytes]] = []
    assert eventually(lambda: found.append(values(consumer.poll(0.2))) or sum(map(len, found)) == 5)  # type: ignore[func-returns-value]

    assert max(map(len, found)) == 2
    assert [value for values_of_poll in found for value in values_of_poll] == FIVE


def test_a_consumer_that_vanishes_loses_its_records_to_another(queue: Queue) -> None:
    queue.send(*FIVE)
    lost, other = queue.consumer(), queue.consumer()
    assert values(read(lost, 5)) == FIVE

    lost._parts.client.client.close()

    assert values(read(other, 5)) == FIVE
    queue.members.remove(lost)
    lost._polling.abandon()


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_are_seen_as_the_groups_isolation_level_says(
    queue: Queue, new_name: Callable[[str], str], level: str
) -> None:
    queue.configure(share_isolation_level=level)
    with Producer(bootstrap_servers=queue.bootstrap_servers, transactional_id=new_name("id")) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(queue.topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(queue.topic, b"aborted", partition=0).result(10)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(queue.topic, b"last", partition=0)
    consumer = queue.consumer()

    expected = [b"committed", b"last"] if level == "read_committed" else [b"committed", b"aborted", b"last"]
    assert values(read(consumer, len(expected))) == expected
    assert values(consumer.poll(0.2)) == []
    # The markers of the transactions have offsets, too, which are acknowledged as gaps.
    consumer.close()
    assert queue.rest() == []


def test_a_record_that_cannot_be_read_is_released_unless_something_else_is_said(queue: Queue) -> None:
    queue.send(b"1", b"two", b"3")
    consumer = queue.consumer(value_deserializer=int, **EXPLICIT)
    seen = []
    refused: list[RecordDeserializationError] = []

    def poll() -> None:
        try:
            for record in consumer.poll(0.2):
                seen.append(record.value)
                consumer.acknowledge(record)
        except RecordDeserializationError as error:
            refused.append(error)
            if len(refused) == 2:
                consumer.acknowledge_offset(error.topic_partition, error.offset, "reject")

    assert eventually(lambda: poll() or len(refused) == 2)  # type: ignore[func-returns-value]
    for _ in range(3):
        poll()

    assert seen == [1, 3]
    assert [error.offset for error in refused] == [1, 1]
    assert refused[0].record.value == b"two"
    consumer.close()
    assert queue.rest() == []


def test_the_callback_is_told_what_the_broker_says(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer()
    told: list[tuple[dict[TopicIdPartition, set[int]], KafkaError | None]] = []
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: told.append((offsets, error)))
    read(consumer, 5)

    consumer.commit_async()

    assert eventually(lambda: not consumer.poll(0.1) and bool(told))
    ((offsets, error),) = told
    assert error is None
    ((partition, numbers),) = offsets.items()
    assert partition.topic_partition == TopicPartition(queue.topic, 0)
    assert numbers == {0, 1, 2, 3, 4}


def test_a_loop_that_is_left_accepts_what_it_came_to(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer()
    for record in consumer:
        if record.value == b"1":
            break
    consumer.commit_sync()

    consumer.close()
    assert values(read(queue.consumer(), 3)) == FIVE[2:]


def test_a_poll_returns_what_a_loop_did_not_come_to(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer()
    assert next(iter(consumer)).value == b"0"

    assert values(consumer.poll(1)) == FIVE[1:]
    consumer.commit_sync()
    consumer.close()
    assert queue.rest() == []


def test_records_come_as_an_arrow_batch(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer = queue.consumer()
    found: list[Any] = []

    assert eventually(lambda: bool(found.append(consumer.poll_arrow(0.2)) or found[-1]))

    assert found[-1].column("value").to_pylist() == FIVE
    consumer.commit_sync()
    consumer.close()
    assert queue.rest() == []


def test_partitions_move_with_the_members_and_topics_with_the_subscription(
    bootstrap_servers: str, new_name: Callable[[str], str]
) -> None:
    topics = [create_topic(bootstrap_servers, new_name("queue"), 2) for _ in range(2)]
    queue = Queue(bootstrap_servers, topics[0], new_name("share"))
    first = queue.consumer()
    queue.send(b"a", partition=0)
    queue.send(b"b", partition=1)
    assert sorted(values(read(first, 2))) == [b"a", b"b"]

    second = queue.consumer()
    assert eventually(lambda: not second.poll(0.1) and bool(second._parts.subscriptions.assigned_partitions))
    first.subscribe(topics)
    queue.topic = topics[1]
    queue.send(b"c", partition=1)
    assert values(read(first, 1)) == [b"c"]
    first.unsubscribe()
    queue.topic = topics[0]
    queue.send(b"d", partition=0)
    queue.send(b"e", partition=1)
    assert sorted(values(read(second, 2))) == [b"d", b"e"]
    with pytest.raises(IllegalStateError, match="subscribe"):
        first.poll(0)
    queue.close()


def test_what_does_not_fit_is_refused_in_words(queue: Queue) -> None:
    queue.send(*FIVE)
    explicit, implicit = queue.consumer(**EXPLICIT), queue.consumer()
    records = read(explicit, 5)

    with pytest.raises(IllegalStateError, match="5 records of the last poll"):
        explicit.poll(0)
    for record in records:
        explicit.acknowledge(record)
    explicit.commit_sync()
    with pytest.raises(IllegalStateError, match="cannot be acknowledged"):
        explicit.acknowledge(records[0])
    with pytest.raises(IllegalStateError, match="share_acknowledgement_mode='explicit'"):
        implicit.acknowledge(records[0])
    implicit.wakeup()
    with pytest.raises(WakeupError):
        implicit.poll(1)
    assert implicit.commit_sync() == {}


def test_a_callback_may_not_call_the_consumer(queue: Queue) -> None:
    queue.send(*FIVE)
    consumer: ShareConsumer = queue.consumer()
    consumer.set_acknowledgement_commit_callback(lambda offsets, error: consumer.poll(0))
    read(consumer, 5)

    with pytest.raises(IllegalStateError, match="callback"):
        consumer.commit_sync()

    consumer.set_acknowledgement_commit_callback(None)
    assert values(consumer.poll(0.1)) == []
