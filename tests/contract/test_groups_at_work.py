"""Consumers of one group at their work: who reads what, and who reads nothing while partitions move."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.client.steps import run
from barnabas.errors import RecordDeserializationError
from tests.contract.group import PARTITIONS, SESSION_SECONDS, Group

ASSIGNED = (
    "barnabas.client.consumer.coordinator.consumer_rebalance_listener_invoker:"
    "ConsumerRebalanceListenerInvoker.invoke_partitions_assigned"
)
PREPARED = "barnabas.client.consumer.coordinator.classic_coordinator:ClassicCoordinator._on_join_prepare"


@pytest.mark.shows("S2.11", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
@pytest.mark.shows("S3.26", breaks="barnabas.client.consumer.fetching.fetcher:Fetcher.send_fetches")
def test_another_consumer_of_the_group_takes_over_half_of_the_work(group: Group) -> None:
    first = group.join()
    group.settle()
    second = group.join()
    group.settle()

    group.send(40)
    group.poll_until(lambda: len(group.records) >= 40, first, second)

    assert group.records == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
    assert [len(group.read[consumer]) for consumer in (first, second)] == [20, 20]


@pytest.mark.shows("S2.9", breaks="barnabas.client.consumer.membership.group_requests:leave_group")
@pytest.mark.shows("S3.17", breaks="barnabas.client.consumer.membership.group_requests:leave_group")
def test_what_one_member_leaves_the_others_go_on_with(group: Group) -> None:
    members = [group.join() for _ in range(2)]
    group.settle()
    group.send(40)
    group.poll_until(lambda: len(group.records) >= 40, *members)

    start = time.monotonic()
    group.leave(members[0])
    group.send(40)
    group.poll_until(lambda: len(group.records) >= 80, members[1])

    assert time.monotonic() - start < SESSION_SECONDS - 5
    assert group.records == [(partition, offset) for partition in range(PARTITIONS) for offset in range(20)]
    assert len(members[1].assignment()) == PARTITIONS


@pytest.mark.shows("S3.60", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
def test_more_members_than_partitions_leave_one_without_work_but_in_the_group(group: Group) -> None:
    members = [group.join() for _ in range(PARTITIONS + 1)]
    with AdminClient(bootstrap_servers=group.bootstrap_servers) as admin:

        def all_are_in() -> bool:
            groups = dict(admin.describe_groups([group.group_id], raise_errors=False))
            return [(group.state, len(group.members)) for group in groups.values()] == [("Stable", PARTITIONS + 1)]

        group.poll_until(all_are_in, *members)
        assert sorted(map(len, group.settle())) == [0, 1, 1, 1, 1]

        group.send(40)
        group.poll_until(lambda: len(group.records) >= 40, *members)

        assert sorted(len(read) for read in group.read.values()) == [0, 10, 10, 10, 10]
        assert all_are_in()


@pytest.mark.shows("S1.26", breaks=PREPARED)
@pytest.mark.shows("S3.64", breaks=PREPARED)
@pytest.mark.parametrize(("strategy", "read_meanwhile"), [("range", 0), ("cooperative-sticky", 20)])
def test_during_a_rebalance_eager_members_stand_still_and_lag_grows_others_go_on(
    group: Group, strategy: str, read_meanwhile: int
) -> None:
    reader, slow = (group.join(partition_assignment_strategy=strategy) for _ in range(2))
    group.settle()
    mine = sorted(reader.assignment())
    late = group.join(partition_assignment_strategy=strategy)
    # The rebalance waits for `slow`, which does not poll. `late` does not get in before.
    with AdminClient(bootstrap_servers=group.bootstrap_servers) as admin:
        group.poll_until(
            lambda: admin.describe_groups([group.group_id])[group.group_id].state == "PreparingRebalance", reader, late
        )
    if strategy == "range":
        group.poll_until(lambda: not reader.assignment(), reader, late)

    group.send(40)
    group.poll_until(lambda: len(group.read[reader]) >= read_meanwhile, reader, late)
    end = time.monotonic() + 0.5
    group.poll_until(lambda: time.monotonic() > end, reader, late)

    assert len(group.read[reader]) == read_meanwhile
    assert group.read[late] == []
    if strategy == "range":
        assert lag(group, reader, mine) == 20

    group.settle()
    group.poll_until(lambda: len(set(group.records)) == 40, reader, slow, late)


@pytest.mark.shows("S3.93", breaks="barnabas.client.consumer.membership.heartbeat:Heartbeat.should_heartbeat")
def test_the_partitions_of_a_member_that_died_stand_still_until_its_session_is_over(group: Group) -> None:
    alive, dead = group.join(session_timeout_ms=6000), group.join(session_timeout_ms=6000)
    group.settle()
    orphaned = sorted(dead.assignment())
    # No more heartbeats, and no good-bye: as if the process were gone.
    coordinator = dead._parts.coordinator
    assert coordinator is not None
    now = time.monotonic()
    run(coordinator.stop_heartbeat_thread(now, now))
    died = time.monotonic()

    lags = []
    for read in (10, 20):
        group.send(20)
        group.poll_until(lambda: len(group.read[alive]) >= read, alive)  # noqa: B023  (it is asked at once)
        lags.append(lag(group, alive, orphaned))
    assert lags == [10, 20]
    assert len(group.read[alive]) == 20

    group.poll_until(lambda: len(set(group.records)) == 40, alive)
    assert time.monotonic() - died > 4, "the session ends 6 s after the last heartbeat"
    dead._parts.client.client.close()
    group.members.remove(dead)


def lag(group: Group, consumer: Consumer, partitions: list[TopicPartition]) -> int:
    """The ends of the logs minus what is committed; the group's own connections wait for the rebalance."""
    with AdminClient(bootstrap_servers=group.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets(group.group_id)
    ends = consumer.end_offsets(partitions)
    return sum(ends.values()) - sum(committed[one].offset for one in partitions if one in committed)


@pytest.mark.shows(
    "S3.63", breaks="barnabas.client.consumer.membership.classic_membership:ClassicMembership._heartbeat_if_due"
)
@pytest.mark.shows(
    "S3.82", breaks="barnabas.client.consumer.coordinator.coordinator:Coordinator.refresh_committed_offsets"
)
def test_a_rebalance_may_strike_between_a_poll_and_the_commit_of_its_records(group: Group) -> None:
    from barnabas.errors import CommitFailedError, RebalanceInProgressError

    group.send(40)
    first = group.join(enable_auto_commit=False, max_poll_records=5, max_poll_interval_ms=1000)
    group.poll_until(lambda: len(group.read[first]) == 5, first)
    processed = len(group.read[first])
    second = group.join(enable_auto_commit=False)
    group.poll_until(lambda: len(second.assignment()) == PARTITIONS, second)

    with pytest.raises((CommitFailedError, RebalanceInProgressError)):
        first.commit()
    group.poll_until(lambda: len(group.read[second]) == 40, second)

    assert processed == 5
    assert sorted(group.read[second]) == [(p, offset) for p in range(PARTITIONS) for offset in range(10)]
    assert set(group.read[first]) <= set(group.read[second]), "nothing is lost; five records come twice"


@pytest.mark.shows("S3.32", breaks="barnabas.client.serializers:apply_serializer")
def test_a_consumer_must_deserialize_with_the_form_that_matches(
    bootstrap_servers: str, new_name: Callable[[str], str]
) -> None:
    topic = new_name("forms")
    producing: dict[str, Any] = {"key_serializer": "IntegerSerializer", "value_serializer": "StringSerializer"}
    with Producer[int, str](bootstrap_servers=bootstrap_servers, **producing) as producer:
        producer.send(topic, "grüß", key=7)

    def read(**deserializers: Any) -> list[object]:
        with Consumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", **deserializers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            return [(record.key, record.value) for record in consumer.poll(10)]

    assert read(key_deserializer="IntegerDeserializer", value_deserializer="StringDeserializer") == [(7, "grüß")]
    assert read() == [(b"\0\0\0\7", "grüß".encode())]
    with pytest.raises(RecordDeserializationError):
        read(key_deserializer="UUIDDeserializer")
