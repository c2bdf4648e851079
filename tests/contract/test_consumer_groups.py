"""Consumers in a group against a running broker: rebalances, commits, membership."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, TopicPartition
from barnabas.errors import CommitFailedError, FencedInstanceIdError, KafkaError
from tests.contract.group import PARTITIONS, SESSION_SECONDS, Group
from tests.contract.recorder import Recorder
from tests.contract.waiting import create_topic


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@pytest.mark.shows("S2.12", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
@pytest.mark.shows("S3.58", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
def test_members_share_the_partitions_as_they_come_and_go(group: Group, strategy: str) -> None:
    first = group.join(partition_assignment_strategy=strategy)
    assert group.settle() == [[0, 1, 2, 3]]

    group.join(partition_assignment_strategy=strategy)
    third = group.join(partition_assignment_strategy=strategy)
    group.settle()
    assert sorted(len(consumer.assignment()) for consumer in group.members) == [1, 1, 2]

    group.leave(third)
    group.settle()
    group.leave(first)
    assert group.settle() == [[0, 1, 2, 3]]


@pytest.mark.shows(
    "S3.84",
    breaks="barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.invoke_partitions_assigned",
)
@pytest.mark.shows(
    "S3.85",
    breaks="barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.invoke_partitions_assigned",
)
def test_an_eager_rebalance_takes_everything_away_first(group: Group) -> None:
    first = group.join(partition_assignment_strategy="range")
    group.settle()
    second = group.join(partition_assignment_strategy="range")
    group.settle()

    assert group.listeners[first].events == [
        ("assigned", {0, 1, 2, 3}),
        ("revoked", {0, 1, 2, 3}),
        ("assigned", {0, 1}),
    ]
    assert group.listeners[second].events[-1] == ("assigned", {2, 3})


@pytest.mark.shows(
    "S3.86",
    breaks="barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.invoke_partitions_revoked",
)
def test_a_cooperative_rebalance_takes_only_what_moves(group: Group) -> None:
    first = group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle()
    second = group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle()

    revoked = [partitions for kind, partitions in group.listeners[first].events if kind == "revoked" and partitions]
    assert len(revoked) == 1
    assert len(revoked[0]) == 2
    assert {p.partition for p in second.assignment()} == revoked[0]
    assert ("lost", set()) not in group.listeners[first].events


def test_no_record_is_lost_or_doubled_through_rebalances(group: Group) -> None:
    group.send(2000)
    group.join(partition_assignment_strategy="cooperative-sticky", max_poll_records=10)
    group.poll_until(lambda: len(group.records) > 50)
    group.join(partition_assignment_strategy="cooperative-sticky", max_poll_records=10)
    group.settle()
    rounds = iter(range(20))
    group.poll_until(lambda: next(rounds, None) is None)
    group.leave(group.members[0])
    group.poll_until(lambda: len(group.records) >= 2000)
    group.poll_until(lambda: all(len(consumer.poll(0.2)) == 0 for consumer in group.members))

    assert group.records == [(partition, offset) for partition in range(4) for offset in range(500)]


@pytest.mark.shows("S3.70", breaks="barnabas.client.consumer.subscription_state:SubscriptionState.all_consumed")
def test_commit_without_offsets_covers_what_the_last_poll_returned(group: Group) -> None:
    group.send(40)
    consumer = group.join(enable_auto_commit=False, max_poll_records=7)
    group.poll_until(lambda: len(group.records) >= 7)

    consumer.commit()

    committed = consumer.committed(consumer.assignment())
    positions = {partition: consumer.position(partition) for partition in consumer.assignment()}
    assert {partition: found.offset for partition, found in committed.items() if found} == positions
    assert sum(positions.values()) == len(group.records)


@pytest.mark.shows(
    "S2.21", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator.refresh_committed_offsets"
)
@pytest.mark.shows(
    "S2.34", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator.refresh_committed_offsets"
)
def test_a_member_goes_on_where_the_group_committed(group: Group) -> None:
    group.send(40)
    first = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.read[first]) >= 40)
    # Reading takes nothing away, and moves nothing that the broker knows: the commit decides.
    assert set(first.committed(first.assignment()).values()) == {None}
    first.commit({TopicPartition(group.topic, partition): 8 for partition in range(4)})
    group.leave(first)

    second = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(group.read[second]) >= 8)

    assert sorted(group.read[second]) == [(partition, offset) for partition in range(4) for offset in (8, 9)]


@pytest.mark.shows("S2.35", breaks="barnabas.client.consumer.coordinator.auto_commits:AutoCommits.commit_now")
def test_offsets_are_committed_automatically_while_polling(group: Group) -> None:
    group.send(40)
    consumer = group.join(auto_commit_interval_ms=100)
    group.poll_until(lambda: len(group.records) >= 40)

    def is_committed() -> bool:
        found = consumer.committed(consumer.assignment())
        return [offset and offset.offset for offset in found.values()] == [10] * 4

    group.poll_until(is_committed)


def test_offsets_are_committed_automatically_on_close(group: Group) -> None:
    group.send(40)
    group.join(auto_commit_interval_ms=100_000)
    group.poll_until(lambda: len(group.records) >= 40)
    group.leave(group.members[0])

    second = group.join(enable_auto_commit=False)
    found = second.committed([TopicPartition(group.topic, partition) for partition in range(4)])
    assert [offset and offset.offset for offset in found.values()] == [10] * 4


@pytest.mark.shows(
    "S3.74", breaks="barnabas.client.consumer.coordinator.offset_commits:OffsetCommits.invoke_completed_callbacks"
)
def test_callbacks_of_asynchronous_commits_run_in_order_inside_the_consumer(group: Group) -> None:
    consumer = group.join(enable_auto_commit=False)
    group.settle()
    partition = TopicPartition(group.topic, 0)
    told: list[tuple[int, KafkaError | None, bool]] = []
    main = threading.get_ident()

    for offset in range(5):
        consumer.commit_async(
            {partition: offset},
            lambda offsets, error: told.append((offsets[partition].offset, error, threading.get_ident() == main)),
        )
    group.poll_until(lambda: len(told) == 5)

    assert told == [(offset, None, True) for offset in range(5)]
    committed = consumer.committed([partition])[partition]
    assert committed is not None
    assert committed.offset == 4


@pytest.mark.shows(
    "S3.83",
    breaks="barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.invoke_partitions_revoked",
)
def test_a_listener_may_commit_what_was_processed_before_it_gives_partitions_up(group: Group) -> None:
    group.send(40)
    consumer = group.join(enable_auto_commit=False)

    class Committer(Recorder):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if partitions:
                consumer.commit({partition: consumer.position(partition) for partition in partitions})

    consumer.subscribe([group.topic], Committer())
    group.poll_until(lambda: len(group.records) >= 40)
    other = group.join(enable_auto_commit=False)
    group.settle()
    read_again: list[Any] = []

    def is_at_the_end() -> bool:
        found = list(other.poll(0.3))
        read_again.extend(found)
        return not found

    group.poll_until(is_at_the_end)

    assert (len(group.records), read_again) == (40, [])
    assert {other.position(partition) for partition in other.assignment()} == {10}


@pytest.mark.shows("S3.97", breaks="barnabas.client.consumer.membership.group_requests:leave_group")
def test_close_gives_the_partitions_to_the_others_at_once(group: Group) -> None:
    first = group.join()
    group.join()
    group.settle()

    group.leave(first)

    assert group.settle(seconds=SESSION_SECONDS / 2) == [[0, 1, 2, 3]]


def test_a_static_member_keeps_its_partitions_through_a_restart(group: Group) -> None:
    first = group.join(group_instance_id="red")
    second = group.join(group_instance_id="green")
    group.settle()
    before = first.assignment()
    told = list(group.listeners[second].events)

    group.leave(first)
    again = group.join(group_instance_id="red")
    group.poll_until(lambda: bool(again.assignment()))

    assert again.assignment() == before
    assert group.listeners[second].events == told


def test_the_same_instance_twice_fences_the_first(group: Group) -> None:
    first = group.join(group_instance_id="red")
    group.settle()
    second = group.join(group_instance_id="red")
    group.members.remove(first)
    group.poll_until(lambda: len(second.assignment()) == PARTITIONS)

    with pytest.raises(FencedInstanceIdError, match="red"):
        first.poll(10)
    first.close(2)


@pytest.mark.shows("S2.32", breaks="barnabas.client.consumer.membership.heartbeat:Heartbeat.poll_timeout_expired")
@pytest.mark.shows("S2.10", breaks="barnabas.client.consumer.membership.heartbeat:Heartbeat.poll_timeout_expired")
def test_a_member_that_does_not_poll_leaves_by_itself(group: Group) -> None:
    stalled = group.join(max_poll_interval_ms=1_000)
    group.settle()
    group.members.remove(stalled)
    active = group.join(max_poll_interval_ms=10_000)

    group.poll_until(lambda: len(active.assignment()) == PARTITIONS, seconds=SESSION_SECONDS / 2)

    with pytest.raises(CommitFailedError):
        stalled.commit({TopicPartition(group.topic, 0): 1})
    group.members.append(stalled)
    group.settle()
    assert ("lost", {0, 1, 2, 3}) in group.listeners[stalled].events


def test_a_pattern_finds_topics_also_those_made_later(group: Group) -> None:
    import re

    consumer = group.join(metadata_max_age_ms=300)
    consumer.unsubscribe()
    consumer.subscribe(re.compile(re.escape(group.topic) + ".*"))
    group.poll_until(lambda: len(consumer.assignment()) == PARTITIONS)

    with AdminClient(bootstrap_servers=group.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(group.topic + "-more", 2, 1)])

    group.poll_until(lambda: len(consumer.assignment()) == PARTITIONS + 2)
    assert consumer.subscription() == {group.topic, group.topic + "-more"}


def test_new_partitions_are_assigned(group: Group) -> None:
    consumer = group.join(metadata_max_age_ms=300)
    group.settle()

    with AdminClient(bootstrap_servers=group.bootstrap_servers) as admin:
        admin.create_partitions({group.topic: PARTITIONS + 2})

    group.poll_until(lambda: len(consumer.assignment()) == PARTITIONS + 2)


def test_changing_the_subscription_rejoins(group: Group, new_name: Callable[[str], str]) -> None:
    other = create_topic(group.bootstrap_servers, new_name("groups"), 1)
    consumer = group.join(partition_assignment_strategy="cooperative-sticky")
    group.settle()

    consumer.subscribe([other])
    group.poll_until(lambda: consumer.assignment() == {TopicPartition(other, 0)})
    consumer.unsubscribe()
    assert consumer.assignment() == set()
