"""Transactions, features, groups and replicas: whom they ask, what several answers come to."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.client.admin.groups import MemberToRemove
from barnabas.client.admin.log_dirs import TopicPartitionReplica
from barnabas.client.admin.transactions import AbortTransactionSpec
from barnabas.errors import (
    FeatureUpdateFailedError,
    InvalidProducerEpochError,
    KafkaStorageError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from barnabas.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
from barnabas.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse
from barnabas.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState
from barnabas.protocol.messages.update_features_response import UpdateFeaturesResponse
from barnabas.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.producer_identity import ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.network_fakes import all_api_versions

T0 = TopicPartition("t", 0)
CONCURRENT_TRANSACTIONS, COORDINATOR_LOADING, UNKNOWN_MEMBER, NOT_COORDINATOR = 51, 14, 25, 16


@pytest.fixture
def coordinated(admin: Any) -> Any:
    """Node 2 coordinates everything."""
    admin.handlers[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
        coordinators=[Coordinator(key=key, node_id=2, host="two", port=9092) for key in request.coordinator_keys]
    )
    return admin


def test_producers_are_fenced_one_by_one_and_a_transaction_under_way_is_waited_for(coordinated: Any) -> None:
    coordinated.answer(
        ApiKey.INIT_PRODUCER_ID,
        InitProducerIdResponse(error_code=CONCURRENT_TRANSACTIONS),
        InitProducerIdResponse(producer_id=7, producer_epoch=3),
    )
    results = coordinated.client.fence_producers(["a", "b"])
    assert results["a"] == results["b"] == ProducerIdAndEpoch(7, 3)
    assert coordinated.asked(ApiKey.INIT_PRODUCER_ID) == [2, 2, 2]
    assert {request.transactional_id for request in coordinated.requests(ApiKey.INIT_PRODUCER_ID)} == {"a", "b"}
    assert coordinated.requests(ApiKey.FIND_COORDINATOR)[0].key_type == 1


def test_transactions_are_listed_from_all_brokers(admin: Any) -> None:
    def answer(request: Any) -> ListTransactionsResponse:
        node = len(admin.asked(ApiKey.LIST_TRANSACTIONS))
        state = TransactionState(transactional_id=f"id-{node}", producer_id=node, transaction_state="Ongoing")
        return ListTransactionsResponse(transaction_states=[state])

    admin.handlers[ApiKey.LIST_TRANSACTIONS] = answer
    assert list(admin.client.list_transactions(longer_than=1.5)) == ["id-1", "id-2"]
    assert sorted(admin.asked(ApiKey.LIST_TRANSACTIONS)) == [1, 2]
    assert admin.requests(ApiKey.LIST_TRANSACTIONS)[0].duration_filter == 1500


def test_a_transaction_that_hangs_is_aborted_at_the_leader(admin: Any) -> None:
    def markers(code: int) -> WriteTxnMarkersResponse:
        partition = WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
        topic = WritableTxnMarkerTopicResult(name="t", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=5, topics=[topic])])

    admin.answer(ApiKey.WRITE_TXN_MARKERS, markers(3), markers(0))  # the broker hears of the topic a moment later
    admin.client.abort_transaction(AbortTransactionSpec(T0, 5, 1, 2))
    (_, request) = admin.requests(ApiKey.WRITE_TXN_MARKERS)
    assert (request.markers[0].coordinator_epoch, request.markers[0].transaction_result) == (2, False)

    admin.answer(ApiKey.WRITE_TXN_MARKERS, markers(47))
    with pytest.raises(InvalidProducerEpochError):
        admin.client.abort_transaction(AbortTransactionSpec(T0, 5, 1, 2))


def test_features_change_all_or_none(admin: Any) -> None:
    admin.answer(ApiKey.UPDATE_FEATURES, UpdateFeaturesResponse(error_code=96, error_message="no"))
    updates = {"a": 1, "b": FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)}
    results = admin.client.update_features(updates, raise_errors=False)
    assert [type(error) for error in results.errors.values()] == [FeatureUpdateFailedError] * 2
    (request,) = admin.requests(ApiKey.UPDATE_FEATURES)
    assert [update.upgrade_type for update in request.feature_updates] == [1, 3]


def test_members_are_removed_with_a_reason_that_fits(coordinated: Any) -> None:
    answers = [MemberResponse(group_instance_id="one"), MemberResponse(member_id="x", error_code=UNKNOWN_MEMBER)]
    coordinated.answer(
        ApiKey.LEAVE_GROUP, LeaveGroupResponse(error_code=COORDINATOR_LOADING), LeaveGroupResponse(members=answers)
    )
    one, two = MemberToRemove("one"), MemberToRemove(member_id="x")
    results = coordinated.client.remove_members_from_consumer_group(
        "g", [one, two], reason="y" * 999, raise_errors=False
    )
    assert list(results) == [one]
    assert isinstance(results.errors[two], UnknownMemberIdError)
    reason = coordinated.requests(ApiKey.LEAVE_GROUP)[-1].members[0].reason
    assert reason.startswith("member was removed by an admin: yyy")
    assert len(reason) == 255


def test_a_part_that_passes_makes_the_whole_request_be_sent_again(coordinated: Any) -> None:
    def answer(code: int) -> AlterShareGroupOffsetsResponse:
        partitions = [
            AlterShareGroupOffsetsResponsePartition(partition_index=0),
            AlterShareGroupOffsetsResponsePartition(partition_index=1, error_code=code),
        ]
        topic = AlterShareGroupOffsetsResponseTopic(topic_name="t", partitions=partitions)
        return AlterShareGroupOffsetsResponse(responses=[topic])

    coordinated.answer(ApiKey.ALTER_SHARE_GROUP_OFFSETS, answer(NOT_COORDINATOR), answer(3))
    offsets = {T0: 1, TopicPartition("t", 1): 2}
    results = coordinated.client.alter_share_group_offsets("g", offsets, raise_errors=False)
    assert list(results) == [T0]
    assert isinstance(results.errors[TopicPartition("t", 1)], UnknownTopicOrPartitionError)
    assert len(coordinated.requests(ApiKey.ALTER_SHARE_GROUP_OFFSETS)) == 2


def test_a_replica_that_moves_is_in_two_directories(admin: Any) -> None:
    def directory(path: str, lag: int, *, is_future: bool) -> DescribeLogDirsResult:
        partition = DescribeLogDirsPartition(partition_index=0, offset_lag=lag, is_future_key=is_future)
        return DescribeLogDirsResult(log_dir=path, topics=[DescribeLogDirsTopic(name="t", partitions=[partition])])

    def answer(request: Any) -> DescribeLogDirsResponse:
        if admin.asked(ApiKey.DESCRIBE_LOG_DIRS)[-1] == 2:
            return DescribeLogDirsResponse()
        broken = DescribeLogDirsResult(log_dir="/c", error_code=56)
        return DescribeLogDirsResponse(
            results=[directory("/a", 0, is_future=False), directory("/b", 4, is_future=True), broken]
        )

    admin.handlers[ApiKey.DESCRIBE_LOG_DIRS] = answer
    here, there = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 0, 2)
    found = admin.client.describe_replica_log_dirs([here, there])
    assert found[here] == ("/a", 0, "/b", 4)
    assert found[there].current_log_dir is None
    directories = admin.client.describe_log_dirs([1])[1]
    assert isinstance(directories["/c"].error, KafkaStorageError)


def test_features_are_those_of_the_broker_that_is_named(admin: Any) -> None:
    admin.client.list_topics()  # now all connections' own ApiVersions requests can be told from this one
    for node in (2, 1, 2):
        admin.client.describe_features(node_id=node)
        assert admin.asked(ApiKey.API_VERSIONS)[-1] == node


@pytest.mark.parametrize("operations", [False, True])
def test_a_cluster_of_brokers_without_describe_cluster_is_described_by_its_metadata(
    admin: Any, operations: bool
) -> None:
    versions = all_api_versions()
    versions.api_keys = [key for key in versions.api_keys if key.api_key != ApiKey.DESCRIBE_CLUSTER]
    admin.handlers[ApiKey.API_VERSIONS] = lambda request: versions
    found = admin.client.describe_cluster(include_authorized_operations=operations)
    assert [node.id for node in found.nodes] == [1, 2]
    assert (found.controller, found.fenced) == (Node(2, "two", 9092), frozenset())
    assert admin.requests(ApiKey.METADATA)[-1].include_cluster_authorized_operations is operations
    with pytest.raises(UnsupportedVersionError):
        admin.client.describe_cluster(include_fenced_brokers=True)
