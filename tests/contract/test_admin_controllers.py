"""AdminClient with `bootstrap.controllers` (KIP-919), against the controller of a real Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from random import Random

import pytest

from barnabas import AdminClient, NewTopic, TopicPartition, aio
from barnabas.client.admin.acls import AclBinding, AclBindingFilter
from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.quorum import RaftVoterEndpoint
from barnabas.errors import (
    BrokerIdNotRegisteredError,
    DuplicateVoterError,
    InconsistentClusterIdError,
    InvalidUpdateVersionError,
    KafkaError,
    MismatchedEndpointTypeError,
    NoReassignmentInProgressError,
    UnsupportedEndpointTypeError,
    UnsupportedVersionError,
    VoterNotFoundError,
)
from barnabas.protocol import kafka_uuid
from barnabas.protocol.kinds import AclOperation, ConfigResourceType, ConfigSource, OpType, ResourceType, UpgradeType
from tests.contract.waiting import create_topic, eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka

NewName = Callable[[str], str]


@pytest.fixture
def controllers(kafka: ApacheKafka) -> str:
    return f"127.0.0.1:{kafka.controller_port}"


@pytest.fixture
def admin(controllers: str) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_controllers=controllers) as client:
        yield client


def test_the_cluster_is_that_of_the_controllers(admin: AdminClient, kafka: ApacheKafka) -> None:
    described = admin.describe_cluster(include_authorized_operations=True)
    (node,) = described.nodes
    assert (node.id, node.port) == (1, kafka.controller_port)
    assert described.controller == node
    assert described.authorized_operations is not None
    with AdminClient(bootstrap_servers=kafka.bootstrap_servers) as of_brokers:
        assert of_brokers.describe_cluster().cluster_id == described.cluster_id


def test_the_quorum_and_the_features_are_described(admin: AdminClient, kafka: ApacheKafka) -> None:
    quorum = admin.describe_metadata_quorum()
    assert (quorum.leader_id, [voter.replica_id for voter in quorum.voters]) == (1, [1])
    assert [(at.listener, at.port) for at in quorum.nodes[1]] == [("CONTROLLER", kafka.controller_port)]
    features = admin.describe_features(node_id=1)
    assert features == admin.describe_features()
    level = features.finalized["metadata.version"].max_version
    with pytest.raises(InvalidUpdateVersionError):
        admin.update_features({"metadata.version": FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)}, validate_only=True)
    assert admin.describe_features().finalized["metadata.version"].max_version == level


def test_settings_are_read_and_changed(admin: AdminClient, kafka: ApacheKafka, new_name: NewName) -> None:
    topic = ConfigResource.topic(create_topic(kafka.bootstrap_servers, new_name("topic"), 1))
    admin.incremental_alter_configs({topic: {"retention.ms": 4711}})

    def setting() -> tuple[str | None, ConfigSource]:
        entry = admin.describe_configs([topic])[topic]["retention.ms"]
        return entry.value, entry.source

    eventually(lambda: setting() == ("4711", ConfigSource.DYNAMIC_TOPIC_CONFIG))

    broker = ConfigResource.broker(1)
    assert admin.describe_configs([broker])[broker]["node.id"].value == "1"
    admin.incremental_alter_configs({broker: {"log.cleaner.threads": 2}}, validate_only=True)

    loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")
    assert admin.describe_configs([loggers])[loggers]
    with pytest.raises(KafkaError, match="no_such_logger"):
        admin.incremental_alter_configs({loggers: [AlterConfigOp("no_such_logger", "DEBUG", OpType.SET)]})


def test_acls_are_created_found_and_deleted(admin: AdminClient, new_name: NewName) -> None:
    rule = AclBinding(ResourceType.TOPIC, new_name("topic"), "User:alice", AclOperation.READ)
    which = AclBindingFilter(ResourceType.TOPIC, rule.resource_name)
    admin.create_acls([rule])
    eventually(lambda: admin.describe_acls(which) == [rule])
    assert admin.delete_acls([which])[which] == [rule]


def test_reassignments_are_listed_and_cancelled(admin: AdminClient, kafka: ApacheKafka, new_name: NewName) -> None:
    partition = TopicPartition(create_topic(kafka.bootstrap_servers, new_name("topic"), 1), 0)
    with pytest.raises(NoReassignmentInProgressError):
        admin.alter_partition_reassignments({partition: None})
    assert admin.list_partition_reassignments([partition]) == {}


def test_voters_and_brokers_are_only_removed_where_there_are_some(admin: AdminClient) -> None:
    directory = kafka_uuid.random_uuid(Random(1))
    with pytest.raises(UnsupportedVersionError):  # the quorum of the tests has fixed voters
        admin.add_raft_voter(5, directory, [RaftVoterEndpoint("CONTROLLER", "localhost", 9)])
    with pytest.raises(UnsupportedVersionError):
        admin.remove_raft_voter(5, directory)
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(98765)


def test_what_only_brokers_serve_is_refused_for_each_key(admin: AdminClient) -> None:
    results = admin.create_topics([NewTopic("a"), NewTopic("b")], raise_errors=False)
    assert {type(error) for error in results.errors.values()} == {UnsupportedEndpointTypeError}
    assert list(results.errors) == ["a", "b"]
    for operation in (
        admin.list_topics,
        admin.list_groups,
        admin.list_transactions,
        admin.describe_user_scram_credentials,
    ):
        with pytest.raises(UnsupportedEndpointTypeError, match=f"{operation.__name__} is not offered by controllers"):
            operation()


def test_a_broker_is_no_controller(kafka: ApacheKafka) -> None:
    with (
        AdminClient(bootstrap_controllers=kafka.bootstrap_servers) as admin,
        pytest.raises(MismatchedEndpointTypeError),
    ):
        admin.describe_cluster()


def test_a_controller_is_no_broker(controllers: str) -> None:
    message = r"METADATA.*must lead to brokers"
    with AdminClient(bootstrap_servers=controllers) as admin, pytest.raises(UnsupportedVersionError, match=message):
        admin.list_topics()


def test_controllers_are_asked_in_an_event_loop_too(controllers: str) -> None:
    async def scenario() -> int:
        async with aio.AdminClient(bootstrap_controllers=controllers) as admin:
            with pytest.raises(UnsupportedEndpointTypeError):
                await admin.list_topics()
            return (await admin.describe_metadata_quorum()).leader_id

    assert asyncio.run(scenario()) == 1


def directory_id(kafka: ApacheKafka) -> bytes:
    text = (kafka.folder / "data" / "meta.properties").read_text(encoding="utf-8")
    return kafka_uuid.from_text(text.partition("directory.id=")[2].splitlines()[0])


@pytest.fixture(scope="module")
def quorum() -> Iterator[tuple[ApacheKafka, ApacheKafka]]:
    """A broker with the only voter of its quorum (KIP-853), and a controller that follows it."""
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    dynamic = {"controller.quorum.voters": "", "controller.quorum.fetch.timeout.ms": "1000"}
    first = ApacheKafka(dynamic, heap="256m", format_options=["--standalone"])
    dynamic["controller.quorum.bootstrap.servers"] = first.settings["controller.quorum.bootstrap.servers"] = (
        f"127.0.0.1:{first.controller_port}"
    )
    second = ApacheKafka(dynamic, heap="256m", format_options=["--no-initial-controllers"])
    second.port = second.controller_port
    own = {
        "process.roles": "controller",
        "node.id": "2",
        "listeners": f"CONTROLLER://127.0.0.1:{second.port}",
    }
    second.settings.update(own)
    with first, second:
        yield first, second


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("setting", ["bootstrap.servers", "bootstrap.controllers"])
def test_a_controller_is_given_a_vote_and_loses_it(quorum: tuple[ApacheKafka, ApacheKafka], setting: str) -> None:
    first, second = quorum
    port = first.port if setting == "bootstrap.servers" else first.controller_port
    endpoint = RaftVoterEndpoint("CONTROLLER", "127.0.0.1", second.port)
    with AdminClient({setting: f"127.0.0.1:{port}"}) as admin:

        def ids() -> tuple[set[int], set[int]]:
            found = admin.describe_metadata_quorum()
            return {one.replica_id for one in found.voters}, {one.replica_id for one in found.observers}

        eventually(lambda: ids() == ({1}, {2}))
        (observer,) = admin.describe_metadata_quorum().observers
        assert observer.replica_directory_id == directory_id(second)
        with pytest.raises(InconsistentClusterIdError):
            admin.add_raft_voter(2, directory_id(second), [endpoint], cluster_id="another")
        admin.add_raft_voter(2, directory_id(second), [endpoint], cluster_id=admin.describe_cluster().cluster_id)
        eventually(lambda: ids() == ({1, 2}, set()))
        assert admin.describe_metadata_quorum().nodes[2] == [endpoint]
        with pytest.raises(DuplicateVoterError):
            admin.add_raft_voter(2, directory_id(second), [endpoint])
        admin.remove_raft_voter(2, directory_id(second))
        eventually(lambda: ids() == ({1}, {2}))
        with pytest.raises(VoterNotFoundError):
            admin.remove_raft_voter(2, directory_id(second))
