"""kafka-python against our broker."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas import Broker
from tests.contract.waiting import eventually
from tests.interop.three_brokers import count_of

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove, NewTopic, OffsetSpec
    from kafka.errors import IncompatibleBrokerVersion, InvalidPartitionsError, NoError
    from kafka.structs import OffsetAndMetadata

pytestmark = pytest.mark.filterwarnings("ignore:.*read_text is deprecated:DeprecationWarning")

NewName = Callable[[str], str]


def produce(broker: Broker, topic: str, count: int, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    sent = [producer.send(topic, key=b"%d" % n, value=b"value %d" % n) for n in range(count)]
    producer.flush(15)
    for future in sent:
        future.get(15)
    producer.close()


def consumer(broker: Broker, topic: str, group: str | None, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


def poll(members: list[KafkaConsumer], count: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    end = time.monotonic() + 20
    while len(found) < count and time.monotonic() < end:
        for member in members:
            for records in member.poll(timeout_ms=100).values():
                found.update((record.key, record.value) for record in records)
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_is_produced_is_consumed(broker: Broker, new_name: NewName, codec: str | None, idempotent: bool) -> None:
    topic = new_name("kp")
    produce(broker, topic, 300, compression_type=codec, enable_idempotence=idempotent)
    reader = consumer(broker, topic, new_name("group"))
    found = poll([reader], 300)
    reader.close()
    assert found == {b"%d" % n: b"value %d" % n for n in range(300)}


def test_two_members_share_the_partitions_and_one_takes_over(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("kp"), new_name("group")
    produce(broker, topic, 1)
    members = [consumer(broker, topic, group, heartbeat_interval_ms=100) for _ in range(2)]
    end = time.monotonic() + 30
    while sorted(len(member.assignment()) for member in members) != [1, 2] and time.monotonic() < end:
        for member in members:
            member.poll(timeout_ms=50)
    assert sorted(len(member.assignment()) for member in members) == [1, 2]
    members[0].close()
    while len(members[1].assignment()) != 3 and time.monotonic() < end:
        members[1].poll(timeout_ms=50)
    assert len(members[1].assignment()) == 3
    members[1].close()


def test_a_group_goes_on_where_it_committed(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("kp"), new_name("group")
    produce(broker, topic, 50)
    first = consumer(broker, topic, group)
    poll([first], 50)
    first.commit()
    first.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send(topic, key=b"new", value=b"new").get(10)
    producer.close()
    second = consumer(broker, topic, group)
    assert poll([second], 1) == {b"new": b"new"}
    second.close()


def test_offsets_by_time_and_seeking(broker: Broker, new_name: NewName) -> None:
    topic = new_name("kp")
    start = int(time.time() * 1000) - 60_000
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=start + number * 1000).get(10)
    producer.close()
    partition = TopicPartition(topic, 0)
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assert reader.offsets_for_times({partition: start + 4500})[partition].offset == 5
    assert reader.beginning_offsets([partition]) == {partition: 0}
    assert reader.end_offsets([partition]) == {partition: 10}
    reader.assign([partition])
    reader.seek(partition, 7)
    end = time.monotonic() + 10
    records: list[Any] = []
    while len(records) < 3 and time.monotonic() < end:
        records += reader.poll(timeout_ms=200).get(partition, [])
    reader.close()
    assert [record.value for record in records] == [b"7", b"8", b"9"]


def test_administration(broker: Broker, new_name: NewName) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    topic = new_name("kp")
    admin.create_topics([NewTopic(topic, 2, -1)])
    eventually(lambda: topic in admin.list_topics())
    eventually(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 2)
    assert admin.describe_cluster()["controller_id"] in range(1, count_of(broker) + 1)
    admin.delete_topics([topic])
    eventually(lambda: topic not in admin.list_topics())
    admin.close()


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def test_partitions_and_configs_are_changed(admin: KafkaAdminClient, new_name: NewName) -> None:
    topic = new_name("kp")
    admin.create_topics([NewTopic(topic, 2, -1, topic_configs={"retention.ms": "1000000"})])
    admin.create_partitions({topic: 3})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: 3})

    def alter(configs: dict[str, Any], **how: Any) -> str:
        return str(
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)], **how)["topic"][topic]
        )

    def value(name: str) -> Any:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
        return found[name]["value"] if name in found else None

    assert alter({"retention.ms": "2000000", "cleanup.policy": ("APPEND", "compact")}) == "OK"
    eventually(lambda: (value("retention.ms"), value("cleanup.policy")) == ("2000000", "delete,compact"))
    assert "InvalidConfiguration" in alter({"retention.ms": "soon"})
    assert alter({"retention.ms": "3000000"}, incremental=False) == "OK"
    eventually(lambda: value("retention.ms") == "3000000")
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": None})])
    eventually(lambda: value("retention.ms") is None)
    assert topic in admin.list_config_resources(["TOPIC"])["topic"]
    (first,) = admin.describe_topic_partitions([topic], response_partition_limit=2)["topics"]
    assert [partition["partition_index"] for partition in first["partitions"]] == [0, 1]


def test_offsets_records_and_log_directories(broker: Broker, admin: KafkaAdminClient, new_name: NewName) -> None:
    topic = new_name("kp")
    admin.create_topics([NewTopic(topic, 1, -1)])
    produce(broker, topic, 10)
    partition = TopicPartition(topic, 0)
    assert admin.delete_records({partition: 3})[partition]["low_watermark"] == 3
    specs = [OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP]
    offsets = [admin.list_partition_offsets({partition: spec})[partition].offset for spec in specs]
    assert offsets[:2] == [3, 10]
    assert 3 <= offsets[2] < 10
    directories = [directory for (directory,) in (found["log_dirs"] for found in admin.describe_log_dirs([topic]))]
    assert len(directories) == count_of(broker)
    assert all(found["topics"][0]["partitions"][0]["partition_size"] > 0 for found in directories)


def test_groups_are_administered(broker: Broker, admin: KafkaAdminClient, new_name: NewName) -> None:
    topic, group, static = new_name("kp"), new_name("group"), new_name("static")
    admin.create_topics([NewTopic(topic, 1, -1)])
    produce(broker, topic, 10)
    partition = TopicPartition(topic, 0)
    assert admin.alter_group_offsets(group, {partition: OffsetAndMetadata(4, "m", -1)}) == {partition: NoError}
    assert admin.list_group_offsets([group])[group][partition] == OffsetAndMetadata(4, "m", -1)
    assert admin.reset_group_offsets(group, {partition: OffsetSpec.LATEST})[partition]["offset"] == 10
    assert group in {found["group_id"] for found in admin.list_groups(states_filter=["Empty"])}
    assert group not in {found["group_id"] for found in admin.list_groups(types_filter=["consumer"])}
    assert admin.delete_group_offsets(group, [partition]) == {partition: NoError}
    member = consumer(broker, topic, static, group_instance_id="one", heartbeat_interval_ms=100)
    poll([member], 10)
    (described,) = admin.describe_groups([static])[static]["members"]
    assert described["group_instance_id"] == "one"
    assert admin.remove_group_members(static, [MemberToRemove(group_instance_id="one")]) == {"one": NoError}
    assert admin.describe_groups([static])[static]["group_state"] == "Empty"
    member.close(autocommit=False)
    assert admin.delete_groups([static, "nobody"])["nobody"] == "GroupIdNotFoundError"


def test_transactions_are_seen_and_their_records_only_when_committed(
    broker: Broker, admin: KafkaAdminClient, new_name: NewName
) -> None:
    topic, name = new_name("kp"), new_name("transaction")
    admin.create_topics([NewTopic(topic, 1, -1)])
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name)
    producer.init_transactions()
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction, None]):
        producer.begin_transaction()
        producer.send(topic, key=b"%d" % number, value=b"v").get(10)
        if end is not None:
            end()
    state = admin.describe_transactions([name])[name]
    assert (state.state.value, state.topic_partitions) == ("Ongoing", {TopicPartition(topic, 0)})
    assert name in {found.transactional_id for listed in admin.list_transactions().values() for found in listed}
    (active,) = admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].active_producers
    assert active.current_transaction_start_offset == 4
    producer.commit_transaction()
    producer.close()
    reader = consumer(broker, topic, new_name("group"), isolation_level="read_committed")
    assert poll([reader], 2) == {b"0": b"v", b"2": b"v"}
    reader.close()


def test_what_is_not_supported_says_so(broker: Broker, admin: KafkaAdminClient) -> None:
    if count_of(broker) > 1:
        assert admin.describe_metadata_quorum()
        return
    with pytest.raises(IncompatibleBrokerVersion, match="DescribeQuorum"):
        admin.describe_metadata_quorum()
