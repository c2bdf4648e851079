"""A consumer on its own against a running broker: positions, resets, seeks, pauses, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from barnabas import Consumer, Producer, TopicPartition
from barnabas.errors import (
    IllegalStateError,
    InvalidGroupIdError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordDeserializationError,
    WakeupError,
)
from tests.contract.waiting import create_topic
from tests.support.patience import PATIENCE


@pytest.fixture
def topic(bootstrap_servers: str, new_name: Callable[[str], str]) -> str:
    return create_topic(bootstrap_servers, new_name("reading"), 2)


def send(bootstrap_servers: str, topic: str, count: int, *, partition: int = 0, timestamp: int = 1_000) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(count):
            producer.send(
                topic,
                b"value %d" % number,
                key=b"%d" % number,
                partition=partition,
                timestamp_ms=timestamp + number,
                headers=[("n", b"%d" % number)],
            )


def read(consumer: Consumer, count: int, seconds: float = PATIENCE) -> list[object]:
    found: list[object] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        found.extend(consumer.poll(0.2))
    return found


@pytest.fixture
def make(bootstrap_servers: str) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make_consumer(*topics: str, **settings: object) -> Consumer:
        made.append(Consumer(*topics, bootstrap_servers=bootstrap_servers, **settings))
        return made[-1]

    yield make_consumer
    for consumer in made:
        consumer.close(5)


@pytest.mark.shows("S3.87", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.assign_from_user")
@pytest.mark.shows("S3.88", breaks="barnabas.client.consumer.consumer_base:ConsumerBase.assign")
def test_reads_an_assigned_partition_without_a_group(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    send(bootstrap_servers, topic, 3)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])

    records = read(consumer, 3)

    assert [(r.partition, r.offset, r.key, r.value, r.headers, r.timestamp) for r in records] == [
        (0, n, b"%d" % n, b"value %d" % n, [("n", b"%d" % n)], 1_000 + n) for n in range(3)
    ]
    assert consumer.position(TopicPartition(topic, 0)) == 3


@pytest.mark.shows(
    "S2.24", breaks="barnabas.client.consumer.auto_offset_reset_strategy:AutoOffsetResetStrategy.timestamp"
)
def test_earliest_begins_at_the_first_offset(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 5)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])

    assert consumer.position(TopicPartition(topic, 0)) == 0


@pytest.mark.shows(
    "S2.25", breaks="barnabas.client.consumer.auto_offset_reset_strategy:AutoOffsetResetStrategy.timestamp"
)
def test_latest_begins_at_the_end(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 5)
    consumer = make()
    consumer.assign([TopicPartition(topic, 0)])

    assert consumer.position(TopicPartition(topic, 0)) == 5
    send(bootstrap_servers, topic, 1)
    assert [record.offset for record in read(consumer, 1)] == [5]


@pytest.mark.shows(
    "S2.26", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.reset_initializing_positions"
)
def test_none_leaves_the_decision_to_the_caller(topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make(auto_offset_reset="none")
    consumer.assign([TopicPartition(topic, 0)])

    with pytest.raises(NoOffsetForPartitionError, match="seek") as raised:
        consumer.poll(10)

    assert raised.value.partitions == (TopicPartition(topic, 0),)


def test_a_duration_begins_that_far_back(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 3, timestamp=int(time.time() * 1000) - 7_200_000)
    send(bootstrap_servers, topic, 2, timestamp=int(time.time() * 1000) - 60_000)
    consumer = make(auto_offset_reset="by_duration:PT1H")
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])

    assert consumer.position(TopicPartition(topic, 0)) == 3
    assert consumer.position(TopicPartition(topic, 1)) == 0


def test_a_position_out_of_range_is_reset(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 3)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 1000)

    assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]


def test_a_position_out_of_range_is_told_where_no_reset_is_wanted(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    consumer = make(auto_offset_reset="none")
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 1000)

    with pytest.raises(OffsetOutOfRangeError, match="1000"):
        read(consumer, 1)


def test_seek_goes_anywhere(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 10)
    partition = TopicPartition(topic, 0)
    consumer = make(auto_offset_reset="earliest")
    consumer.assign([partition])
    assert len(read(consumer, 10)) == 10

    consumer.seek(partition, 7)
    assert [record.offset for record in read(consumer, 3)] == [7, 8, 9]
    consumer.seek_to_beginning(partition)
    assert [record.offset for record in read(consumer, 10)] == list(range(10))
    consumer.seek_to_end()
    assert consumer.position(partition) == 10


def test_paused_partitions_deliver_nothing_until_resumed(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    send(bootstrap_servers, topic, 4, partition=0)
    send(bootstrap_servers, topic, 4, partition=1)
    consumer = make(auto_offset_reset="earliest", max_poll_records=2)
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    consumer.pause(TopicPartition(topic, 0))

    assert [(record.partition, record.offset) for record in read(consumer, 4)] == [(1, n) for n in range(4)]
    assert read(consumer, 1, seconds=0.5) == []
    assert consumer.paused() == {TopicPartition(topic, 0)}
    consumer.resume(TopicPartition(topic, 0))
    assert [(record.partition, record.offset) for record in read(consumer, 4)] == [(0, n) for n in range(4)]


def test_tells_bounds_times_and_lag(bootstrap_servers: str, topic: str, make: Callable[..., Consumer]) -> None:
    send(bootstrap_servers, topic, 10)
    partition, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = make(auto_offset_reset="earliest", max_poll_records=4)

    assert consumer.beginning_offsets([partition, empty]) == {partition: 0, empty: 0}
    assert consumer.end_offsets([partition, empty]) == {partition: 10, empty: 0}
    times = consumer.offsets_for_times({partition: 1_004, empty: 1_004})
    assert times[partition] is not None
    assert times[partition][:2] == (4, 1_004)
    assert times[empty] is None
    consumer.assign([partition])
    read(consumer, 4)
    assert consumer.current_lag(partition) == 6


def test_lists_topics_and_partitions(topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make(allow_auto_create_topics=False)

    assert [partition.partition for partition in consumer.partitions_for(topic)] == [0, 1]
    assert len(consumer.list_topics()[topic]) == 2
    assert list(consumer.partitions_for(topic + "-missing")) == []


def test_asking_for_a_topic_that_is_missing_ends_in_time(topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make(allow_auto_create_topics=False)

    with pytest.raises(KafkaTimeoutError, match="missing"):
        consumer.end_offsets([TopicPartition(topic + "-missing", 0)], timeout=0.5)


@pytest.mark.shows("S3.95", breaks="barnabas.client.consumer.consumer_network_client:ConsumerNetworkClient.wakeup")
@pytest.mark.shows("S3.94", breaks="barnabas.client.consumer.consumer_base:ConsumerBase.wakeup")
def test_wakeup_from_another_thread_ends_a_poll_in_progress_and_else_the_next(
    topic: str, make: Callable[..., Consumer]
) -> None:
    consumer = make()
    consumer.assign([TopicPartition(topic, 0)])
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    start = time.monotonic()

    with pytest.raises(WakeupError):
        consumer.poll(30)
    assert time.monotonic() - start < 5

    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(30)
    assert len(consumer.poll(0.01)) == 0


def test_a_record_that_cannot_be_deserialized_is_told_after_all_before_it_and_can_be_passed(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    send(bootstrap_servers, topic, 5)

    def picky(data: bytes) -> str:
        if data == b"value 2":
            raise ValueError("not for me")
        return data.decode()

    partition = TopicPartition(topic, 0)
    consumer = make(auto_offset_reset="earliest", value_deserializer=picky)
    consumer.assign([partition])

    assert [record.value for record in read(consumer, 2)] == ["value 0", "value 1"]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="not for me") as raised:
            read(consumer, 1)
        assert (raised.value.topic_partition, raised.value.offset) == (partition, 2)
        assert raised.value.record.value == b"value 2"
        assert consumer.position(partition) == 2
    consumer.seek(partition, raised.value.offset + 1)
    assert [record.value for record in read(consumer, 2)] == ["value 3", "value 4"]


def test_arrow_has_all_records_in_the_columns_of_spark(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer]
) -> None:
    send(bootstrap_servers, topic, 100, partition=0)
    send(bootstrap_servers, topic, 50, partition=1)
    consumer = make(auto_offset_reset="earliest", key_deserializer=int)
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])

    rows: list[dict[str, object]] = []
    deadline = time.monotonic() + PATIENCE
    while len(rows) < 150 and time.monotonic() < deadline:
        batch = consumer.poll_arrow(0.5)
        rows.extend(batch.to_pylist() if batch is not None else [])

    assert list(rows[0]) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        *((0, n) for n in range(100)),
        *((1, n) for n in range(50)),
    ]
    assert consumer.poll_arrow(0.1) is None
    assert consumer.position(TopicPartition(topic, 1)) == 50


def test_a_commit_inside_the_loop_covers_what_was_handed_out(
    bootstrap_servers: str, topic: str, make: Callable[..., Consumer], new_name: Callable[[str], str]
) -> None:
    send(bootstrap_servers, topic, 10)
    partition = TopicPartition(topic, 0)
    consumer = make(auto_offset_reset="earliest", group_id=new_name("group"), enable_auto_commit=False)
    consumer.assign([partition])

    offsets = []
    for record in consumer:
        offsets.append(record.offset)
        if record.offset == 3:
            consumer.commit()
            break

    committed = consumer.committed([partition])[partition]
    assert committed is not None
    assert committed.offset == 4
    assert consumer.position(partition) == 4
    for record in consumer:
        offsets.append(record.offset)
        if record.offset == 5:
            break
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]
    assert offsets == list(range(6))


@pytest.mark.shows("S3.80", breaks="barnabas.client.consumer.consumer_arguments:as_offsets")
def test_offsets_are_committed_with_a_note_and_no_note_is_empty(
    topic: str, make: Callable[..., Consumer], new_name: Callable[[str], str]
) -> None:
    consumer = make(group_id=new_name("group"))
    consumer.commit({TopicPartition(topic, 0): (5, "a note"), TopicPartition(topic, 1): (6, None)})

    committed = consumer.committed([(topic, 0), (topic, 1)])

    assert committed[TopicPartition(topic, 0)][:2] == (5, "a note")
    assert committed[TopicPartition(topic, 1)][:2] == (6, "")


def test_what_needs_a_group_says_so(topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make()

    with pytest.raises(InvalidGroupIdError, match="group_id"):
        consumer.subscribe([topic])
    with pytest.raises(InvalidGroupIdError):
        consumer.commit({TopicPartition(topic, 0): 1})
    with pytest.raises(IllegalStateError, match="subscribe"):
        consumer.poll(0.1)


def test_a_closed_consumer_refuses_and_closing_twice_is_fine(topic: str, make: Callable[..., Consumer]) -> None:
    consumer = make()
    consumer.assign([TopicPartition(topic, 0)])
    consumer.poll(0.1)
    consumer.close()
    consumer.close()

    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll(0.1)
