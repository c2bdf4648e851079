"""AdminClient.describe_topics: page by page, with what a broker is too old for; and quotas on changes to topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.admin.new_topic import NewTopic
from barnabas.client.admin.topic_descriptions import TopicDescription
from barnabas.errors import (
    IllegalArgumentError,
    KafkaError,
    ProtocolError,
    ThrottlingQuotaExceededError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import AclOperation
from barnabas.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from barnabas.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tests.support.network_fakes import all_api_versions, metadata_response

ONE, GONE = Node(1, "one", 9092), Node(3, "", -1)
UNKNOWN_TOPIC, NOT_AUTHORIZED, QUOTA_EXCEEDED = 3, 29, 89


def topic(name: str, *partitions: int, **fields: Any) -> DescribeTopicPartitionsResponseTopic:
    described = [
        DescribeTopicPartitionsResponsePartition(
            partition_index=number,
            leader_id=1,
            leader_epoch=5,
            replica_nodes=[1, 3],
            isr_nodes=[1],
            eligible_leader_replicas=[3],
            last_known_elr=None,
        )
        for number in partitions
    ]
    operations = 1 << AclOperation.READ
    return DescribeTopicPartitionsResponseTopic(
        name=name, topic_id=b"i" * 16, partitions=described, topic_authorized_operations=operations, **fields
    )


@pytest.fixture
def paged(admin: Any) -> Callable[..., Any]:
    """The client of a cluster whose brokers give these pages."""
    brokers = [DescribeClusterBroker(broker_id=1, host="one", port=9092)]
    admin.answer(ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse(cluster_id="c", controller_id=1, brokers=brokers))

    def answer(*pages: tuple[list[Any], tuple[str, int] | None]) -> Any:
        responses = [
            DescribeTopicPartitionsResponse(
                topics=topics,
                next_cursor=None if end is None else Cursor(topic_name=end[0], partition_index=end[1]),
            )
            for topics, end in pages
        ]
        admin.answer(ApiKey.DESCRIBE_TOPIC_PARTITIONS, *responses)
        return admin

    return answer


def numbers(description: TopicDescription) -> list[int]:
    return [partition.partition for partition in description.partitions]


def test_topics_are_described_page_by_page(paged: Callable[..., Any]) -> None:
    admin = paged(
        ([topic("a", 0), topic("b", 0, 1)], ("b", 2)),
        ([topic("b", 2, 3)], ("c", 0)),
        ([topic("c", 0)], None),
    )
    found = admin.client.describe_topics(["c", "a", "b"], partition_size_limit_per_response=3)

    assert list(found) == ["c", "a", "b"]
    assert {name: numbers(description) for name, description in found.items()} == {
        "c": [0],
        "a": [0],
        "b": [0, 1, 2, 3],
    }
    asked = admin.requests(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    assert [[wanted.name for wanted in request.topics] for request in asked] == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert {request.response_partition_limit for request in asked} == {3}
    cursors = [request.cursor and (request.cursor.topic_name, request.cursor.partition_index) for request in asked]
    assert cursors == [None, ("b", 2), ("c", 0)]


def test_a_partition_tells_who_may_lead_it(paged: Callable[..., Any]) -> None:
    described = paged(([topic("a", 0)], None)).client.describe_topics(["a"])["a"]
    (partition,) = described.partitions
    assert (partition.leader, partition.replicas, partition.in_sync_replicas) == (ONE, [ONE, GONE], [ONE])
    assert (partition.elr, partition.last_known_elr) == ([GONE], None)
    assert described.authorized_operations is None


def test_what_the_caller_may_do_is_told_on_request(paged: Callable[..., Any]) -> None:
    admin = paged(([topic("a", 0)], None))
    described = admin.client.describe_topics(["a"], include_authorized_operations=True)["a"]
    assert described.authorized_operations == {AclOperation.READ}


@pytest.mark.parametrize(
    ("code", "expected"),
    [(UNKNOWN_TOPIC, UnknownTopicOrPartitionError), (NOT_AUTHORIZED, TopicAuthorizationError)],
)
def test_a_topic_that_fails_does_not_keep_the_others_back(
    paged: Callable[..., Any], code: int, expected: type[KafkaError]
) -> None:
    admin = paged(([topic("a", error_code=code), topic("b", 0)], None))
    found = admin.client.describe_topics(["a", "b", "left-out"], raise_errors=False)
    assert list(found) == ["b"]
    assert isinstance(found.errors["a"], expected)
    assert isinstance(found.errors["left-out"], UnknownTopicOrPartitionError)


def test_pages_that_lead_nowhere_are_an_error(paged: Callable[..., Any]) -> None:
    admin = paged(([topic("a", 0)], ("a", 1)), ([], ("a", 1)))
    with pytest.raises(ProtocolError, match="leads back"):
        admin.client.describe_topics(["a"])


def test_a_page_has_room_for_something(admin: Any) -> None:
    with pytest.raises(IllegalArgumentError, match="at least 1"):
        admin.client.describe_topics(["a"], partition_size_limit_per_response=0)


@pytest.mark.parametrize("missing", [ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS])
def test_a_broker_too_old_for_pages_is_asked_for_metadata(paged: Callable[..., Any], missing: ApiKey) -> None:
    admin = paged(([topic("t", 0)], None))
    versions = all_api_versions()
    versions.api_keys = [key for key in versions.api_keys if key.api_key != missing]
    admin.handlers[ApiKey.API_VERSIONS] = lambda request: versions

    described = admin.client.describe_topics(["t"], include_authorized_operations=True)["t"]
    assert numbers(described) == [0, 1]
    assert described.partitions[0].elr is None
    (asked,) = [request for request in admin.requests(ApiKey.METADATA) if request.topics]
    assert asked.include_topic_authorized_operations


def test_topics_named_and_topics_by_id_are_described_together(paged: Callable[..., Any]) -> None:
    admin = paged(([topic("a", 0)], None))
    response = metadata_response([(1, "one", 9092)], {"t": 1}, leader=1)
    response.topics[0].topic_id = b"t" * 16
    admin.handlers[ApiKey.METADATA] = lambda request: response
    found = admin.client.describe_topics([b"t" * 16, "a"])
    assert {key: description.name for key, description in found.items()} == {b"t" * 16: "t", "a": "a"}


CHANGES: dict[str, tuple[ApiKey, Callable[..., Any], Callable[[Any, bool], Any]]] = {
    "create_topics": (
        ApiKey.CREATE_TOPICS,
        lambda code: CreateTopicsResponse(
            throttle_time_ms=700, topics=[CreatableTopicResult(name="t", error_code=code)]
        ),
        lambda client, retry: client.create_topics([NewTopic("t")], retry_on_quota_violation=retry),
    ),
    "delete_topics": (
        ApiKey.DELETE_TOPICS,
        lambda code: DeleteTopicsResponse(
            throttle_time_ms=700, responses=[DeletableTopicResult(name="t", error_code=code)]
        ),
        lambda client, retry: client.delete_topics(["t"], retry_on_quota_violation=retry),
    ),
    "create_partitions": (
        ApiKey.CREATE_PARTITIONS,
        lambda code: CreatePartitionsResponse(
            throttle_time_ms=700, results=[CreatePartitionsTopicResult(name="t", error_code=code)]
        ),
        lambda client, retry: client.create_partitions({"t": 5}, retry_on_quota_violation=retry),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_quota_on_changes_is_waited_for_or_told(admin: Any, change: str) -> None:
    key, response, call = CHANGES[change]
    admin.answer(key, response(QUOTA_EXCEEDED), response(0))
    began = admin.clock.now
    assert list(call(admin.client, True)) == ["t"]
    assert admin.clock.now - began >= 0.7

    admin.answer(key, response(QUOTA_EXCEEDED))
    with pytest.raises(ThrottlingQuotaExceededError, match=r"t: .*700 ms") as raised:
        call(admin.client, False)
    assert raised.value.throttle_time_ms == 700


def test_a_quota_that_outlasts_the_time_allowed_is_the_error(admin: Any) -> None:
    response = CHANGES["create_topics"][1](QUOTA_EXCEEDED)
    response.throttle_time_ms = 10_000
    admin.answer(ApiKey.CREATE_TOPICS, response)
    with pytest.raises(ThrottlingQuotaExceededError) as raised:
        admin.client.create_topics([NewTopic("t")], timeout=4)
    assert 5_500 <= raised.value.throttle_time_ms <= 6_500
