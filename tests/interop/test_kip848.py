"""The consumer group protocol of KIP-848, spoken by librdkafka (confluent-kafka) with our broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import Broker
from tests.interop.three_brokers import BROKERS

NewName = Callable[[str], str]

SETTINGS = {
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 100,
    "group_consumer_min_session_timeout_ms": 1000,
    "group_consumer_session_timeout_ms": 3000,
    "group_consumer_assignment_interval_ms": 100,
}


@pytest.fixture(scope="module", params=BROKERS)
def quick_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Brokers whose members are told quickly what has changed."""
    with Broker(brokers=request.param, **SETTINGS) as running:
        yield running
        assert "please report this" not in running.log_text()


def create(broker: Broker, topic: str, partitions: int = 6) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(10)


def produce(broker: Broker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, key=b"%d" % number, value=b"%d" % number)
    assert producer.flush(15) == 0


def consumer(broker: Broker, group: str, topics: list[str], **settings: object) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **settings,
        }
    )
    found.subscribe(topics)
    return found


def partitions(member: Consumer) -> set[tuple[str, int]]:
    return {(item.topic, item.partition) for item in member.assignment()}


def wait_for_shares(members: list[Consumer], sizes: list[int], seconds: float = 20.0) -> None:
    """Poll until the members have so many partitions, each partition one of them."""
    end = time.monotonic() + seconds
    shares: list[set[tuple[str, int]]] = []
    while time.monotonic() < end:
        for member in members:
            message = member.poll(0.02)
            assert message is None or message.error() is None
        shares = [partitions(member) for member in members]
        if sorted(map(len, shares)) == sorted(sizes) and len(set().union(*shares)) == sum(sizes):
            return
    raise AssertionError(f"{shares} after {seconds} s, expected {sizes}")


def read(members: list[Consumer], count: int, seconds: float = 20.0) -> list[int]:
    """The numbers that the members got, sorted, when there were `count` of them."""
    found: list[int] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        for member in members:
            for message in member.consume(500, 0.05):
                assert message.error() is None
                found.append(int(message.value()))
    return sorted(found)


def test_members_come_and_go(quick_broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    create(quick_broker, topic)
    members = [consumer(quick_broker, group, [topic])]
    wait_for_shares(members, [6])
    members.append(consumer(quick_broker, group, [topic]))
    wait_for_shares(members, [3, 3])
    members.append(consumer(quick_broker, group, [topic]))
    wait_for_shares(members, [2, 2, 2])

    produce(quick_broker, topic, range(300))
    assert read(members, 300) == list(range(300))

    members.pop(0).close()
    wait_for_shares(members, [3, 3])
    members.pop().close()
    wait_for_shares(members, [6])
    members.pop().close()


def test_commits_are_where_the_next_member_begins(quick_broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    create(quick_broker, topic)
    produce(quick_broker, topic, range(100))
    with closing(consumer(quick_broker, group, [topic])) as first:
        assert read([first], 100) == list(range(100))
        first.commit(asynchronous=False)
    produce(quick_broker, topic, range(100, 150))

    with closing(consumer(quick_broker, group, [topic])) as second:
        assert read([second], 50) == list(range(100, 150))
        committed = second.committed([TopicPartition(topic, index) for index in range(6)], 10)
    assert sum(item.offset for item in committed) == 100


def test_topics_that_match_are_read_and_so_are_those_that_come_later(quick_broker: Broker, new_name: NewName) -> None:
    prefix, group = new_name("match"), new_name("group")
    create(quick_broker, f"{prefix}-a", 2)
    create(quick_broker, new_name("other"), 2)
    with closing(consumer(quick_broker, group, [f"^{prefix}-.*"])) as member:
        wait_for_shares([member], [2])
        create(quick_broker, f"{prefix}-b", 3)
        wait_for_shares([member], [5])
        assert {topic for topic, _ in partitions(member)} == {f"{prefix}-a", f"{prefix}-b"}


def test_a_static_member_comes_back_to_its_partitions(quick_broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    create(quick_broker, topic)
    members = [consumer(quick_broker, group, [topic], **{"group.instance.id": name}) for name in ("one", "two")]
    wait_for_shares(members, [3, 3])
    before = [partitions(member) for member in members]

    members[0].close()
    members[0] = consumer(quick_broker, group, [topic], **{"group.instance.id": "one"})
    wait_for_shares(members, [3, 3])

    assert [partitions(member) for member in members] == before
    for member in members:
        member.close()


def test_the_group_is_listed_and_described_as_what_it_is(quick_broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    create(quick_broker, topic)
    admin = AdminClient({"bootstrap.servers": quick_broker.bootstrap_servers})
    with closing(consumer(quick_broker, group, [topic], **{"client.id": "someone"})) as member:
        wait_for_shares([member], [6])
        listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(10).valid
        described = admin.describe_consumer_groups([group], include_authorized_operations=True)[group].result(10)
        assert group in {item.group_id for item in listed}
        assert (described.state, described.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
        (shown,) = described.members
        assert shown.client_id == "someone"
        assert {(item.topic, item.partition) for item in shown.assignment.topic_partitions} == partitions(member)

    admin.delete_consumer_groups([group])[group].result(10)
    assert group not in {item.group_id for item in admin.list_consumer_groups().result(10).valid}


def test_members_go_on_after_the_broker_was_killed_and_started_again(new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    with Broker(**SETTINGS) as broker:
        create(broker, topic)
        members = [consumer(broker, group, [topic]) for _ in range(2)]
        wait_for_shares(members, [3, 3])
        before = [partitions(member) for member in members]
        produce(broker, topic, range(100))
        assert read(members, 100) == list(range(100))
        for member in members:
            member.commit(asynchronous=False)

        broker.kill()
        broker.start()

        produce(broker, topic, range(100, 200))
        assert read(members, 100) == list(range(100, 200))
        assert [partitions(member) for member in members] == before
        for member in members:
            member.close()


def test_a_group_is_upgraded_and_downgraded_member_by_member(quick_broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("topic"), new_name("group")
    create(quick_broker, topic)
    classic = {
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 100,
        "session.timeout.ms": 6000,
    }
    members = [consumer(quick_broker, group, [topic], **classic) for _ in range(2)]
    wait_for_shares(members, [3, 3])
    for settings in ({}, {}, classic, classic):
        members.append(consumer(quick_broker, group, [topic], **settings))
        wait_for_shares(members, [2, 2, 2])
        members.pop(0).close()
        wait_for_shares(members, [3, 3])
    produce(quick_broker, topic, range(100))
    assert read(members, 100) == list(range(100))
    for member in members:
        member.close()
