"""What AdminClient does beyond topics and consumer groups, against a running broker: ours, and Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.client.admin.client_quotas import ClientQuotaEntity, ClientQuotaFilterComponent
from barnabas.client.admin.configs import ConfigResource
from barnabas.client.admin.groups import GroupState, GroupType, MemberToRemove
from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.client.admin.transactions import AbortTransactionSpec, TransactionState
from barnabas.errors import (
    ElectionNotNeededError,
    GroupIdNotFoundError,
    IllegalArgumentError,
    InvalidReplicaAssignmentError,
    InvalidUpdateVersionError,
    NoReassignmentInProgressError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from barnabas.protocol.kinds import AclOperation, ConfigResourceType, ElectionType
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient

NewName = Callable[[str], str]


# The cluster


def test_the_cluster_tells_what_the_caller_may_do(admin: AdminClient) -> None:
    described = admin.describe_cluster(include_fenced_brokers=True, include_authorized_operations=True)
    assert described.fenced == frozenset()
    assert described.authorized_operations is not None
    assert {AclOperation.CREATE, AclOperation.ALTER_CONFIGS} <= described.authorized_operations
    assert admin.describe_cluster().authorized_operations is None


def test_features_are_described_and_cannot_be_raised_beyond_what_is_supported(admin: AdminClient) -> None:
    features = admin.describe_features()
    assert features.finalized["group.version"].max_version == 1
    assert features.supported["transaction.version"].max_version >= 2
    node = admin.describe_cluster().nodes[0].id
    assert admin.describe_features(node_id=node).supported == features.supported
    too_high = features.supported["group.version"].max_version + 1
    with pytest.raises(InvalidUpdateVersionError):
        admin.update_features({"group.version": too_high}, validate_only=True)


def test_an_operation_that_no_broker_offers_names_api_and_broker(bootstrap_servers: str) -> None:
    # A broker without a telemetry plug-in does not offer the API.
    with (
        AdminClient(bootstrap_servers=bootstrap_servers, enable_metrics_push=True) as admin,
        pytest.raises(UnsupportedVersionError) as raised,
    ):
        admin.client_instance_id()
    assert bootstrap_servers in str(raised.value)
    assert "GET_TELEMETRY_SUBSCRIPTIONS" in str(raised.value)


# Settings and quotas


def test_resources_with_settings_are_listed(admin: AdminClient, new_name: NewName, topic: str) -> None:
    subscription = ConfigResource.client_metrics(new_name("metrics"))
    group = ConfigResource.group(new_name("group"))
    admin.incremental_alter_configs(
        {subscription: {"interval.ms": 1000}, group: {"consumer.session.timeout.ms": 46000}}
    )
    eventually(lambda: subscription in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]))
    eventually(lambda: group in admin.list_config_resources([ConfigResourceType.GROUP]))
    assert ConfigResource.topic(topic) in admin.list_config_resources()
    assert admin.describe_configs([subscription])[subscription]["interval.ms"].value == "1000"

    admin.incremental_alter_configs({subscription: {"interval.ms": None}})
    eventually(lambda: subscription not in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]))


def test_quotas_are_set_found_and_removed(admin: AdminClient, new_name: NewName) -> None:
    user = new_name("user")
    both = ClientQuotaEntity.of(user=user, client_id="app")
    alone = ClientQuotaEntity.of(user=user)
    admin.alter_client_quotas({both: {"producer_byte_rate": 1e6}, alone: {"request_percentage": 50}})
    of_user = [ClientQuotaFilterComponent.of_entity("user", user)]
    wanted = {both: {"producer_byte_rate": 1e6}, alone: {"request_percentage": 50.0}}
    eventually(lambda: admin.describe_client_quotas(of_user) == wanted)
    assert admin.describe_client_quotas(of_user, strict=True) == {alone: {"request_percentage": 50.0}}

    admin.alter_client_quotas({both: {"producer_byte_rate": None}, alone: {"request_percentage": None}})
    eventually(lambda: admin.describe_client_quotas(of_user) == {})


# Partitions


def test_log_directories_show_where_replicas_are(admin: AdminClient, topic: str) -> None:
    node = admin.describe_cluster().nodes[0].id
    partition = TopicPartition(topic, 0)
    here, nowhere = TopicPartitionReplica(topic, 0, node), TopicPartitionReplica(topic, 99, node)
    # Apache Kafka makes the log a moment after it knows the topic.
    eventually(lambda: admin.describe_replica_log_dirs([here])[here].current_log_dir)
    ((path, directory),) = admin.describe_log_dirs([node], [partition])[node].items()
    assert directory.error is None
    assert directory.usable_bytes > 0
    assert list(directory.replica_infos) == [partition]
    found = admin.describe_replica_log_dirs([here, nowhere])
    assert found[here].current_log_dir == path
    assert found[nowhere].current_log_dir is None


def test_leaders_are_elected_where_it_is_needed(admin: AdminClient, topic: str) -> None:
    known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 99)
    results = admin.elect_leaders(ElectionType.PREFERRED, [known, unknown], raise_errors=False)
    assert isinstance(results.errors[known], ElectionNotNeededError)
    assert isinstance(results.errors[unknown], UnknownTopicOrPartitionError)
    assert TopicPartition(topic, 1) not in admin.elect_leaders(ElectionType.PREFERRED).errors


def test_replicas_cannot_move_to_a_broker_that_is_not_there(admin: AdminClient, topic: str) -> None:
    here, moving = TopicPartition(topic, 0), TopicPartition(topic, 1)
    node = admin.describe_cluster().nodes[0].id
    results = admin.alter_partition_reassignments({here: [node], moving: [98765]}, raise_errors=False)
    assert here in results
    assert isinstance(results.errors[moving], InvalidReplicaAssignmentError)
    with pytest.raises(NoReassignmentInProgressError):
        admin.alter_partition_reassignments({moving: None})
    eventually(lambda: admin.list_partition_reassignments([here, moving]) == {})


# Groups


def test_groups_are_listed_by_protocol_and_their_offsets_by_group(
    admin: AdminClient, new_name: NewName, topic: str
) -> None:
    first, second = new_name("group"), new_name("group")
    partition = TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets(first, {partition: 3})
    admin.alter_consumer_group_offsets(second, {partition: 4})
    found = admin.list_offsets_of_groups({first: None, second: [partition]})
    assert {group: offsets[partition].offset for group, offsets in found.items()} == {first: 3, second: 4}
    listed = admin.list_groups(states=[GroupState.EMPTY], types=[GroupType.CLASSIC])[first]
    assert (listed.state, listed.type, listed.is_simple_consumer_group) == (GroupState.EMPTY, GroupType.CLASSIC, True)
    assert admin.describe_consumer_groups([first])[first].is_simple_consumer_group
    assert first not in admin.list_groups(protocol_types=["consumer"])
    assert first in admin.list_groups(protocol_types=[""])
    assert set(admin.delete_consumer_groups([first, second])) == {first, second}


def test_a_group_of_workers_is_described_among_classic_groups_and_not_among_consumers(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName
) -> None:
    group = new_name("connect")
    admin.list_consumer_group_offsets(group)  # a new cluster makes its coordinator when one is first asked for
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="connect",
        protocols=[JoinGroupRequestProtocol(name="sessioned", metadata=b"")],
    )
    with SocketClient(bootstrap_servers) as worker:
        joined = worker.request(join, 3)
        assert joined.error_code == 0, joined
        described = admin.describe_classic_groups([group], include_authorized_operations=True)[group]
        assert (described.protocol_type, described.type) == ("connect", GroupType.CLASSIC)
        assert described.state == GroupState.COMPLETING_REBALANCE
        assert [(member.member_id, member.assignment) for member in described.members] == [(joined.member_id, [])]
        assert described.coordinator == admin.describe_cluster().nodes[0]
        assert described.authorized_operations is not None
        assert admin.describe_groups([group])[group].protocol_type == "connect"
        with pytest.raises(IllegalArgumentError, match="not a consumer group"):
            admin.describe_consumer_groups([group])
        with pytest.raises(GroupIdNotFoundError):
            admin.describe_classic_groups([new_name("nobody")])


def test_members_are_described_and_made_to_leave(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    group = new_name("group")
    with Consumer(topic, group_id=group, group_instance_id="one", bootstrap_servers=bootstrap_servers) as consumer:
        eventually(lambda: consumer.poll(0.1) is not None and consumer.assignment())
        described = admin.describe_groups([group], include_authorized_operations=True)[group]
        assert [member.group_instance_id for member in described.members] == ["one"]
        assert (described.type, described.is_simple_consumer_group) == (GroupType.CLASSIC, False)
        assert described.coordinator == admin.describe_cluster().nodes[0]
        assert described.authorized_operations is not None
        assert AclOperation.READ in described.authorized_operations

        stranger = MemberToRemove("two")
        removed = admin.remove_members_from_consumer_group(
            group, [MemberToRemove("one"), stranger], reason="a test", raise_errors=False
        )
        assert list(removed) == [MemberToRemove("one")]
        assert isinstance(removed.errors[stranger], UnknownMemberIdError)
        assert admin.describe_groups([group])[group].members == []


def test_all_members_are_made_to_leave(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    group = new_name("group")
    with Consumer(topic, group_id=group, bootstrap_servers=bootstrap_servers) as consumer:
        eventually(lambda: consumer.poll(0.1) is not None and consumer.assignment())
        (member,) = admin.remove_members_from_consumer_group(group)
        assert member.member_id
        assert admin.describe_groups([group])[group].state == "Empty"
        assert not admin.remove_members_from_consumer_group(group)


# Transactions


def test_a_transaction_is_listed_described_and_its_producer_fenced(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    name = new_name("transaction")
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"1", partition=0).result(10)
        described = admin.describe_transactions([name])[name]
        assert (described.state, described.topic_partitions) == ("Ongoing", {partition})
        assert described.start_time_ms > 0
        listed = admin.list_transactions(states=[TransactionState.ONGOING])[name]
        assert listed == (name, described.producer_id, TransactionState.ONGOING, described.coordinator_id)
        assert name not in admin.list_transactions(states=["Empty"])
        assert name not in admin.list_transactions(longer_than=3600)
        assert list(admin.list_transactions(transactional_id_pattern=f"{name}.*")) == [name]
        (writer,) = admin.describe_producers([partition])[partition]
        assert (writer.producer_id, writer.current_transaction_start_offset) == (described.producer_id, 0)

        fenced = admin.fence_producers([name])[name]
        assert (fenced.producer_id, fenced.epoch) > (described.producer_id, described.producer_epoch)
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    eventually(lambda: admin.describe_transactions([name])[name].state in ("Empty", "CompleteAbort"))


def test_an_open_transaction_is_ended_by_force(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    name = new_name("transaction")
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"1", partition=1).result(10)
        admin.force_terminate_transaction(name)
        with pytest.raises(ProducerFencedError):
            producer.commit_transaction()
    with pytest.raises(TransactionalIdNotFoundError):
        admin.describe_transactions([new_name("transaction")])


def test_a_transaction_that_hangs_in_a_partition_is_aborted(
    admin: AdminClient, bootstrap_servers: str, new_name: NewName, topic: str
) -> None:
    name = new_name("transaction")
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=bootstrap_servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"1", partition=0).result(10)
        (writer,) = admin.describe_producers([partition])[partition]
        spec = AbortTransactionSpec(
            partition, writer.producer_id, writer.producer_epoch, max(writer.coordinator_epoch, 0)
        )
        admin.abort_transaction(spec)
        (writer,) = admin.describe_producers([partition])[partition]
        assert writer.current_transaction_start_offset == -1
        producer.abort_transaction()
