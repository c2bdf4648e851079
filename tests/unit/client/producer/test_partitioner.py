"""Which partition a record goes to."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.cluster import Cluster, PartitionInfo, TopicInfo
from barnabas.client.producer.partition_load import PartitionLoad
from barnabas.client.producer.partitioner import (
    BuiltInPartitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    partition_for_key,
)
from barnabas.network.node import Node
from barnabas.protocol.topic_partition import TopicPartition
from tests.unit.client.producer.harness import TOPIC, Harness
from tests.unit.client.producer.storing_broker import StoringBroker, connect


def cluster(count: int, leaderless: tuple[int, ...] = ()) -> Cluster:
    infos = (PartitionInfo(TOPIC, number, -1 if number in leaderless else 1) for number in range(count))
    return Cluster([Node(1, "h", 1)], {TOPIC: TopicInfo(TOPIC, None, False, tuple(infos))})


def test_round_robin_takes_the_next_available_partition_for_each_record_whatever_its_key() -> None:
    partitioner = RoundRobinPartitioner()

    chosen = [partitioner.partition(TOPIC, b"k", b"k", None, None, cluster(4, leaderless=(2,))) for _ in range(6)]

    assert chosen == [0, 1, 3, 0, 1, 3]


def test_round_robin_uses_all_partitions_when_none_has_a_leader() -> None:
    partitioner = RoundRobinPartitioner()

    chosen = [partitioner.partition(TOPIC, None, None, None, None, cluster(2, (0, 1))) for _ in range(4)]

    assert chosen == [0, 1, 0, 1]


@pytest.mark.shows("S3.47", breaks="barnabas.client.producer.partitioner:UniformStickyPartitioner.partition")
def test_uniform_sticky_ignores_keys_and_stays_until_a_new_batch_is_needed() -> None:
    partitioner, topics = UniformStickyPartitioner(random.Random(1)), cluster(3)

    before = {partitioner.partition(TOPIC, key, key, None, None, topics) for key in (None, b"a", b"b", b"c")}
    partitioner.on_new_batch(TOPIC, topics, *before)
    after = partitioner.partition(TOPIC, None, None, None, None, topics)

    assert len(before) == 1
    assert after not in before


def test_uniform_sticky_moves_once_when_two_threads_find_the_same_batch_full() -> None:
    partitioner, topics = UniformStickyPartitioner(random.Random(1)), cluster(3)
    first = partitioner.partition(TOPIC, None, None, None, None, topics)

    partitioner.on_new_batch(TOPIC, topics, first)
    second = partitioner.partition(TOPIC, None, None, None, None, topics)
    partitioner.on_new_batch(TOPIC, topics, first)

    assert partitioner.partition(TOPIC, None, None, None, None, topics) == second


@pytest.mark.shows("S3.46", breaks="barnabas.client.producer.partitioner:UniformStickyPartitioner._switch")
def test_uniform_sticky_spreads_its_batches_evenly() -> None:
    partitioner, topics, used = UniformStickyPartitioner(random.Random(3)), cluster(4), Counter[int]()

    for _ in range(4000):
        chosen = partitioner.partition(TOPIC, None, None, None, None, topics)
        used[chosen] += 1
        partitioner.on_new_batch(TOPIC, topics, chosen)

    assert sorted(used) == [0, 1, 2, 3]
    assert all(900 < count < 1100 for count in used.values())


@pytest.mark.shows("S3.45", breaks="barnabas.records.partitioner:partition_for_key")
@pytest.mark.shows("S4.17", breaks="barnabas.records.partitioner:partition_for_key")
def test_a_key_always_goes_to_the_partition_of_its_hash_modulo_all_partitions(broker: StoringBroker) -> None:
    # From the test of Utils.murmur2 in Apache Kafka; of a hash below zero the sign bit is cleared.
    murmur2 = {b"21": -973_932_308, b"foobar": -790_332_482, b"abc": 479_470_107}
    java = {key: hashed & 0x7FFF_FFFF for key, hashed in murmur2.items()}
    for key, hashed in java.items():
        for partitions in (1, 2, 7, 50, 1000):
            assert partition_for_key(key, partitions) == hashed % partitions

    with connect(broker, linger_ms=20) as producer:
        sent = [producer.send("test", b"v", key) for key in java for _ in range(3)]
        producer.flush(10)

    assert [future.result(0).partition for future in sent] == [hashed % 3 for hashed in java.values() for _ in range(3)]


def test_built_in_stays_with_a_partition_until_the_batch_size_went_there() -> None:
    partitioner, topics = BuiltInPartitioner(TOPIC, 100, random.Random(2)), cluster(1000)
    first = partitioner.peek_current_partition(topics)

    partitioner.update_partition_info(99, topics, enable_switch=True)
    assert partitioner.peek_current_partition(topics) == first
    partitioner.update_partition_info(1, topics, enable_switch=True)
    assert partitioner.peek_current_partition(topics) != first


def test_built_in_does_not_leave_a_batch_that_is_not_full_before_twice_the_batch_size() -> None:
    partitioner, topics = BuiltInPartitioner(TOPIC, 100, random.Random(2)), cluster(1000)
    first = partitioner.peek_current_partition(topics)

    partitioner.update_partition_info(199, topics, enable_switch=False)
    assert partitioner.peek_current_partition(topics) == first
    partitioner.update_partition_info(1, topics, enable_switch=False)
    assert partitioner.peek_current_partition(topics) != first


def test_built_in_prefers_partitions_with_short_queues() -> None:
    partitioner, drawn = BuiltInPartitioner(TOPIC, 100, random.Random(5)), Counter[int]()
    partitioner.update_partition_load_stats({1: 3, 2: 1})

    for _ in range(8000):
        drawn[partitioner.next_partition(cluster(3))] += 1

    # Weights are the longest queue plus one, minus its own: 4, 1, 3.
    assert [round(drawn[partition] / 1000) for partition in range(3)] == [4, 1, 3]


def test_built_in_draws_evenly_when_all_queues_are_equal_and_skips_unavailable_partitions() -> None:
    partitioner, drawn = BuiltInPartitioner(TOPIC, 100, random.Random(5)), Counter[int]()
    partitioner.update_partition_load_stats({0: 2, 1: 2, 2: 2})

    for _ in range(3000):
        drawn[partitioner.next_partition(cluster(3, leaderless=(1,)))] += 1

    assert sorted(drawn) == [0, 2]
    assert abs(drawn[0] - drawn[2]) < 200


@pytest.mark.shows("S3.50", breaks="barnabas.client.producer.partitioner:BuiltInPartitioner.peek_current_partition")
@pytest.mark.shows("S4.14", breaks="barnabas.client.producer.partitioner:BuiltInPartitioner.peek_current_partition")
@pytest.mark.shows("S4.16", breaks="barnabas.client.producer.partitioner:BuiltInPartitioner.peek_current_partition")
def test_records_without_key_fill_one_batch_of_one_partition_and_then_move_to_another() -> None:
    harness = Harness(partitions=8, batch_size=1000, linger_ms=1000)

    partitions = [harness.append(b"x" * 100, partition=-1).partition for _ in range(40)]

    runs = [n for at, n in enumerate(partitions) if at == 0 or partitions[at - 1] != n]
    assert 3 <= len(runs) <= 6
    assert len(partitions) / len(runs) >= 7
    harness.settle()
    assert all(len(batch) >= 7 for batch in harness.sent_values()[:-1])


def test_built_in_avoids_slow_brokers_while_there_are_others() -> None:
    partitioner = BuiltInPartitioner(TOPIC, 100, random.Random(5))
    infos = tuple(PartitionInfo(TOPIC, number, 1 + number % 2) for number in range(4))
    two = Cluster([Node(1, "h", 1), Node(2, "h", 2)], {TOPIC: TopicInfo(TOPIC, None, False, infos)})

    partitioner.update_partition_load_stats({}, frozenset({2}))
    assert {partitioner.next_partition(two) for _ in range(200)} == {0, 2}
    partitioner.update_partition_load_stats({}, frozenset({1, 2}))
    assert {partitioner.next_partition(two) for _ in range(200)} == {0, 1, 2, 3}


class Untouchable(dict[int, Any]):
    """The queues of all partitions: every 20 ms a look at 10,000 of them would take half of a core."""

    def __iter__(self) -> Any:
        raise AssertionError("all partitions are looked at")

    items = keys = values = __iter__


def test_learning_of_queues_looks_at_those_that_are_not_empty_only() -> None:
    load = PartitionLoad(is_adaptive=True, availability_timeout=0.0)
    partitioner = BuiltInPartitioner(TOPIC, 100, random.Random(5))
    partitioner.peek_current_partition(cluster(100))
    info: Any = SimpleNamespace(sticky=partitioner, batches=Untouchable(dict.fromkeys(range(100), ())))

    load.maybe_update({TopicPartition(TOPIC, 7): [1] * 50}, {TOPIC: info}, 1.0)

    drawn = Counter(partitioner.next_partition(cluster(100)) for _ in range(5000))
    assert drawn[7] < 10
    assert len(drawn) >= 99
