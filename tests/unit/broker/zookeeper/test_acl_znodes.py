"""ACLs in ZooKeeper: the znodes of an AclAuthorizer of 3.9 are read, followed and written as it writes them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.zookeeper import acl_znodes
from barnabas.broker.zookeeper.acl_znodes import Pattern
from barnabas.broker.zookeeper.operations import Create, Delete, SetData
from barnabas.broker.zookeeper.znodes import MalformedZnodeError
from barnabas.errors import ConfigError
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition_request import AlterPartitionRequest
from barnabas.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls_request import DescribeAclsRequest
from barnabas.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from barnabas.protocol.messages.stop_replica_request import StopReplicaRequest
from barnabas.protocol.messages.update_metadata_request import UpdateMetadataRequest
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ZooKeeperBroker
from tests.unit.broker.zookeeper.test_znodes import TREE, data

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
FLIGHTS = Pattern(ResourceType.TOPIC, "flights", LITERAL)
PATH = "/kafka-acl/Topic/flights"
READS = AclBinding(ResourceType.TOPIC, "flights", LITERAL, "User:alice", "*", Op.READ, ALLOW)
WRITES = READS._replace(operation=Op.WRITE)


def broker(zookeeper: ModelZooKeeper | None = None) -> ZooKeeperBroker:
    return ZooKeeperBroker(zookeeper, SETTINGS).register()


def others_write(found: ZooKeeperBroker, pattern: Pattern, *acls: AclBinding) -> None:
    """Have another broker change the ACLs of a resource."""
    found.zookeeper.put(acl_znodes.acl_path(pattern), acl_znodes.encode_acls(acls))
    folder, announced = acl_znodes.encode_change(pattern)
    found.zookeeper.carry_out(0, Create(f"{folder}/acl_changes_", announced, sequential=True))
    found.zookeeper.deliver()


def allows(found: ZooKeeperBroker, principal: str, operation: int, name: str) -> bool:
    authorization = found.node.state.authorization
    assert authorization is not None
    return authorization.authorizer.allows(principal, "127.0.0.1", operation, ResourceType.TOPIC, name)


def created(found: ZooKeeperBroker, *acls: AclBinding) -> Any:
    request = CreateAclsRequest(
        creations=[AclCreation(a[0], a[1], a[2], a[3], a[4], a[5], a[6]) for a in acls],
    )
    client = found.connect()
    client.request(request, 3)
    found.zookeeper.deliver()
    found.node.core.settle(found.instant)
    return client.responses[-1]


def deleted(found: ZooKeeperBroker, **wanted: Any) -> Any:
    given = {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "principal_filter": None,
        "host_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "operation": Op.ANY,
        "permission_type": AclPermissionType.ANY,
        **wanted,
    }
    client = found.connect()
    client.request(DeleteAclsRequest(filters=[DeleteAclsFilter(**given)]), 3)
    found.zookeeper.deliver()
    found.node.core.settle(found.instant)
    return client.responses[-1]


# -- what stands there -----------------------------------------------------------------------------------------------


def test_acls_and_their_announcements_are_written_as_kafka_wrote_them() -> None:
    prefixed = Pattern(ResourceType.TOPIC, "fl", PREFIXED)
    for pattern in (FLIGHTS, prefixed):
        path = acl_znodes.acl_path(pattern)
        assert acl_znodes.encode_acls(acl_znodes.decode_acls(pattern, data(path))) == data(path)
        folder, announced = acl_znodes.encode_change(pattern)
        assert announced == data(f"{folder}/acl_changes_0000000000")
        assert acl_znodes.decode_change(f"{folder}/acl_changes_0000000000", announced) == pattern
    assert acl_znodes.decode_acls(FLIGHTS, data(PATH)) == {READS}


def test_all_that_kafka_makes_for_acls_is_made() -> None:
    found = broker()
    expected = {path for path, value in TREE.items() if path.startswith("/kafka-acl") and value is None}
    assert len(expected) > 12
    assert expected <= {path for path in found.zookeeper.nodes if path.startswith("/kafka-acl")}


@pytest.mark.parametrize("kind", ["TransactionalId", "DelegationToken", "Cluster", "User", "Group"])
def test_every_kind_of_resource_has_kafkas_name(kind: str) -> None:
    pattern = Pattern(ResourceType[{"TransactionalId": "TRANSACTIONAL_ID", "DelegationToken": "DELEGATION_TOKEN"}.get(
        kind, kind.upper())], "x", LITERAL)  # fmt: skip
    assert acl_znodes.acl_path(pattern) == f"/kafka-acl/{kind}/x"


@pytest.mark.parametrize("operation", [one for one in Op if one not in (Op.UNKNOWN, Op.ANY)])
def test_operations_have_kafkas_names(operation: Op) -> None:
    acl = READS._replace(operation=operation)
    assert acl_znodes.decode_acls(FLIGHTS, acl_znodes.encode_acls([acl])) == {acl}
    if operation is Op.DESCRIBE_CONFIGS:
        assert b'"operation":"DescribeConfigs"' in acl_znodes.encode_acls([acl])


@pytest.mark.parametrize("content", [b"x", b"[]", b"{}", b'{"acls":[{}]}', b'{"acls":[{"principal":"User:a"}]}'])
def test_what_kafka_does_not_write_is_an_error_that_names_the_znode(content: bytes) -> None:
    with pytest.raises(MalformedZnodeError, match=PATH):
        acl_znodes.decode_acls(FLIGHTS, content)
    with pytest.raises(MalformedZnodeError, match="acl_changes_0"):
        acl_znodes.decode_change("/kafka-acl-extended-changes/acl_changes_0", content)


# -- what a broker makes of it ---------------------------------------------------------------------------------------


def test_acls_decide_from_the_start_and_follow_what_others_change() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.put(PATH, data(PATH))
    found = broker(zookeeper)
    assert allows(found, "User:alice", Op.READ, "flights")
    assert not allows(found, "User:alice", Op.WRITE, "flights")
    others_write(found, FLIGHTS, READS, WRITES)
    assert allows(found, "User:alice", Op.WRITE, "flights")
    others_write(found, Pattern(ResourceType.TOPIC, "fl", PREFIXED), READS._replace(
        resource_name="fl", pattern_type=PREFIXED, permission=DENY))  # fmt: skip
    assert not allows(found, "User:alice", Op.READ, "flights")
    found.zookeeper.carry_out(0, Delete(PATH))
    others = acl_znodes.encode_change(FLIGHTS)
    found.zookeeper.carry_out(0, Create(f"{others[0]}/acl_changes_", others[1], sequential=True))
    found.zookeeper.deliver()
    assert not allows(found, "User:alice", Op.WRITE, "flights")


def test_acls_that_changed_while_zookeeper_was_away_are_read_when_it_is_back() -> None:
    found = broker()
    others_write(found, FLIGHTS, READS)
    found.session.disconnect()
    found.zookeeper.put(PATH, acl_znodes.encode_acls([WRITES]))
    found.session.connect()
    found.zookeeper.deliver()
    assert allows(found, "User:alice", Op.WRITE, "flights")
    assert not allows(found, "User:alice", Op.READ, "flights")


def test_created_acls_are_written_announced_and_in_force_when_the_client_is_answered() -> None:
    found = broker()
    response = created(found, READS, WRITES, READS)
    assert [result.error_code for result in response.results] == [0, 0, 0]
    assert acl_znodes.decode_acls(FLIGHTS, found.zookeeper.nodes[PATH].data) == {READS, WRITES}
    assert found.zookeeper.nodes["/kafka-acl-changes/acl_changes_0000000000"].data == b"TOPIC:flights"
    assert len(found.zookeeper.nodes["/kafka-acl-changes"].children) == 1
    assert allows(found, "User:alice", Op.WRITE, "flights")
    again = found.connect().request(
        DescribeAclsRequest(
            resource_type_filter=ResourceType.TOPIC,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
            pattern_type_filter=PatternType.ANY,
            operation=Op.ANY,
            permission_type=AclPermissionType.ANY,
        ),
        3,
    )
    assert [len(one.acls) for one in again.resources] == [2]


def test_deleted_acls_leave_their_znode_and_the_last_takes_it_along() -> None:
    found = broker()
    created(found, READS, WRITES)
    response = deleted(found, operation=Op.READ)
    assert [acl.operation for acl in response.filter_results[0].matching_acls] == [Op.READ]
    assert acl_znodes.decode_acls(FLIGHTS, found.zookeeper.nodes[PATH].data) == {WRITES}
    deleted(found)
    assert PATH not in found.zookeeper.nodes
    assert not allows(found, "User:alice", Op.WRITE, "flights")


def test_what_another_broker_writes_in_between_is_not_lost() -> None:
    """The znode's version decides: the change is made again on what is there then."""
    found = broker()
    created(found, READS)
    client = found.connect()
    client.request(
        CreateAclsRequest(creations=[AclCreation(*WRITES[:7])]), 3,
    )  # fmt: skip
    # It has read the znode, and another is quicker to write.
    theirs = READS._replace(principal="User:bob")
    found.zookeeper.carry_out(0, SetData(PATH, acl_znodes.encode_acls([READS, theirs])))
    found.zookeeper.deliver()
    found.node.core.settle(found.instant)
    assert client.responses[-1].results[0].error_code == 0
    assert acl_znodes.decode_acls(FLIGHTS, found.zookeeper.nodes[PATH].data) == {READS, theirs, WRITES}


def test_a_resource_that_cannot_be_a_znode_is_refused_and_says_why() -> None:
    found = broker()
    response = created(found, READS._replace(resource_type=ResourceType.GROUP, resource_name="a/b"))
    assert response.results[0].error_code == 42
    assert "znode" in response.results[0].error_message
    assert not found.zookeeper.nodes["/kafka-acl/Group"].children


def test_without_an_authorizer_acls_are_neither_made_nor_read() -> None:
    found = ZooKeeperBroker().register()
    assert created(found, READS).results[0].error_code == 54
    assert "/kafka-acl" not in found.zookeeper.nodes


def test_a_broker_without_zookeeper_has_no_acl_authorizer() -> None:
    from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
    from barnabas.broker.metadata.memory_store import MemoryStore
    from barnabas.broker.security.authorization import make_authorization

    with pytest.raises(ConfigError, match="keeps ACLs in ZooKeeper"):
        make_authorization(BrokerConfig(SETTINGS), ClusterMetadata(MemoryStore()))


def test_what_brokers_and_controllers_ask_of_each_other_needs_cluster_action() -> None:
    settings = {**SETTINGS, "super.users": "User:other"}
    found = ZooKeeperBroker(settings=settings)
    requests = (
        (LeaderAndIsrRequest(), 7),
        (StopReplicaRequest(), 4),
        (UpdateMetadataRequest(), 8),
        (ControlledShutdownRequest(), 3),
        (AlterPartitionRequest(), 3),
        (AllocateProducerIdsRequest(), 0),
    )
    assert {request.API_KEY for request, _ in requests} == set(found.control.served)
    for request, version in requests:
        assert found.connect().request(request, version).error_code == 31
    others_write(found, Pattern(ResourceType.CLUSTER, "kafka-cluster", LITERAL), AclBinding(
        ResourceType.CLUSTER, "kafka-cluster", LITERAL, "User:ANONYMOUS", "*", Op.CLUSTER_ACTION, ALLOW))  # fmt: skip
    assert found.connect().request(UpdateMetadataRequest(controller_epoch=1), 8).error_code == 0
