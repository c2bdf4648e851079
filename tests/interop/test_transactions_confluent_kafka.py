"""librdkafka's transactional producer, with offsets of a group, and a broker that is killed in the middle."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import Broker

NewName = Callable[[str], str]


def producer(broker: Broker, transactional_id: str, **settings: object) -> Producer:
    return Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 20_000,
            "reconnect.backoff.max.ms": 200,
            **settings,
        }
    )


def consumer(broker: Broker, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )


def create(broker: Broker, topic: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(10)
    return topic


def read_all(broker: Broker, topic: str, partitions: int) -> list[bytes]:
    """Every committed record of a topic."""
    reader = consumer(broker, "reader")
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    ends = {index: reader.get_watermark_offsets(TopicPartition(topic, index), 10)[1] for index in range(partitions)}
    found = []
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found += [message.value() for message in reader.consume(1000, 0.2) if message.error() is None]
        positions = reader.position([TopicPartition(topic, index) for index in ends])
        if all(position.offset >= ends[position.partition] or not ends[position.partition] for position in positions):
            break
    reader.close()
    return found


@pytest.fixture
def topic(broker: Broker, new_name: NewName) -> str:
    return create(broker, new_name("txn"), 3)


def test_committed_transactions_are_read_and_aborted_ones_are_not(broker: Broker, topic: str) -> None:
    writer = producer(broker, topic)
    writer.init_transactions(15)
    for number in range(6):
        writer.begin_transaction()
        for record in range(10):
            writer.produce(topic, key=str(record), value=b"%d-%d" % (number, record))
        if number % 2:
            writer.flush(10)
            writer.abort_transaction(15)
        else:
            writer.commit_transaction(15)
    expected = {b"%d-%d" % (number, record) for number in (0, 2, 4) for record in range(10)}
    found = read_all(broker, topic, 3)
    assert len(found) == 30
    assert set(found) == expected


def test_a_second_producer_shuts_the_first_out(broker: Broker, topic: str) -> None:
    first, second = producer(broker, topic), producer(broker, topic)
    first.init_transactions(15)
    first.begin_transaction()
    first.produce(topic, b"lost")
    first.flush(10)
    second.init_transactions(15)
    second.begin_transaction()
    second.produce(topic, b"kept")
    second.commit_transaction(15)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(15)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert read_all(broker, topic, 3) == [b"kept"]


def test_what_was_read_and_what_was_written_are_committed_together(
    broker: Broker, topic: str, new_name: NewName
) -> None:
    source, group = create(broker, new_name("source"), 1), new_name("etl")
    plain = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        plain.produce(source, b"%d" % number)
    plain.flush(10)

    writer, handled = producer(broker, topic), 0
    writer.init_transactions(15)
    reader = consumer(broker, group)
    reader.subscribe([source])
    aborted = False
    deadline = time.monotonic() + 30
    while handled < 100 and time.monotonic() < deadline:
        messages = [message for message in reader.consume(20, 0.5) if message.error() is None]
        if not messages:
            continue
        writer.begin_transaction()
        for message in messages:
            writer.produce(topic, message.value())
        writer.send_offsets_to_transaction(reader.position(reader.assignment()), reader.consumer_group_metadata(), 15)
        if handled >= 40 and not aborted:
            # Once, all of it is thrown away and done again from the committed offsets.
            aborted = True
            writer.abort_transaction(15)
            for position in reader.committed(reader.assignment(), 10):
                reader.seek(position)
            continue
        writer.commit_transaction(15)
        handled += len(messages)
    [position] = reader.committed([TopicPartition(source, 0)], 10)
    reader.close()

    assert aborted
    assert position.offset == 100
    assert sorted(read_all(broker, topic, 3), key=int) == [b"%d" % number for number in range(100)]


@pytest.mark.timeout(120)
def test_the_broker_is_killed_in_mid_transaction_and_every_record_is_counted(tmp_path: Path) -> None:
    """Transactions of ten records; the broker dies three times at a bad moment."""
    with Broker(data_dir=tmp_path / "data", num_partitions=3) as broker:
        writer = producer(broker, "killed")
        writer.init_transactions(15)
        certain: set[bytes] = set()
        uncertain: set[bytes] = set()
        for number in range(24):
            values = [b"%d-%d" % (number, record) for record in range(10)]
            try:
                writer.begin_transaction()
                for record, value in enumerate(values):
                    writer.produce("counted", value, key=str(record))
                    if number % 8 == 3 and record == 5:
                        writer.flush(2)
                        broker.kill()
                        broker.restart()
                writer.commit_transaction(30)
                certain.update(values)
            except KafkaException as failure:
                error = failure.args[0]
                assert error.txn_requires_abort() or error.retriable(), error
                uncertain.update(values)
                writer.abort_transaction(30)
        found = read_all(broker, "counted", 3)
        assert len(found) == len(set(found))
        assert certain <= set(found) <= certain | uncertain
        assert len(certain) >= 200
        for number in range(24):
            of_transaction = [value for value in found if value.startswith(b"%d-" % number)]
            assert len(of_transaction) in (0, 10), "a transaction was committed in part"
        assert "please report this" not in broker.log_text()
