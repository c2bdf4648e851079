"""Consumers of `group.protocol=consumer` (KIP-848) against a running broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import Producer, TopicPartition
from barnabas.client.consumer.subscription_pattern import SubscriptionPattern
from barnabas.errors import (
    CommitFailedError,
    InvalidRegularExpressionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from tests.contract.group import CONSUMER, PARTITIONS, Group
from tests.contract.waiting import create_topic, eventually

GROUP = CONSUMER


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_the_partitions_as_they_come_and_go(group: Group, assignor: str) -> None:
    first = group.join(group_remote_assignor=assignor)
    group.settle(4)
    second = group.join(group_remote_assignor=assignor)
    group.settle(2, 2)
    kept = {partition.partition for partition in first.assignment()}
    group.leave(second)
    group.settle(4)

    gone = {0, 1, 2, 3} - kept
    assert [event for event in group.listeners[first].events if event[1]] == [
        ("assigned", {0, 1, 2, 3}),
        ("revoked", gone),
        ("assigned", gone),
    ]


def test_each_record_is_read_once_while_members_come_and_go(group: Group) -> None:
    group.send(400)
    first = group.join(max_poll_records=7)
    group.poll_until(lambda: len(group.records) > 50)
    group.join(max_poll_records=7)
    group.settle(2, 2)
    group.send(400)
    group.leave(first)
    group.join(max_poll_records=7)
    group.poll_until(lambda: len(group.records) == 800)

    assert len(set(group.records)) == len(group.records)


def test_an_expression_is_resolved_by_the_brokers(group: Group, new_name: Callable[[str], str]) -> None:
    prefix = new_name("some")
    for end in "abc":
        create_topic(group.bootstrap_servers, f"{prefix}-{end}", PARTITIONS)
    consumer = group.join(SubscriptionPattern(f"{prefix}-[ab]"))
    group.settle(8)

    assert consumer.subscription() == {f"{prefix}-a", f"{prefix}-b"}


@pytest.mark.slow
def test_an_expression_finds_topics_that_come_later(group: Group, new_name: Callable[[str], str]) -> None:
    prefix = new_name("some")
    create_topic(group.bootstrap_servers, f"{prefix}-a", PARTITIONS)
    group.join(SubscriptionPattern(f"{prefix}-[ab]"))
    group.settle(4)
    create_topic(group.bootstrap_servers, f"{prefix}-b", PARTITIONS)
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
        group.join(group_instance_id="red").poll(10)
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
    group.poll_until(lambda: len(group.records) == 100)

    assert len(back.assignment()) == 4
    assert len(set(group.records)) == len(group.records)


def test_offsets_of_a_member_go_into_a_transaction(group: Group, new_name: Callable[[str], str]) -> None:
    group.send(4)
    consumer = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.records) == 4)
    with Producer(bootstrap_servers=group.bootstrap_servers, transactional_id=new_name("transactional")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        partition = TopicPartition(group.topic, 0)
        producer.send_offsets_to_transaction({partition: 1}, consumer.group_metadata())
        producer.commit_transaction()

    assert consumer.committed([partition])[partition].offset == 1  # type: ignore[union-attr]  # it is committed


def test_a_member_that_was_put_out_cannot_commit_and_joins_again(group: Group) -> None:
    consumer = group.join(enable_auto_commit=False, max_poll_interval_ms=1000)
    group.settle(4)

    with pytest.raises(CommitFailedError):
        eventually(lambda: consumer.commit({TopicPartition(group.topic, 0): 1}))
    group.poll_until(
        lambda: ("lost", {0, 1, 2, 3}) in group.listeners[consumer].events and len(consumer.assignment()) == 4
    )
