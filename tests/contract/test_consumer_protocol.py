"""Consumers of `group.protocol=consumer` (KIP-848) against a running broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from barnabas import Consumer, Producer, TopicPartition
from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
from barnabas.errors import (
    CommitFailedError,
    InvalidRegularExpressionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from tests.contract.recorder import Recorder
from tests.contract.waiting import create_topic, eventually

PARTITIONS = 4


class Group:
    """Makes consumers of one group and polls them in turn."""

    def __init__(self, bootstrap_servers: str, new_name: Callable[[str], str]) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.new_name = new_name
        self.group_id = new_name("group")
        self.topic = self.create(new_name("topic"))
        self.members: list[Consumer] = []
        self.seen: Counter[tuple[int, int]] = Counter()

    def create(self, topic: str) -> str:
        return create_topic(self.bootstrap_servers, topic, PARTITIONS)

    def join(self, topics: object = None, listener: Recorder | None = None, **settings: object) -> Consumer:
        chosen = {"group_protocol": "consumer", "auto_offset_reset": "earliest", "group_id": self.group_id, **settings}
        consumer = Consumer(bootstrap_servers=self.bootstrap_servers, **chosen)
        consumer.subscribe(topics or [self.topic], listener)  # type: ignore[arg-type]  # of several kinds
        self.members.append(consumer)
        return consumer

    def send(self, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)

    def poll_until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, [sorted(c.assignment()) for c in self.members]
            for consumer in self.members:
                for record in consumer.poll(0.02):
                    self.seen[(record.partition, record.offset)] += 1

    def settle(self, *sizes: int) -> None:
        """Poll until the members have so many partitions each, and each partition has one of them."""
        self.poll_until(
            lambda: (
                sorted(len(consumer.assignment()) for consumer in self.members) == sorted(sizes)
                and len(set().union(*(consumer.assignment() for consumer in self.members))) == sum(sizes)
            )
        )

    def leave(self, consumer: Consumer, operation: str = "default") -> None:
        self.members.remove(consumer)
        consumer.close(5, operation)


@pytest.fixture
def group(bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Group]:
    made = Group(bootstrap_servers, new_name)
    yield made
    for consumer in made.members:
        consumer.close(5)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_as_they_come_and_go(group: Group, assignor: str) -> None:
    listener = Recorder()
    first = group.join(listener=listener, group_remote_assignor=assignor)
    group.settle(4)
    second = group.join(group_remote_assignor=assignor)
    group.settle(2, 2)
    kept = {partition.partition for partition in first.assignment()}
    group.leave(second)
    group.settle(4)

    gone = {0, 1, 2, 3} - kept
    assert [event for event in listener.events if event[1]] == [
        ("assigned", {0, 1, 2, 3}),
        ("revoked", gone),
        ("assigned", gone),
    ]


def test_each_record_is_read_once_while_members_come_and_go(group: Group) -> None:
    group.send(400)
    first = group.join(max_poll_records=7)
    group.poll_until(lambda: len(group.seen) > 50)
    group.join(max_poll_records=7)
    group.settle(2, 2)
    group.send(400)
    group.leave(first)
    group.join(max_poll_records=7)
    group.poll_until(lambda: len(group.seen) == 800)

    assert set(group.seen.values()) == {1}


def test_an_expression_is_resolved_by_the_brokers(group: Group) -> None:
    prefix = group.new_name("some")
    for end in "abc":
        group.create(f"{prefix}-{end}")
    consumer = group.join(SubscriptionPattern(f"{prefix}-[ab]"))
    group.settle(8)

    assert consumer.subscription() == {f"{prefix}-a", f"{prefix}-b"}


@pytest.mark.slow
def test_an_expression_finds_topics_that_come_later(group: Group) -> None:
    prefix = group.new_name("some")
    group.create(f"{prefix}-a")
    group.join(SubscriptionPattern(f"{prefix}-[ab]"))
    group.settle(4)
    group.create(f"{prefix}-b")
    group.settle(8)


def test_a_bad_expression_and_an_unknown_assignor_come_out_of_poll(group: Group) -> None:
    with pytest.raises(InvalidRegularExpressionError):
        group.join(SubscriptionPattern("(")).poll(10)
    with pytest.raises(UnsupportedAssignorError):
        group.join(group_remote_assignor="nothing").poll(10)


def test_a_static_member_comes_back_to_its_partitions_and_nobody_else_may_have_its_name(group: Group) -> None:
    red = group.join(group_instance_id="red")
    group.join(group_instance_id="blue")
    group.settle(2, 2)
    before = red.assignment()
    with pytest.raises(UnreleasedInstanceIdError, match="red"):
        Group.join(group, group_instance_id="red").poll(10)
    group.members.pop().close()

    group.leave(red)
    back = group.join(group_instance_id="red")
    group.settle(2, 2)
    assert back.assignment() == before

    group.leave(back, "leave_group")
    group.settle(4)


def test_groups_go_from_one_protocol_to_the_other_member_by_member(group: Group) -> None:
    classic = {"group_protocol": "classic", "partition_assignment_strategy": "range", "heartbeat_interval_ms": 200}
    group.send(100)
    old = group.join(**classic)
    group.settle(4)
    new = group.join()
    group.settle(2, 2)
    group.leave(old)
    group.settle(4)
    back = group.join(**classic)
    group.settle(2, 2)
    group.leave(new)
    group.settle(4)
    group.poll_until(lambda: len(group.seen) == 100)

    assert len(back.assignment()) == 4
    assert set(group.seen.values()) == {1}


def test_offsets_of_a_member_go_into_a_transaction(group: Group) -> None:
    group.send(4)
    consumer = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.seen) == 4)
    with Producer(
        bootstrap_servers=group.bootstrap_servers, transactional_id=group.new_name("transactional")
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        partition = TopicPartition(group.topic, 0)
        producer.send_offsets_to_transaction({partition: 1}, consumer.group_metadata())
        producer.commit_transaction()

    assert consumer.committed([partition])[partition].offset == 1  # type: ignore[union-attr]  # it is committed


def test_a_member_that_was_put_out_cannot_commit_and_joins_again(group: Group) -> None:
    listener = Recorder()
    consumer = group.join(listener=listener, enable_auto_commit=False, max_poll_interval_ms=1000)
    group.settle(4)

    with pytest.raises(CommitFailedError):
        eventually(lambda: consumer.commit({TopicPartition(group.topic, 0): 1}))
    group.poll_until(lambda: ("lost", {0, 1, 2, 3}) in listener.events and len(consumer.assignment()) == 4)
