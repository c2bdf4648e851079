"""Records of transactions that are open, read by one who was told which of them count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas import Producer
from barnabas.client.producer.transactions import detached
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitioned_rows import read_records
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.transaction_rows import Transaction, WrittenRange, read_written

NewTopicName = Callable[[int], str]


@pytest.fixture
def writer(servers: str) -> Iterator[Producer[Any, Any]]:
    with Producer(bootstrap_servers=servers, transactional_id="writer") as producer:
        yield producer


class Topic:
    """A partition into which several write."""

    def __init__(self, servers: str, name: str, writer: Producer[Any, Any]) -> None:
        self.servers, self.place = servers, TopicPartition(name, 0)
        self._writer = writer
        self.end = 0

    def open(self, transactional_id: str, *values: str, time_ms: int = 1000, batches: int = 1) -> Transaction:
        """Write in a transaction that stays open."""
        transaction = detached.initialize(self._writer, transactional_id)
        self._writer.begin_transaction()
        for _ in range(batches):
            for value in values:
                future = self._writer.send(self.place.topic, value.encode(), partition=0, timestamp_ms=time_ms)
            self._writer.flush()
            self.end = future.result().offset + 1
        detached.detach(self._writer)
        return transaction

    def committed(self, *values: str) -> None:
        with Producer(bootstrap_servers=self.servers, transactional_id="committed") as producer:
            producer.init_transactions()
            with producer.transaction():
                for value in values:
                    producer.send(self.place.topic, value.encode(), partition=0, timestamp_ms=1000)
        self.end += len(values) + 1

    def options(self, **more: str) -> SourceOptions:
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": self.place.topic,
                 "kafka.isolation.level": "read_committed", **more}  # fmt: skip
        return SourceOptions(given, streaming=False)

    def read(self, start: int, committed: int, *transactions: Transaction) -> list[str]:
        how = WrittenRange(self.place, committed, transactions)
        return values(read_written(self.options(), OffsetRange(self.place, start, self.end), how, {}))


def values(batches: Iterator[Any]) -> list[str]:
    return [value.decode() for batch in batches for value in batch.column("value").to_pylist()]


@pytest.fixture
def topic(servers: str, new_topic: NewTopicName, writer: Producer[Any, Any]) -> Topic:
    return Topic(servers, new_topic(1), writer)


def test_only_what_the_named_transactions_wrote_is_read_in_the_order_of_the_partition(topic: Topic) -> None:
    first = topic.open("first", "a", "b")
    topic.open("ghost", "x", "y")
    second = topic.open("second", "c", batches=3)
    topic.open("another ghost", "z")

    assert topic.read(0, 0, first, second) == ["a", "b", "c", "c", "c"]
    assert topic.read(1, 0, first, second) == ["b", "c", "c", "c"]
    assert topic.read(0, 0, second) == ["c"] * 3
    assert topic.read(0, 0) == []


def test_an_attempt_under_the_same_id_that_was_given_up_is_not_the_one_that_is_named(topic: Topic) -> None:
    topic.open("task", "given up")
    named = topic.open("task", "reported")  # its epoch is another one, and what was open is aborted

    assert topic.read(0, 0, named) == ["reported"]


def test_what_was_left_before_is_read_committed(topic: Topic) -> None:
    topic.committed("left", "there")
    left = topic.end
    named = topic.open("task", "new")
    topic.committed("of another application")

    assert topic.read(0, left, named) == ["left", "there", "new"]


def test_they_are_merged_with_other_topics_by_their_times(
    topic: Topic, servers: str, new_topic: NewTopicName, writer: Producer[Any, Any]
) -> None:
    other = Topic(servers, new_topic(1), writer)
    other.committed("at 1000")
    named = topic.open("task", "at 1500", time_ms=1500)
    topic.open("ghost", "ghost", time_ms=500)
    early = topic.open("early", "at 900", time_ms=900)
    ranges = (OffsetRange(topic.place, 0, topic.end), OffsetRange(other.place, 0, 1))
    task = PlannedTask("1_0", 0, ranges, 0, ())

    found = read_records(topic.options(), task, {}, [WrittenRange(topic.place, 0, (named, early))])

    assert values(found) == ["at 1000", "at 1500", "at 900"], "each partition in its order"
