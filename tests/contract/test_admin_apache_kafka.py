"""What AdminClient does that our own broker does not serve, against Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, Producer, TopicPartition
from barnabas.client.admin.acls import AclBinding, AclBindingFilter
from barnabas.client.admin.client_quotas import ClientQuotaEntity
from barnabas.client.admin.configs import ConfigEntry, ConfigResource
from barnabas.client.admin.groups import GroupType
from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.client.admin.quorum import RaftVoterEndpoint
from barnabas.client.admin.scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.errors import (
    BrokerIdNotRegisteredError,
    FencedStateEpochError,
    GroupIdNotFoundError,
    InvalidRequestError,
    KafkaError,
    LogDirNotFoundError,
    ResourceNotFoundError,
    ThrottlingQuotaExceededError,
    UnacceptableCredentialError,
    UnsupportedByAuthenticationError,
    UnsupportedVersionError,
)
from barnabas.protocol import kafka_uuid
from barnabas.protocol.kinds import (
    AclOperation,
    AclPermissionType,
    ConfigResourceType,
    ConfigSource,
    PatternType,
    ResourceType,
)
from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient

PEERS = ["apache-kafka"]
NewName = Callable[[str], str]


@pytest.fixture
def connection(bootstrap_servers: str, admin: AdminClient) -> Iterator[SocketClient]:
    """Speaks for members of groups whose clients we do not have."""
    admin.list_consumer_group_offsets("any")  # a new cluster makes its coordinator when one is first asked for
    with SocketClient(bootstrap_servers) as client:
        yield client


def test_acls_are_created_found_and_deleted(admin: AdminClient, new_name: NewName) -> None:
    name = new_name("topic")
    read = AclBinding(ResourceType.TOPIC, name, "User:alice", AclOperation.READ)
    write = AclBinding(
        ResourceType.TOPIC, name[:-1], "User:bob", AclOperation.WRITE, AclPermissionType.DENY, "10.0.0.1",
        PatternType.PREFIXED,
    )  # fmt: skip
    impossible = AclBinding(ResourceType.TOPIC, name, "alice", AclOperation.READ)
    results = admin.create_acls([read, write, impossible], raise_errors=False)
    assert list(results) == [read, write]
    assert isinstance(results.errors[impossible], InvalidRequestError)

    applies = AclBindingFilter(ResourceType.TOPIC, name, pattern_type=PatternType.MATCH)
    eventually(lambda: set(admin.describe_acls(applies)) == {read, write})
    assert {read, write} <= set(admin.describe_acls())
    of_bob = AclBindingFilter(principal="User:bob", resource_name=name[:-1])
    nobody = AclBindingFilter(principal="User:nobody")
    assert dict(admin.delete_acls([of_bob, nobody])) == {of_bob: [write], nobody: []}
    eventually(lambda: admin.describe_acls(applies) == [read])
    admin.delete_acls([applies])


def test_scram_credentials_are_set_described_and_deleted(admin: AdminClient, new_name: NewName) -> None:
    alice, bob, weak = new_name("alice"), new_name("bob"), new_name("weak")
    results = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(alice, "secret"),
            UserScramCredentialUpsertion(bob, b"secret", ScramMechanism.SCRAM_SHA_512, 8192),
            UserScramCredentialUpsertion(weak, "secret", iterations=10),
        ],
        raise_errors=False,
    )
    assert list(results) == [alice, bob]
    assert isinstance(results.errors[weak], UnacceptableCredentialError)
    expected = {
        alice: [ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)],
        bob: [ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)],
    }
    eventually(lambda: dict(admin.describe_user_scram_credentials([alice, bob], raise_errors=False)) == expected)
    assert {alice, bob} <= set(admin.describe_user_scram_credentials())
    with pytest.raises(ResourceNotFoundError, match=weak):
        admin.describe_user_scram_credentials([weak])

    admin.alter_user_scram_credentials([UserScramCredentialDeletion(bob, ScramMechanism.SCRAM_SHA_512)])
    eventually(lambda: bob not in admin.describe_user_scram_credentials())


def test_a_quota_on_changes_to_the_cluster_is_told_at_once_or_waited_for(
    bootstrap_servers: str, admin: AdminClient, new_name: NewName
) -> None:
    client_id = new_name("client")
    admin.alter_client_quotas({ClientQuotaEntity.of(client_id=client_id): {"controller_mutation_rate": 2.0}})
    with AdminClient(bootstrap_servers=bootstrap_servers, client_id=client_id) as throttled:

        def is_refused() -> bool:
            try:
                throttled.create_topics([NewTopic(new_name("topic"), 24)], retry_on_quota_violation=False)
            except ThrottlingQuotaExceededError as error:
                return error.throttle_time_ms > 0
            return False

        eventually(is_refused)  # the quota holds a moment later, and the first 22 changes are for free
        assert throttled.create_topics([NewTopic(new_name("topic"), 1)])


def test_tokens_are_refused_to_those_who_did_not_authenticate(admin: AdminClient) -> None:
    with pytest.raises(UnsupportedByAuthenticationError):
        admin.create_delegation_token(renewers=["User:bob"], max_lifetime=3600)
    with pytest.raises(UnsupportedByAuthenticationError):
        admin.renew_delegation_token(b"?", renew_period=60)
    with pytest.raises(UnsupportedByAuthenticationError):
        admin.expire_delegation_token(b"?")
    with pytest.raises(UnsupportedByAuthenticationError):
        admin.describe_delegation_token()


def test_the_metadata_quorum_is_described(admin: AdminClient) -> None:
    node = admin.describe_cluster().nodes[0].id
    quorum = admin.describe_metadata_quorum()
    assert quorum.leader_id == node
    assert [voter.replica_id for voter in quorum.voters] == [node]
    assert quorum.voters[0].log_end_offset >= quorum.high_watermark > 0
    assert quorum.observers == []


def test_the_voters_of_a_fixed_quorum_stay(admin: AdminClient) -> None:
    directory = kafka_uuid.random_uuid(Random(1))
    endpoint = RaftVoterEndpoint("CONTROLLER", "localhost", 9)
    with pytest.raises(UnsupportedVersionError):
        admin.add_raft_voter(5, directory, [endpoint])
    with pytest.raises(UnsupportedVersionError):
        admin.remove_raft_voter(5, directory)


def test_a_broker_that_never_was_cannot_be_unregistered(admin: AdminClient) -> None:
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(98765)


def test_the_level_of_a_logger_is_set_at_its_broker(admin: AdminClient) -> None:
    node = admin.describe_cluster().nodes[0].id
    loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, str(node))

    def root() -> ConfigEntry:
        return admin.describe_configs([loggers])[loggers]["root"]

    before = root()
    assert before.source == ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    for level in ("TRACE" if before.value != "TRACE" else "FATAL", before.value):
        admin.incremental_alter_configs({loggers: {"root": level}})
        assert root().value == level
    with pytest.raises(InvalidRequestError, match="root"):
        admin.incremental_alter_configs({loggers: {"root": None}})


def test_replicas_move_only_to_directories_that_there_are(admin: AdminClient, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    here, there = TopicPartitionReplica(topic, 0, node), TopicPartitionReplica(topic, 1, node)
    eventually(lambda: all(at.current_log_dir for at in admin.describe_replica_log_dirs([here, there]).values()))
    path = admin.describe_replica_log_dirs([here])[here].current_log_dir
    assert path is not None
    directory = admin.describe_log_dirs([node])[node][path]
    assert (directory.error, directory.is_cordoned) == (None, False)
    assert 0 < directory.usable_bytes < directory.total_bytes
    results = admin.alter_replica_log_dirs({here: path, there: "/nowhere"}, raise_errors=False)
    assert list(results) == [here]
    assert isinstance(results.errors[there], LogDirNotFoundError)


def moved(admin: AdminClient, group: str, offsets: dict[TopicPartition, int]) -> bool:
    """Move a share group's offsets; not while the broker still writes what the group begins with, after a heartbeat."""
    try:
        admin.alter_share_group_offsets(group, offsets)
    except FencedStateEpochError:
        return False
    return True


def test_a_share_group_and_its_offsets(
    admin: AdminClient, connection: SocketClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    group, partition = new_name("share"), TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for _ in range(5):
            producer.send(topic, value=b"1", partition=0)
    member = kafka_uuid.to_text(kafka_uuid.random_uuid(Random()))
    joined = connection.request(
        ShareGroupHeartbeatRequest(group_id=group, member_id=member, subscribed_topic_names=[topic]), 1
    )
    assert joined.error_code == 0, joined
    eventually(lambda: len(admin.describe_share_groups([group])[group].members) == 1)
    described = admin.describe_share_groups([group], include_authorized_operations=True)[group]
    assert described.members[0].subscribed_topics == [topic]
    assert described.authorized_operations is not None
    assert admin.list_groups(types=["share"])[group].protocol_type == "share"

    left = ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1)
    assert connection.request(left, 1).error_code == 0
    eventually(lambda: admin.describe_share_groups([group])[group].members == [])
    eventually(lambda: moved(admin, group, {partition: 3}))
    found = admin.list_share_group_offsets({group: None})[group]
    assert found[partition].start_offset == 3
    admin.delete_share_group_offsets(group, [topic])
    assert partition not in admin.list_share_group_offsets({group: None})[group]
    admin.delete_share_groups([group])
    with pytest.raises(GroupIdNotFoundError):
        admin.describe_share_groups([group])


def test_a_group_of_kafka_streams(admin: AdminClient, connection: SocketClient, new_name: NewName, topic: str) -> None:
    group, member = new_name("streams"), kafka_uuid.to_text(kafka_uuid.random_uuid(Random()))
    heartbeat = StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        process_id="process",
        rebalance_timeout_ms=60000,
        topology=Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        client_tags=[],
    )
    joined = connection.request(heartbeat, 0)
    assert joined.error_code == 0, joined
    described: Any = admin.describe_streams_groups([group], include_authorized_operations=True)[group]
    assert [part.source_topics for part in described.subtopologies] == [[topic]]
    assert [streams.process_id for streams in described.members] == ["process"]
    assert described.coordinator == admin.describe_cluster().nodes[0]
    assert described.members[0].target_assignment is not None
    assert admin.list_groups(types=[GroupType.STREAMS])[group].state == described.state
    connection.request(StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=-1), 0)
    eventually(lambda: admin.describe_streams_groups([group])[group].members == [])
    admin.alter_streams_group_offsets(group, {TopicPartition(topic, 0): 7})
    assert admin.list_streams_group_offsets({group: None})[group][TopicPartition(topic, 0)].offset == 7
    admin.delete_streams_group_offsets(group, [TopicPartition(topic, 0)])
    assert admin.list_streams_group_offsets({group: [TopicPartition(topic, 0)]})[group] == {}
    admin.delete_streams_groups([group])
    with pytest.raises(KafkaError):
        admin.describe_streams_groups([group])
