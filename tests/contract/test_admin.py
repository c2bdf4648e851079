"""AdminClient against a running broker: ours, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import AdminClient, NewTopic, Producer, TopicPartition
from barnabas.client.admin.configs import ConfigResource
from barnabas.client.admin.new_topic import NewPartitions
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import (
    GroupIdNotFoundError,
    IllegalStateError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    OffsetOutOfRangeError,
    TopicExistsError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from barnabas.protocol.kinds import ConfigSource, ConfigType
from tests.contract.waiting import eventually

NewName = Callable[[str], str]


def create(admin: AdminClient, topic: NewTopic) -> None:
    """Apache Kafka's broker knows a topic a moment after its controller has created it."""
    admin.create_topics([topic])
    eventually(lambda: topic.name in admin.list_topics())


# Topics


@pytest.mark.shows("S3.104", breaks="barnabas.client.admin.topics:ListTopicsHandler.handle_response")
def test_a_created_topic_is_listed_until_it_is_deleted(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    created = admin.create_topics([NewTopic(name, num_partitions=3, configs={"retention.ms": 60_000})])[name]
    assert created.num_partitions == 3
    assert created.replication_factor == 1
    assert created.configs is not None
    assert created.configs["retention.ms"].value == "60000"
    eventually(lambda: name in admin.list_topics())
    assert admin.list_topics()[name].topic_id == created.topic_id

    admin.delete_topics([name])
    eventually(lambda: name not in admin.list_topics())


@pytest.mark.shows("S3.105", breaks="barnabas.client.admin.topic_descriptions:_description")
def test_a_topic_is_described_by_name_and_by_id(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    create(admin, NewTopic(name, num_partitions=2))
    eventually(lambda: name in admin.list_topics())
    description = admin.describe_topics([name], timeout=20)[name]
    nodes = admin.describe_cluster().nodes
    assert [partition.partition for partition in description.partitions] == [0, 1]
    assert all(partition.leader in nodes for partition in description.partitions)
    assert all(partition.replicas == [partition.leader] for partition in description.partitions)
    assert not description.is_internal

    assert description.topic_id is not None
    by_id = admin.describe_topics([description.topic_id])[description.topic_id]
    # Only the request that takes names tells of eligible leaders.
    told = [partition._replace(elr=None, last_known_elr=None) for partition in description.partitions]
    assert by_id == description._replace(partitions=told)


def test_a_topic_of_many_partitions_is_described_in_many_responses(admin: AdminClient, new_name: NewName) -> None:
    names = [new_name("topic") for _ in range(2)]
    admin.create_topics([NewTopic(name, num_partitions=5) for name in names])
    eventually(lambda: len(admin.describe_topics(names, raise_errors=False)) == 2)
    whole = admin.describe_topics(names, include_authorized_operations=True)
    assert whole[names[0]].authorized_operations
    assert [partition.partition for partition in whole[names[0]].partitions] == [0, 1, 2, 3, 4]
    in_parts = admin.describe_topics(
        names, partition_size_limit_per_response=3, include_authorized_operations=True, raise_errors=False
    )
    assert dict(in_parts) == dict(whole)
    assert in_parts.errors == {}


def test_a_topic_is_deleted_by_its_id(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    topic_id = admin.create_topics([NewTopic(name)])[name].topic_id
    eventually(lambda: name in admin.list_topics())
    assert topic_id is not None
    admin.delete_topics([topic_id])
    eventually(lambda: name not in admin.list_topics())


def test_topics_that_do_not_exist_are_errors(admin: AdminClient, new_name: NewName) -> None:
    name, topic_id = new_name("topic"), b"\1" * 16
    for operation in (admin.describe_topics, admin.delete_topics):
        with pytest.raises(UnknownTopicOrPartitionError, match=name):
            operation([name])
        with pytest.raises(UnknownTopicIdError):
            operation([topic_id])


def test_describing_a_topic_does_not_create_it(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    assert name in admin.describe_topics([name], raise_errors=False).errors
    assert name not in admin.list_topics()


def test_what_cannot_be_created_says_why_and_the_rest_is_created(admin: AdminClient, new_name: NewName) -> None:
    good, existing = new_name("topic"), new_name("topic")
    create(admin, NewTopic(existing))
    results = admin.create_topics(
        [
            NewTopic(good, 1),
            NewTopic(existing, 1),
            NewTopic("not a name", 1),
            NewTopic(new_name("topic"), 0),
            NewTopic(new_name("topic"), 1, 5),
            NewTopic(new_name("topic"), configs={"retention.ms": "long"}),
            NewTopic(new_name("topic"), configs={"retention.mss": "5"}),
        ],
        raise_errors=False,
    )
    assert list(results) == [good]
    assert [type(error) for error in results.errors.values()] == [
        TopicExistsError,
        InvalidTopicError,
        InvalidPartitionsError,
        InvalidReplicationFactorError,
        InvalidConfigurationError,
        InvalidConfigurationError,
    ]


def test_validating_creates_nothing(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    admin.create_topics([NewTopic(name, 3)], validate_only=True)
    assert name not in admin.list_topics()


def test_replicas_can_be_placed(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    node = admin.describe_cluster().nodes[0]
    admin.create_topics([NewTopic(name, replica_assignments={0: [node.id], 1: [node.id]})])
    eventually(lambda: name in admin.describe_topics([name], raise_errors=False))
    assert [partition.leader for partition in admin.describe_topics([name])[name].partitions] == [node, node]


@pytest.mark.shows("S3.109", breaks="barnabas.client.admin.topics:CreatePartitionsHandler.build_request")
def test_partitions_can_be_added_but_not_taken_away(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    create(admin, NewTopic(name, 2))
    admin.create_partitions({name: 4})
    eventually(lambda: len(admin.describe_topics([name])[name].partitions) == 4)
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({name: NewPartitions(3)})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.create_partitions({new_name("topic"): 4})


# The cluster and its settings


@pytest.mark.shows("S3.101", breaks="barnabas.client.admin.cluster:DescribeClusterHandler.handle_response")
def test_the_cluster_is_described(admin: AdminClient, bootstrap_servers: str) -> None:
    cluster = admin.describe_cluster(timeout=10)
    assert cluster.cluster_id
    assert cluster.controller in cluster.nodes
    (node,) = cluster.nodes
    assert bootstrap_servers.rpartition(":")[2] == str(node.port)


@pytest.mark.shows("S3.102", breaks="barnabas.client.admin.configs:DescribeConfigsHandler.handle_response")
@pytest.mark.shows("S3.103", breaks="barnabas.client.admin.configs:ConfigEntry.from_described")
def test_every_setting_of_every_broker_is_described(admin: AdminClient) -> None:
    for node in admin.describe_cluster().nodes:
        resource = ConfigResource.broker(node.id)
        settings = admin.describe_configs([resource])[resource]
        assert settings["num.partitions"].value == "1"
        assert len(settings) > 100
        with pytest.raises(KeyError):
            settings["num.partitionss"]


def test_the_settings_of_a_topic_say_where_they_come_from(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    admin.create_topics([NewTopic(name, configs={"retention.ms": 5})])
    resource = ConfigResource.topic(name)
    eventually(lambda: resource in admin.describe_configs([resource], raise_errors=False))
    settings = admin.describe_configs([resource])[resource]
    assert (settings["retention.ms"].value, settings["retention.ms"].source) == ("5", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert settings["segment.ms"].value == "604800000"
    assert settings["segment.ms"].is_default
    assert settings["segment.ms"].type is ConfigType.LONG
    assert (settings["segment.ms"].synonyms, settings["segment.ms"].documentation) == ((), None)
    told = admin.describe_configs([resource], include_synonyms=True, include_documentation=True)[resource]
    assert told["retention.ms"].synonyms[:2] == (
        ("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "-1", ConfigSource.STATIC_BROKER_CONFIG),
    )
    assert told["segment.ms"].documentation


# Offsets and groups


def test_an_empty_partition_begins_and_ends_at_zero(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    create(admin, NewTopic(name, 2))
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    offsets = admin.list_offsets({first: OffsetSpec.EARLIEST, second: OffsetSpec.LATEST})
    assert (offsets[first].offset, offsets[second].offset) == (0, 0)
    assert admin.list_offsets({first: 1_000})[first].offset == -1


def test_records_before_an_offset_are_deleted(admin: AdminClient, bootstrap_servers: str, new_name: NewName) -> None:
    name = new_name("topic")
    create(admin, NewTopic(name, 3))
    some, whole, beyond = (TopicPartition(name, number) for number in range(3))
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(10):
            producer.send(name, b"%d" % number, partition=number % 2)

    results = admin.delete_records({some: 3, whole: -1, beyond: 100}, raise_errors=False)

    assert dict(results) == {some: 3, whole: 5}
    assert isinstance(results.errors[beyond], OffsetOutOfRangeError)
    offsets = admin.list_offsets({some: OffsetSpec.EARLIEST, whole: OffsetSpec.EARLIEST})
    assert (offsets[some].offset, offsets[whole].offset) == (3, 5)


@pytest.mark.shows("S3.106", breaks="barnabas.client.admin.groups:_listing")
def test_a_group_with_offsets_is_listed_described_and_deleted(admin: AdminClient, new_name: NewName) -> None:
    name, group = new_name("topic"), new_name("group")
    create(admin, NewTopic(name, 2))
    partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    eventually(lambda: name in admin.describe_topics([name], raise_errors=False))

    admin.alter_consumer_group_offsets(group, {partitions[0]: OffsetAndMetadata(0, "note"), partitions[1]: 0})
    assert admin.list_consumer_group_offsets(group) == {
        partitions[0]: OffsetAndMetadata(0, "note"),
        partitions[1]: OffsetAndMetadata(0),
    }
    assert admin.list_consumer_group_offsets(group, partitions[:1]).keys() == {partitions[0]}
    assert admin.list_groups(timeout=20)[group].state == "Empty"
    assert group not in admin.list_groups(states=["Stable"])
    description = admin.describe_groups([group])[group]
    assert (description.state, description.members) == ("Empty", [])

    admin.delete_consumer_group_offsets(group, partitions[1:])
    assert admin.list_consumer_group_offsets(group).keys() == {partitions[0]}
    admin.delete_groups([group])
    assert group not in admin.list_groups()
    assert admin.list_consumer_group_offsets(group) == {}


def test_a_group_that_does_not_exist_cannot_be_deleted(admin: AdminClient, new_name: NewName) -> None:
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_groups([new_name("group")])


# Its life


@pytest.mark.shows("S3.107", breaks="barnabas.client.admin.admin_operations:AdminOperations.close")
def test_it_is_closed_at_the_end(bootstrap_servers: str) -> None:
    with AdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.list_topics()
    with pytest.raises(IllegalStateError, match="closed"):
        admin.list_topics()


@pytest.mark.shows("S3.100", breaks="barnabas.client.admin.topic_operations:TopicOperations.create_topics")
def test_an_admin_client_is_made_of_settings_and_reads_and_changes_the_cluster(
    bootstrap_servers: str, new_name: NewName
) -> None:
    name = new_name("topic")
    with AdminClient({"bootstrap.servers": bootstrap_servers, "client.id": "mine"}) as admin:
        create(admin, NewTopic(name))
        eventually(lambda: name in admin.list_topics())
        admin.delete_topics([name])
        eventually(lambda: name not in admin.list_topics())
