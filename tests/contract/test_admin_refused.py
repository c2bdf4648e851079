"""Every operation of the admin client asked by one without rights: it is told so at once, and never left to wait.

The family is a refusal that the client cannot match with what it has asked for: it then asks until its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic, TopicPartition
from barnabas.admin import (
    AbortTransactionSpec,
    AclBinding,
    AclOperation,
    ClientQuotaEntity,
    ConfigResource,
    ElectionType,
    MemberToRemove,
    OffsetSpec,
    RaftVoterEndpoint,
    ResourceType,
    ScramMechanism,
    TopicPartitionReplica,
    UserScramCredentialDeletion,
)
from barnabas.errors import (
    AuthorizationError,
    DelegationTokenDisabledError,
    UnsupportedByAuthenticationError,
    UnsupportedVersionError,
)
from tests.support.people_cluster import Cluster, add_people, barnabas_cluster, kafka_cluster, password

SECONDS = 20
AT = TopicPartition("hidden", 0)
Call = Callable[[AdminClient], Any]
ACL = AclBinding(ResourceType.TOPIC, "hidden", "User:x", AclOperation.READ)
QUOTA = ClientQuotaEntity.of_types({"user": "hidden", "client-id": None})
#: Operation → the call, which the cluster refuses.
REFUSED: dict[str, Call] = {
    "abort_transaction": lambda a: a.abort_transaction(AbortTransactionSpec(AT, 5, 0, 0)),
    "add_raft_voter": lambda a: a.add_raft_voter(9, bytes(16), [RaftVoterEndpoint("CONTROLLER", "localhost", 1)]),
    "alter_client_quotas": lambda a: a.alter_client_quotas({QUOTA: {"producer_byte_rate": 5.0}}),
    "alter_consumer_group_offsets": lambda a: a.alter_consumer_group_offsets("hidden", {AT: 0}),
    "alter_partition_reassignments": lambda a: a.alter_partition_reassignments({AT: [1]}),
    "alter_replica_log_dirs": lambda a: a.alter_replica_log_dirs({TopicPartitionReplica("hidden", 0, 1): "/tmp"}),
    "alter_share_group_offsets": lambda a: a.alter_share_group_offsets("hidden", {AT: 0}),
    "alter_streams_group_offsets": lambda a: a.alter_streams_group_offsets("hidden", {AT: 0}),
    "alter_user_scram_credentials": lambda a: a.alter_user_scram_credentials(
        [UserScramCredentialDeletion("root", ScramMechanism.SCRAM_SHA_256)]
    ),
    "create_acls": lambda a: a.create_acls([ACL]),
    "create_partitions": lambda a: a.create_partitions({"hidden": 2}),
    "create_topics": lambda a: a.create_topics([NewTopic("hidden-too", 1)]),
    "delete_acls": lambda a: a.delete_acls([ACL.to_filter()]),
    "delete_consumer_group_offsets": lambda a: a.delete_consumer_group_offsets("hidden", [AT]),
    "delete_consumer_groups": lambda a: a.delete_consumer_groups(["hidden"]),
    "delete_groups": lambda a: a.delete_groups(["hidden"]),
    "delete_records": lambda a: a.delete_records({AT: 0}),
    "delete_share_group_offsets": lambda a: a.delete_share_group_offsets("hidden", ["hidden"]),
    "delete_share_groups": lambda a: a.delete_share_groups(["hidden"]),
    "delete_streams_group_offsets": lambda a: a.delete_streams_group_offsets("hidden", [AT]),
    "delete_streams_groups": lambda a: a.delete_streams_groups(["hidden"]),
    "delete_topics": lambda a: a.delete_topics(["hidden"]),
    "describe_acls": lambda a: a.describe_acls(),
    "describe_classic_groups": lambda a: a.describe_classic_groups(["hidden"]),
    "describe_client_quotas": lambda a: a.describe_client_quotas(),
    "describe_configs": lambda a: a.describe_configs([ConfigResource.topic("hidden")]),
    "describe_consumer_groups": lambda a: a.describe_consumer_groups(["hidden"]),
    "describe_groups": lambda a: a.describe_groups(["hidden"]),
    "describe_metadata_quorum": lambda a: a.describe_metadata_quorum(),
    "describe_producers": lambda a: a.describe_producers([AT]),
    "describe_share_groups": lambda a: a.describe_share_groups(["hidden"]),
    "describe_streams_groups": lambda a: a.describe_streams_groups(["hidden"]),
    "describe_topics": lambda a: a.describe_topics(["hidden"]),
    "describe_transactions": lambda a: a.describe_transactions(["hidden"]),
    "describe_user_scram_credentials": lambda a: a.describe_user_scram_credentials(),
    "elect_leaders": lambda a: a.elect_leaders(ElectionType.PREFERRED, [AT]),
    "fence_producers": lambda a: a.fence_producers(["hidden"]),
    "force_terminate_transaction": lambda a: a.force_terminate_transaction("hidden"),
    "incremental_alter_configs": lambda a: a.incremental_alter_configs(
        {ConfigResource.topic("hidden"): {"retention.ms": "5"}}
    ),
    "list_config_resources": lambda a: a.list_config_resources(),
    "list_consumer_group_offsets": lambda a: a.list_consumer_group_offsets("hidden"),
    "list_offsets": lambda a: a.list_offsets({AT: OffsetSpec.LATEST}),
    "list_offsets_of_groups": lambda a: a.list_offsets_of_groups({"hidden": None}),
    "list_partition_reassignments": lambda a: a.list_partition_reassignments(),
    "list_share_group_offsets": lambda a: a.list_share_group_offsets({"hidden": None}),
    "list_streams_group_offsets": lambda a: a.list_streams_group_offsets({"hidden": None}),
    "remove_members_from_consumer_group": lambda a: a.remove_members_from_consumer_group(
        "hidden", [MemberToRemove(None, "m")]
    ),
    "remove_raft_voter": lambda a: a.remove_raft_voter(9, bytes(16)),
    "unregister_broker": lambda a: a.unregister_broker(9),
    "update_features": lambda a: a.update_features({"group.version": 1}),
}
#: What any principal is told, as far as it may see; of tokens Kafka says that there are none.
TOLD: dict[str, Call] = {
    "describe_cluster": lambda a: a.describe_cluster(),
    "describe_features": lambda a: a.describe_features(),
    "list_groups": lambda a: a.list_groups(),
    "list_topics": lambda a: a.list_topics(),
    "list_transactions": lambda a: a.list_transactions(),
}
#: Refused for another reason, or answered without what is asked for: any answer but silence will do.
ANSWERED: dict[str, Call] = {
    "create_delegation_token": lambda a: a.create_delegation_token(owner="User:root"),
    "describe_delegation_token": lambda a: a.describe_delegation_token(),
    "describe_log_dirs": lambda a: a.describe_log_dirs([1]),
    "describe_replica_log_dirs": lambda a: a.describe_replica_log_dirs([TopicPartitionReplica("hidden", 0, 1)]),
    "expire_delegation_token": lambda a: a.expire_delegation_token(b"x"),
    "renew_delegation_token": lambda a: a.renew_delegation_token(b"x"),
}
#: What a broker without a quorum, as ours is here, has no API for.
OF_QUORUM = {"add_raft_voter", "describe_metadata_quorum", "remove_raft_voter", "unregister_broker"}
#: Of the client itself.
OF_CLIENT = {
    "client_instance_id", "close", "metric_groups", "metrics", "node_metrics", "register_metric_for_subscription",
    "unregister_metric_from_subscription",
}  # fmt: skip


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("refused")
    with kafka_cluster() if request.param == "apache-kafka" else barnabas_cluster(folder) as found:
        with AdminClient(bootstrap_servers=found.inner) as admin:
            add_people(admin)
            admin.create_topics([NewTopic("hidden", 1)])
        yield found


@pytest.fixture
def stranger(cluster: Cluster) -> Iterator[AdminClient]:
    settings = {
        "bootstrap.servers": cluster.servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": "stranger", "sasl.password": password("stranger"), "default.api.timeout.ms": SECONDS * 1000,
    }  # fmt: skip
    with AdminClient(settings) as client:
        yield client


def test_every_operation_of_the_client_stands_here() -> None:
    operations = {name for name in dir(AdminClient) if not name.startswith("_")}

    assert operations == REFUSED.keys() | TOLD.keys() | ANSWERED.keys() | OF_CLIENT


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_one_without_rights_is_refused(stranger: AdminClient, name: str, request: pytest.FixtureRequest) -> None:
    is_alone = "barnabas" in request.node.callspec.id and name in OF_QUORUM
    with pytest.raises(UnsupportedVersionError if is_alone else AuthorizationError):
        REFUSED[name](stranger)


@pytest.mark.parametrize("name", sorted(TOLD))
def test_what_anyone_may_ask_is_told_without_what_is_hidden(stranger: AdminClient, name: str) -> None:
    assert "hidden" not in str(TOLD[name](stranger))


@pytest.mark.parametrize("name", sorted(ANSWERED))
def test_no_operation_is_left_without_an_answer(stranger: AdminClient, name: str) -> None:
    with suppress(DelegationTokenDisabledError, UnsupportedByAuthenticationError, AuthorizationError):
        ANSWERED[name](stranger)
