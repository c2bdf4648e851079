"""Consumers of one group at their work: who reads what, and who reads nothing while partitions move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.client.consumer.completed_fetch import BadRecordError
from barnabas.client.consumer.steps import run
from tests.contract.waiting import create_topic

PARTITIONS = 4
#: Longer than any test waits, but where one waits for its end: whoever leaves has said so.
SESSION_SECONDS = 40


class Work:
    """A topic of four partitions, a group, and what each of its members has read."""

    def __init__(self, bootstrap_servers: str, topic: str, group_id: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.group_id = group_id
        self.read: dict[Consumer, list[tuple[int, int]]] = {}

    def join(self, strategy: str = "range", **settings: Any) -> Consumer:
        chosen = {
            "group_id": self.group_id,
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": strategy,
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": SESSION_SECONDS * 1000,
            **settings,
        }
        consumer = Consumer(self.topic, bootstrap_servers=self.bootstrap_servers, **chosen)
        self.read[consumer] = []
        return consumer

    def produce(self, count: int) -> None:
        with Producer[bytes, bytes](bootstrap_servers=self.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)

    def poll(self, *consumers: Consumer) -> None:
        for consumer in consumers:
            self.read[consumer].extend((record.partition, record.offset) for record in consumer.poll(0.02))

    def poll_until(self, condition: Callable[[], bool], *consumers: Consumer) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, [(sorted(c.assignment()), len(read)) for c, read in self.read.items()]
            self.poll(*consumers)

    def settle(self, *consumers: Consumer) -> list[int]:
        """Poll until each partition has one owner and the counts are as even as can be; the counts."""

        def sizes() -> list[int]:
            return sorted(len(consumer.assignment()) for consumer in consumers)

        def is_settled() -> bool:
            owned = set().union(*(consumer.assignment() for consumer in consumers))
            return len(owned) == sum(sizes()) == PARTITIONS and sizes()[-1] - sizes()[0] <= 1

        self.poll_until(is_settled, *consumers)
        return sizes()

    def all_read(self) -> list[tuple[int, int]]:
        return sorted(record for records in self.read.values() for record in records)


@pytest.fixture
def work(bootstrap_servers: str, new_name: Callable[[str], str]) -> Iterator[Work]:
    topic = create_topic(bootstrap_servers, new_name("work"), PARTITIONS)
    made = Work(bootstrap_servers, topic, new_name("workers"))
    yield made
    for consumer in made.read:
        consumer.close(5)


ASSIGNED = "barnabas.client.consumer.rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.assigned"
REVOKED = "barnabas.client.consumer.rebalance_listener_invoker:ConsumerRebalanceListenerInvoker.revoked"


@pytest.mark.shows("S2.11", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
@pytest.mark.shows("S3.26", breaks="barnabas.client.consumer.fetcher:Fetcher.send_fetches")
def test_another_consumer_of_the_group_takes_over_half_of_the_work(work: Work) -> None:
    first = work.join()
    work.settle(first)
    second = work.join()
    work.settle(first, second)

    work.produce(40)
    work.poll_until(lambda: len(work.all_read()) >= 40, first, second)

    assert work.all_read() == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
    assert [len(work.read[consumer]) for consumer in (first, second)] == [20, 20]


@pytest.mark.shows("S2.9", breaks="barnabas.client.consumer.abstract_coordinator:AbstractCoordinator._leave")
@pytest.mark.shows("S3.17", breaks="barnabas.client.consumer.abstract_coordinator:AbstractCoordinator._leave")
def test_what_one_member_leaves_the_others_go_on_with(work: Work) -> None:
    members = [work.join() for _ in range(2)]
    work.settle(*members)
    work.produce(40)
    work.poll_until(lambda: len(work.all_read()) >= 40, *members)

    start = time.monotonic()
    members[0].close(5)
    work.produce(40)
    work.poll_until(lambda: len(work.all_read()) >= 80, members[1])

    assert time.monotonic() - start < SESSION_SECONDS - 5
    assert work.all_read() == [(partition, offset) for partition in range(PARTITIONS) for offset in range(20)]
    assert len(members[1].assignment()) == PARTITIONS


@pytest.mark.shows("S3.60", breaks="barnabas.client.consumer.assignors.consumer_partition_assignor:members_by_topic")
def test_more_members_than_partitions_leave_one_without_work_but_in_the_group(work: Work) -> None:
    members = [work.join() for _ in range(PARTITIONS + 1)]
    with AdminClient(bootstrap_servers=work.bootstrap_servers) as admin:

        def all_are_in() -> bool:
            groups = dict(admin.describe_groups([work.group_id], raise_errors=False))
            return [(group.state, len(group.members)) for group in groups.values()] == [("Stable", PARTITIONS + 1)]

        work.poll_until(all_are_in, *members)
        assert work.settle(*members) == [0, 1, 1, 1, 1]

        work.produce(40)
        work.poll_until(lambda: len(work.all_read()) >= 40, *members)

        assert sorted(len(read) for read in work.read.values()) == [0, 10, 10, 10, 10]
        assert all_are_in()


@pytest.mark.shows("S1.26", breaks=REVOKED)
@pytest.mark.shows("S3.64", breaks=REVOKED)
@pytest.mark.parametrize(("strategy", "read_meanwhile"), [("range", 0), ("cooperative-sticky", 20)])
def test_during_a_rebalance_eager_members_stand_still_and_lag_grows_others_go_on(
    work: Work, strategy: str, read_meanwhile: int
) -> None:
    reader, slow = work.join(strategy), work.join(strategy)
    work.settle(reader, slow)
    mine = sorted(reader.assignment())
    late = work.join(strategy)
    # The rebalance waits for `slow`, which does not poll. `late` does not get in before.
    with AdminClient(bootstrap_servers=work.bootstrap_servers) as admin:
        work.poll_until(
            lambda: admin.describe_groups([work.group_id])[work.group_id].state == "PreparingRebalance", reader, late
        )
    if strategy == "range":
        work.poll_until(lambda: not reader.assignment(), reader, late)

    work.produce(40)
    work.poll_until(lambda: len(work.read[reader]) >= read_meanwhile, reader, late)
    end = time.monotonic() + 0.5
    work.poll_until(lambda: time.monotonic() > end, reader, late)

    assert len(work.read[reader]) == read_meanwhile
    assert work.read[late] == []
    if strategy == "range":
        assert lag(work, reader, mine) == 20

    work.settle(reader, slow, late)
    work.poll_until(lambda: len(set(work.all_read())) == 40, reader, slow, late)


@pytest.mark.shows("S3.93", breaks="barnabas.client.consumer.heartbeat:Heartbeat.should_heartbeat")
def test_the_partitions_of_a_member_that_died_stand_still_until_its_session_is_over(work: Work) -> None:
    alive, dead = work.join(session_timeout_ms=6000), work.join(session_timeout_ms=6000)
    work.settle(alive, dead)
    orphaned = sorted(dead.assignment())
    # No more heartbeats, and no good-bye: as if the process were gone.
    coordinator = dead._parts.coordinator
    assert coordinator is not None
    now = time.monotonic()
    run(coordinator.stop_heartbeat_thread(now, now))
    died = time.monotonic()

    lags = []
    for read in (10, 20):
        work.produce(20)
        work.poll_until(lambda: len(work.read[alive]) >= read, alive)  # noqa: B023  (it is asked at once)
        lags.append(lag(work, alive, orphaned))
    assert lags == [10, 20]
    assert len(work.read[alive]) == 20

    work.poll_until(lambda: len(set(work.all_read())) == 40, alive)
    assert time.monotonic() - died > 4, "the session ends 6 s after the last heartbeat"
    dead._parts.client.client.close()
    del work.read[dead]


def lag(work: Work, consumer: Consumer, partitions: list[TopicPartition]) -> int:
    """The ends of the logs minus what is committed; the group's own connections wait for the rebalance."""
    with AdminClient(bootstrap_servers=work.bootstrap_servers) as admin:
        committed = admin.list_consumer_group_offsets(work.group_id)
    ends = consumer.end_offsets(partitions)
    return sum(ends.values()) - sum(committed[one].offset for one in partitions if one in committed)


@pytest.mark.shows("S3.63", breaks=ASSIGNED)
@pytest.mark.shows(
    "S3.82", breaks="barnabas.client.consumer.application_coordinator:ApplicationCoordinator.refresh_committed_offsets"
)
def test_a_rebalance_may_strike_between_a_poll_and_the_commit_of_its_records(work: Work) -> None:
    from barnabas.errors import CommitFailedError, RebalanceInProgressError

    work.produce(40)
    first = work.join(enable_auto_commit=False, max_poll_records=5, max_poll_interval_ms=1000)
    work.poll_until(lambda: len(work.read[first]) == 5, first)
    processed = len(work.read[first])
    second = work.join(enable_auto_commit=False)
    work.poll_until(lambda: len(second.assignment()) == PARTITIONS, second)

    with pytest.raises((CommitFailedError, RebalanceInProgressError)):
        first.commit()
    work.poll_until(lambda: len(work.read[second]) == 40, second)

    assert processed == 5
    assert sorted(work.read[second]) == [(p, offset) for p in range(PARTITIONS) for offset in range(10)]
    assert set(work.read[first]) <= set(work.read[second]), "nothing is lost; five records come twice"


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
    with pytest.raises(BadRecordError):
        read(key_deserializer="UUIDDeserializer")
