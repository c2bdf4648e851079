"""A broker in a cluster: what the metadata log makes of it, and what it asks of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.protocol.framing import decode_request
from barnabas.protocol.kafka_uuid import to_text
from barnabas.protocol.message import Message
from barnabas.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from barnabas.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from barnabas.protocol.messages.alter_partition_response import AlterPartitionResponse
from barnabas.protocol.messages.alter_partition_response import PartitionData as AlteredPartition
from barnabas.protocol.messages.alter_partition_response import TopicData as AlteredTopic
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from barnabas.protocol.messages.user_scram_credential_record import UserScramCredentialRecord
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import ME, MemberBroker, broker, change, topic
from tests.support.core_broker import CoreBroker, batch, create, produce
from tests.support.slow_storage import SlowStorage, work_off
from tests.unit.broker.transactions.wire import transactional_batch

FLIGHTS, OFFSETS, STATES = bytes(15) + b"\x01", bytes(15) + b"\x02", bytes(15) + b"\x03"
OTHERS = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]


def member(*records: Message, **settings: Any) -> MemberBroker:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return MemberBroker(given, *OTHERS, *records)


def partition(found: MemberBroker, index: int = 0, name: str = "flights") -> Any:
    return found.state.replica_manager.used_partition(name, index)


def metadata(found: MemberBroker, *names: str) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return found.connect().request(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)


# -- what the metadata log says --------------------------------------------------------------------------------------


def test_roles_are_taken_from_the_metadata() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1], [1, 3], [1, 2]))
    assert (partition(found, 0).is_leader, partition(found, 1).is_leader) == (True, False)
    assert partition(found, 2) is None
    found.tell(change(FLIGHTS, 0, leader=1), change(FLIGHTS, 1, leader=3))
    assert (partition(found, 0).is_leader, partition(found, 1).is_leader) == (False, True)
    assert (partition(found, 0).leader_epoch, partition(found, 1).leader_epoch) == (1, 1)


def test_only_replicas_of_this_broker_lie_in_its_directory() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1], [1, 2]))

    def described() -> list[int]:
        results = found.connect().request(DescribeLogDirsRequest(topics=None), 4).results
        return [part.partition_index for one in results[0].topics for part in one.partitions]

    assert described() == [0]
    found.tell(change(FLIGHTS, 0, leader=1, replicas=[1, 2], isr=[1]))
    assert described() == []


def test_a_replica_that_was_moved_away_and_a_topic_that_was_deleted_leave_no_log() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1], [1, 3]))
    found.tell(change(FLIGHTS, 0, replicas=[1, 2], isr=[1, 2], leader=1))
    assert partition(found, 0) is None
    assert found.node.logs.get_log(TopicPartition("flights", 0)) is None
    found.tell(RemoveTopicRecord(topic_id=FLIGHTS))
    assert partition(found, 1) is None
    assert metadata(found, "flights").topics[0].error_code == errors.UnknownTopicOrPartitionError.code


def test_a_topic_that_is_made_again_under_its_name_is_another_one() -> None:
    found = member(*topic("flights", FLIGHTS, [3]))
    client = found.connect()
    assert client.request(produce("flights", batch(b"old")), 11).responses[0].partition_responses[0].error_code == 0
    found.tell(RemoveTopicRecord(topic_id=FLIGHTS), *topic("flights", OFFSETS, [3]))
    assert partition(found).topic_id == OFFSETS
    assert partition(found).log.log_end_offset == 0


def test_settings_of_topics_and_brokers_come_with_the_metadata() -> None:
    found = member(*topic("flights", FLIGHTS, [3]))
    found.tell(ConfigRecord(resource_type=2, resource_name="flights", name="retention.ms", value="77"))
    assert partition(found).log.config.retention_ms == 77
    found.tell(ConfigRecord(resource_type=4, resource_name="3", name="log.retention.ms", value="88"))
    assert found.node.config["log.retention.ms"] == 88
    found.tell(ConfigRecord(resource_type=4, resource_name="3", name="log.retention.ms", value=None))
    assert found.node.config["log.retention.ms"] != 88


def test_users_and_acls_come_with_the_metadata() -> None:
    found = member()
    users = ScramUsers(found.node.metadata)
    found.tell(
        UserScramCredentialRecord(
            name="alice", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        )
    )
    assert users.iterations("alice") == {2: 4096}
    user = users.finder("SCRAM-SHA-512")("alice", False)
    assert user is not None
    assert (user.credential.salt, user.credential.stored_key, user.credential.server_key) == (b"s", b"k", b"v")
    found.tell(RemoveUserScramCredentialRecord(name="alice", mechanism=2))
    assert users.iterations("alice") == {}
    acl = AccessControlEntryRecord(
        id=FLIGHTS, resource_type=2, resource_name="flights", pattern_type=3, principal="User:alice", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip
    found.tell(acl)
    (value,) = found.node.metadata.values("acls/").values()
    assert AclBinding(**value) == AclBinding(2, "flights", 3, "User:alice", "*", 3, 3)
    found.tell(RemoveAccessControlEntryRecord(id=FLIGHTS))
    assert found.node.metadata.values("acls/") == {}


def test_what_clients_are_told_of_brokers_and_partitions_is_what_the_image_has() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1], [1, 2]))
    found.tell(change(FLIGHTS, 1, leader=2, isr=[2]))
    told = metadata(found, "flights")
    assert {node.node_id: node.host for node in told.brokers} == {1: "one", 2: "two", 3: "three"}
    parts = {part.partition_index: part for part in told.topics[0].partitions}
    assert (parts[0].leader_id, parts[0].replica_nodes, parts[0].isr_nodes) == (3, [3, 1], [3, 1])
    assert (parts[1].leader_id, parts[1].leader_epoch, parts[1].isr_nodes) == (2, 1, [2])
    nodes = found.connect().request(DescribeClusterRequest(), 2).brokers
    assert [node.broker_id for node in nodes] == [1, 2, 3]
    levels = found.connect().request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert {level.name: level.max_version_level for level in levels.finalized_features} == {"metadata.version": 30}


def test_a_partition_that_another_leads_is_refused_here() -> None:
    found = member(*topic("flights", FLIGHTS, [1, 3]))
    answer = found.connect().request(produce("flights", batch(b"x")), 11)
    assert answer.responses[0].partition_responses[0].error_code == errors.NotLeaderOrFollowerError.code


# -- following and leading -------------------------------------------------------------------------------------------


def test_a_follower_asks_its_leader_where_the_metadata_say_that_is() -> None:
    found = member(*topic("flights", FLIGHTS, [1, 3]))
    asked = found.channel("fetcher").requester.next_request(found.now)
    assert asked is not None
    node, request = asked
    assert (node.id, node.host) == (1, "one")
    assert isinstance(request, FetchRequest)
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (ME, 30)


def test_brokers_reach_each_other_on_the_listener_that_is_for_that() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:1,INNER://127.0.0.1:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
    }
    inner = broker(1, host="inside", listener="INNER")
    found = MemberBroker(settings, *OTHERS, *inner, *topic("flights", FLIGHTS, [1, 3]))
    asked = found.channel("fetcher").requester.next_request(found.now)
    assert asked is not None
    assert asked[0].host == "inside"


@pytest.mark.parametrize(
    ("setting", "value", "field", "wanted"),
    [
        ("replica.fetch.wait.max.ms", 123, "max_wait_ms", 123),
        ("replica.fetch.min.bytes", 7, "min_bytes", 7),
        ("replica.fetch.response.max.bytes", 4567, "max_bytes", 4567),
    ],
)
def test_settings_of_fetchers_stand_in_their_requests(setting: str, value: int, field: str, wanted: int) -> None:
    found = MemberBroker({setting: value}, *OTHERS, *topic("flights", FLIGHTS, [1, 3]))
    assert getattr(found.asked("fetcher"), field) == wanted


def test_the_size_of_a_partition_s_part_is_a_setting() -> None:
    found = member(*topic("flights", FLIGHTS, [1, 3]), replica_fetch_max_bytes=4096)
    assert found.asked("fetcher").topics[0].partitions[0].partition_max_bytes == 4096


def test_a_fetch_that_failed_waits_for_the_backoff_that_is_set() -> None:
    found = member(*topic("flights", FLIGHTS, [1, 3]), replica_fetch_backoff_ms=5000)
    assert found.asked("fetcher") is not None
    found.channel("fetcher").requester.disconnected(found.now)
    assert found.channel("fetcher").requester.next_deadline() == found.now + 5.0


def test_more_fetchers_share_the_partitions_of_a_leader() -> None:
    many = [[1, 3] for _ in range(8)]
    assert len([c for c in member(*topic("flights", FLIGHTS, *many)).channels if c.name == "fetcher"]) == 1
    found = member(*topic("flights", FLIGHTS, *many), num_replica_fetchers=3)
    assert len([channel for channel in found.channels if channel.name == "fetcher"]) == 3


def test_a_follower_that_lags_too_long_is_proposed_to_leave_and_one_that_caught_up_to_join() -> None:
    found = member(*topic("flights", FLIGHTS, [3, 1]), replica_lag_time_max_ms=4000)
    found.connect().request(produce("flights", batch(b"x"), acks=1), 11)
    assert found.asked("alter-partition") is None
    found.advance(7.0)
    proposed = found.asked("alter-partition").topics[0].partitions[0]
    assert [one.broker_id for one in proposed.new_isr_with_epochs] == [3]
    shrunk = AlteredPartition(partition_index=0, leader_id=3, leader_epoch=0, isr=[3], partition_epoch=1)
    found.answer("alter-partition", AlterPartitionResponse(topics=[AlteredTopic(FLIGHTS, [shrunk])]))
    found.tell(change(FLIGHTS, 0, isr=[3]))
    found.follower_fetches(FLIGHTS, 1)
    proposed = found.asked("alter-partition").topics[0].partitions[0]
    assert [(one.broker_id, one.broker_epoch) for one in proposed.new_isr_with_epochs] == [(1, 10), (3, 30)]


def test_requests_to_other_nodes_may_take_as_long_as_is_set() -> None:
    found = member(*topic("flights", FLIGHTS, [1, 3]), replica_socket_timeout_ms=4321)
    others = [channel for channel in found.channels if channel.name != "raft"]
    assert {channel.timeout for channel in others} == {4.321}


# -- the broker's life -----------------------------------------------------------------------------------------------


def test_heartbeats_come_at_the_interval_that_is_set() -> None:
    found = MemberBroker({"broker.heartbeat.interval.ms": 700}, *OTHERS)
    found.unfence()
    assert found.channel("heartbeat").requester.next_deadline() == pytest.approx(found.now + 0.7)


def test_the_controllers_are_those_of_the_bootstrap_servers_or_the_voters() -> None:
    asked = MemberBroker({}, *OTHERS).control.observer._bootstrap
    assert [(node.host, node.port) for node in asked] == [("controller", 9000)]
    voters = {"controller.quorum.voters": "7@a:1,8@b:2", "controller.quorum.bootstrap.servers": None}
    asked = MemberBroker(voters, *OTHERS).control.observer._bootstrap
    assert [(node.host, node.port) for node in asked] == [("a", 1), ("b", 2)]


def test_a_broker_that_cannot_follow_the_metadata_has_itself_fenced() -> None:
    found = member(*topic("flights", FLIGHTS, [3]))
    found.unfence()
    assert found.asked("heartbeat") is None
    found.tell(RemoveTopicRecord(topic_id=OFFSETS))
    assert found.asked("heartbeat").want_fence is True
    assert "takes no part in the cluster" in found.warnings[-1]
    assert found.asked("raft") is None
    found.now += 2
    before = found.node.state.metadata.topic("flights")
    found.offset = 0
    found.tell(*broker(1), *topic("flights", FLIGHTS, [3]))
    assert found.asked("heartbeat").want_fence is False
    assert "takes part in the cluster again" in found.warnings[-1]
    assert (before is None, found.node.state.metadata.topic("flights") is None) == (False, False)


def test_a_broker_at_work_is_not_fenced_while_the_log_of_a_new_partition_is_made() -> None:
    """It would lose all its leaderships with each topic that is created."""
    disk = SlowStorage()
    found = MemberBroker({}, *broker(1), storage=disk)
    work_off(found, disk)
    found.unfence()
    found.tell(*topic("flights", FLIGHTS, [ME, 1]))
    assert found.member.is_recovering
    found.now += 3
    assert found.asked("heartbeat").want_fence is False
    work_off(found, disk)
    assert found.state.replica_manager.partition("flights", 0).is_leader


# -- coordinators ----------------------------------------------------------------------------------------------------


def commit(offset: int, group: str = "g") -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="flights", partitions=[part])]
    return OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)


def committed(found: MemberBroker, client: Any = None) -> Any:
    groups = [OffsetFetchRequestGroup(group_id="g", topics=None)]
    answer = (client or found.connect()).request(OffsetFetchRequest(groups=groups), 8)
    return None if answer is None else answer.groups[0]


def grouped(**settings: Any) -> MemberBroker:
    return member(*topic("flights", FLIGHTS, [3]), *topic(GROUP_METADATA_TOPIC, OFFSETS, [3, 1]), **settings)


def test_a_coordinator_is_found_where_its_partition_is_led() -> None:
    found = member(*topic(GROUP_METADATA_TOPIC, OFFSETS, [1, 3]), *topic(TRANSACTION_STATE_TOPIC, STATES, [3, 1]))
    for kind, leader in ((0, (1, "one")), (1, (3, "three"))):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"])
        answer = found.connect().request(request, 4).coordinators[0]
        assert (answer.node_id, answer.host) == leader
    found.tell(change(OFFSETS, 0, leader=-1))
    answer = found.connect().request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4).coordinators[0]
    assert answer.error_code == errors.CoordinatorNotAvailableError.code


def test_a_producer_whose_coordinator_is_lost_is_told_so_while_no_producer_ids_are_left() -> None:
    """The answer that is taken back is not made by asking for another id, which may be long in coming."""
    found = member(*topic(TRANSACTION_STATE_TOPIC, STATES, [3, 1]))
    client = found.connect()
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    assert client.request(request, 4) is None
    found.answer("alter-partition", AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1))
    found.advance(0)
    found.tell(change(STATES, 0, leader=1))
    found.advance(0)
    assert [answer.error_code for answer in client.responses] == [errors.NotCoordinatorError.code]
    assert found.warnings == []
    # Nor is what was refused done when there are ids again.
    found.answer("alter-partition", AllocateProducerIdsResponse(producer_id_start=2000, producer_id_len=1000))
    found.advance(1)
    assert len(client.responses) == 1


def test_a_commit_is_answered_when_the_replicas_in_sync_have_it() -> None:
    found = grouped()
    client = found.connect()
    assert client.request(commit(5), 8) is None
    found.follower_fetches(OFFSETS, 0)
    assert client.responses == []
    found.follower_fetches(OFFSETS, 1)
    assert client.responses[0].topics[0].partitions[0].error_code == 0


def asked_by_a_producer(version: int = 12, **settings: Any) -> tuple[MemberBroker, Any]:
    """A member that leads a partition of a transaction which broker 1 coordinates, and a producer that writes there."""
    found = member(*topic("flights", FLIGHTS, [3]), *topic(TRANSACTION_STATE_TOPIC, STATES, [1]), **settings)
    client = found.connect()
    request = produce("flights", transactional_batch([b"v"], 7, 2, 0))
    request.transactional_id = "tx"
    assert client.request(request, version) is None
    return found, client


def added(error: type[errors.KafkaError] | None = None, name: str = "flights") -> AddPartitionsToTxnResponse:
    result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=error.code if error else 0)
    topics = [AddPartitionsToTxnTopicResult(name=name, results_by_partition=[result])]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="tx", topic_results=topics)]
    )


def test_a_coordinator_that_still_completes_the_last_transaction_is_asked_again() -> None:
    found, client = asked_by_a_producer()
    found.answer("verification", added(errors.ConcurrentTransactionsError))
    found.advance(0.019)
    assert found.asked("verification") is None
    found.advance(0.002)
    found.answer("verification", added())
    found.advance(0)
    assert client.responses[0].responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize(
    ("settings", "times"),
    [({"backoff_max_ms": 90}, 6), ({"backoff_ms": 40}, 4), ({"backoff_max_ms": 0}, 1)],
)
def test_a_coordinator_is_asked_again_for_a_while_only(settings: dict[str, int], times: int) -> None:
    found, client = asked_by_a_producer(**{f"add_partitions_to_txn_retry_{name}": v for name, v in settings.items()})
    for _ in range(times):
        assert client.responses == []
        found.answer("verification", added(errors.ConcurrentTransactionsError))
        found.advance(settings.get("backoff_ms", 20) / 1000)
    assert client.responses[0].responses[0].partition_responses[0].error_code == errors.NotEnoughReplicasError.code


def test_what_is_not_committed_is_not_told_to_others_either() -> None:
    found = grouped()
    assert found.connect().request(commit(5), 8) is None
    reader = found.connect()
    assert committed(found, reader) is None
    found.follower_fetches(OFFSETS, 1)
    assert reader.responses[0].groups[0].topics[0].partitions[0].committed_offset == 5


def test_a_commit_whose_leader_changes_is_refused_and_may_be_lost() -> None:
    found = grouped()
    client = found.connect()
    assert client.request(commit(5), 8) is None
    found.tell(change(OFFSETS, 0, leader=1))
    found.node.core.settle(found.instant)
    assert client.responses[0].topics[0].partitions[0].error_code == errors.NotCoordinatorError.code
    assert committed(found).error_code == errors.NotCoordinatorError.code


@pytest.mark.parametrize(
    ("happens", "error"),
    [
        (lambda found: found.tell(change(OFFSETS, 0, leader=1)), errors.NotCoordinatorError),
        (lambda found: found.advance(5.1), errors.CoordinatorNotAvailableError),
    ],
    ids=["another leader", "no replica answers"],
)
@pytest.mark.parametrize("verified", [None, errors.CoordinatorNotAvailableError], ids=["added", "not added"])
def test_offsets_of_a_transaction_are_refused_without_asking_for_the_transaction_again(
    happens: Callable[[MemberBroker], None],
    error: type[errors.KafkaError],
    verified: type[errors.KafkaError] | None,
) -> None:
    """The producer looks for the coordinator then; UNKNOWN_SERVER_ERROR is the end of one of Java's."""
    found = member(
        *topic("flights", FLIGHTS, [3]),
        *topic(GROUP_METADATA_TOPIC, OFFSETS, [3, 1]),
        *topic(TRANSACTION_STATE_TOPIC, STATES, [1]),
    )
    assert found.connect().request(commit(5), 8) is None
    client = found.connect()
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = TxnOffsetCommitRequest("tx", "g", 7, 2, topics=[TxnOffsetCommitRequestTopic("flights", [part])])
    assert client.request(request, 5) is None
    found.answer("verification", added(verified, name=GROUP_METADATA_TOPIC))
    found.advance(0.1)
    assert client.responses == [], "the answer rests on what is not committed"
    happens(found)
    found.advance(0.1)
    assert client.responses[0].topics[0].partitions[0].error_code == error.code
    assert found.asked("verification") is None


def test_replicas_that_do_not_answer_in_time_are_an_error_and_the_commit_stays_open() -> None:
    found = grouped(offsets_commit_timeout_ms=3000)
    client = found.connect()
    assert client.request(commit(5), 8) is None
    found.advance(3.1)
    assert client.responses[0].topics[0].partitions[0].error_code == errors.CoordinatorNotAvailableError.code


def test_too_few_replicas_in_sync_take_no_commit() -> None:
    found = grouped(min_insync_replicas=2)
    found.tell(change(OFFSETS, 0, isr=[3]))
    answer = found.connect().request(commit(5), 8)
    assert answer.topics[0].partitions[0].error_code == errors.CoordinatorNotAvailableError.code


def test_groups_are_loaded_with_the_election_and_forgotten_with_the_next() -> None:
    found = grouped()
    client = found.connect()
    client.request(commit(5), 8)
    found.follower_fetches(OFFSETS, 1)
    found.tell(change(OFFSETS, 0, leader=1))
    assert committed(found).error_code == errors.NotCoordinatorError.code
    found.tell(change(OFFSETS, 0, leader=3))
    found.advance(0.1)
    reader = found.connect()
    if committed(found, reader) is None:
        found.follower_fetches(OFFSETS, 1)
    groups = reader.responses[0].groups if reader.responses else committed(found).topics and [committed(found)]
    assert groups[0].topics[0].partitions[0].committed_offset == 5


# -- what only the controller can do ---------------------------------------------------------------------------------


def test_topics_of_clients_are_made_by_the_controller() -> None:
    found = member()
    assert found.connect().request(create("new"), 7) is None
    assert found.asked("forwarding") is not None


def test_what_only_a_cluster_has_is_offered_and_forwarded_in_one() -> None:
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    for one, offered in ((member(), True), (CoreBroker(), False)):
        keys = {api.api_key for api in one.connect().request(asked, 4).api_keys}
        assert ({DescribeQuorumRequest.API_KEY, UnregisterBrokerRequest.API_KEY} <= keys) is offered
    found = member()
    assert found.connect().request(DescribeQuorumRequest(), 2) is None
    header, _ = decode_request(found.asked("forwarding").request_data)
    assert (header.request_api_key, header.request_api_version) == (DescribeQuorumRequest.API_KEY, 2)


@pytest.mark.parametrize(
    ("kind", "name", "settings", "factor", "min_isr"),
    [
        (0, GROUP_METADATA_TOPIC, {}, 3, None),
        (0, GROUP_METADATA_TOPIC, {"offsets.topic.replication.factor": 2}, 2, None),
        (1, TRANSACTION_STATE_TOPIC, {}, 3, "2"),
        (1, TRANSACTION_STATE_TOPIC, {"transaction.state.log.replication.factor": 2}, 2, "2"),
        (1, TRANSACTION_STATE_TOPIC, {"transaction.state.log.min.isr": 1}, 3, "1"),
        (2, SHARE_GROUP_STATE_TOPIC, {}, 3, "2"),
        (2, SHARE_GROUP_STATE_TOPIC, {"share.coordinator.state.topic.replication.factor": 2}, 2, "2"),
        (2, SHARE_GROUP_STATE_TOPIC, {"share.coordinator.state.topic.min.isr": 1}, 3, "1"),
    ],
)
def test_internal_topics_have_the_factor_that_is_set_and_three_without(
    kind: int, name: str, settings: dict[str, Any], factor: int, min_isr: str | None
) -> None:
    found = MemberBroker(settings, *OTHERS)
    client = found.connect()
    key = f"g:{to_text(OFFSETS)}:0"
    assert client.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6) is None
    created = CreateTopicsResponse(topics=[CreatableTopicResult(name=name)])
    asked = found.answer("forwarding", created).topics[0]
    assert (asked.name, asked.replication_factor) == (name, factor)
    assert {config.name: config.value for config in asked.configs}.get("min.insync.replicas") == min_isr
    assert client.responses == []
    found.tell(*topic(name, OFFSETS, [1, 3]))
    found.advance(0)
    assert client.responses[0].coordinators[0].node_id == 1


def test_who_waits_for_a_topic_that_does_not_come_is_told() -> None:
    found = member()
    client = found.connect()
    assert client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4) is None
    found.answer("forwarding", CreateTopicsResponse(topics=[CreatableTopicResult(name=GROUP_METADATA_TOPIC)]))
    found.advance(29)
    assert client.responses == []
    found.advance(2)
    assert client.responses[0].coordinators[0].error_code == errors.CoordinatorNotAvailableError.code


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_controlled", [True, False])
def test_a_broker_that_ends_waits_for_the_controller_unless_controlled_shutdown_is_switched_off(
    *, is_controlled: bool
) -> None:
    found = member(controlled_shutdown_enable=str(is_controlled).lower())
    found.control.leave()
    assert found.control.is_out is not is_controlled
    assert found.control.broker_epoch >= 0, "the directory is noted as closed in this epoch"
