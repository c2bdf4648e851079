"""AdminClient: whom it asks, what it retries, what it raises."""

from __future__ import annotations

import socket
import threading
import time
from itertools import pairwise
from queue import Queue
from typing import Any

import pytest

from barnabas import AdminClient
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.new_topic import NewPartitions, NewTopic
from barnabas.client.admin.partition_offsets import ListedOffset, OffsetSpec
from barnabas.client.admin.results import PartialFailureError, Results
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import (
    ClusterAuthorizationError,
    ConfigError,
    GroupNotEmptyError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    NotCoordinatorError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import OpType
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.network_fakes import all_api_versions, metadata_response

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_CONTROLLER, TOPIC_EXISTS, INVALID_TOPIC, NOT_LEADER = 41, 36, 17, 6


def created(**codes: int) -> CreateTopicsResponse:
    """A response with a code for each topic; 0 is success."""
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code, num_partitions=3) for name, code in codes.items()]
    )


# Whom it asks


def test_topics_are_created_by_the_controller(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=0))
    results = admin.client.create_topics(
        [NewTopic("a", 3, configs={"preallocate": False, "cleanup.policy": ["x", "y"]})]
    )
    assert admin.asked(ApiKey.CREATE_TOPICS) == [2]
    assert results["a"].num_partitions == 3
    (request,) = admin.requests(ApiKey.CREATE_TOPICS)
    assert (request.topics[0].num_partitions, request.topics[0].replication_factor) == (3, -1)
    assert [(c.name, c.value) for c in request.topics[0].configs] == [
        ("preallocate", "false"),
        ("cleanup.policy", "x,y"),
    ]
    assert request.timeout_ms == 30_000


def test_a_controller_that_has_moved_is_looked_for(admin: Any) -> None:
    def create(request: Any) -> Any:
        admin.controller = 1
        return created(a=0 if admin.asked(ApiKey.CREATE_TOPICS)[-1] == 1 else NOT_CONTROLLER)

    admin.handlers[ApiKey.CREATE_TOPICS] = create
    assert "a" in admin.client.create_topics([NewTopic("a")])
    asked = admin.asked(ApiKey.CREATE_TOPICS)
    assert set(asked[:-1]) == {2}
    assert asked[-1] == 1


def test_offsets_are_asked_of_the_leaders_and_new_leaders_are_found(admin: Any) -> None:
    def listed(code: int) -> ListOffsetsResponse:
        partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7, leader_epoch=2)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])

    admin.answer(ApiKey.LIST_OFFSETS, listed(NOT_LEADER), listed(0))
    assert admin.client.list_offsets({T0: OffsetSpec.LATEST}) == {T0: ListedOffset(7, -1, 2)}
    assert admin.asked(ApiKey.LIST_OFFSETS) == [1, 1]
    lookups = [request for request in admin.requests(ApiKey.METADATA) if request.topics]
    assert [[topic.name for topic in request.topics] for request in lookups] == [["t"], ["t"]]
    assert not any(request.allow_auto_topic_creation for request in admin.requests(ApiKey.METADATA))


def test_groups_are_asked_of_their_coordinators(admin: Any) -> None:
    admin.answer(
        ApiKey.FIND_COORDINATOR,
        FindCoordinatorResponse(
            coordinators=[
                Coordinator(key="g", node_id=1, host="one", port=9092),
                Coordinator(key="h", node_id=2, host="two", port=9092),
            ]
        ),
    )
    admin.handlers[ApiKey.DELETE_GROUPS] = lambda request: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group) for group in request.groups_names]
    )
    assert set(admin.client.delete_groups(["g", "h"])) == {"g", "h"}
    assert sorted(admin.asked(ApiKey.DELETE_GROUPS)) == [1, 2]
    assert len(admin.asked(ApiKey.FIND_COORDINATOR)) == 1


def test_a_broker_too_old_for_several_groups_at_once_is_asked_one_by_one(admin: Any) -> None:
    old = all_api_versions()
    for api in old.api_keys:
        if api.api_key == ApiKey.FIND_COORDINATOR:
            api.max_version = 3
        elif api.api_key == ApiKey.OFFSET_FETCH:
            api.max_version = 7
    admin.handlers[ApiKey.API_VERSIONS] = lambda request: old
    admin.answer(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(node_id=1, host="one", port=9092))
    admin.handlers[ApiKey.DELETE_GROUPS] = lambda request: DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group) for group in request.groups_names]
    )
    assert set(admin.client.delete_groups(["g", "h"])) == {"g", "h"}
    assert sorted(request.key for request in admin.requests(ApiKey.FIND_COORDINATOR)) == ["g", "h"]

    partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=5, metadata=None)
    topics = [OffsetFetchResponseTopic(name="t", partitions=[partition])]
    admin.answer(ApiKey.OFFSET_FETCH, OffsetFetchResponse(topics=topics))
    assert admin.client.list_consumer_group_offsets("g") == {T0: OffsetAndMetadata(5)}


def test_groups_are_listed_by_every_broker(admin: Any) -> None:
    names = ["h", "g"]
    admin.handlers[ApiKey.LIST_GROUPS] = lambda request: ListGroupsResponse(groups=[ListedGroup(group_id=names.pop())])
    assert list(admin.client.list_groups()) == ["g", "h"]
    assert sorted(admin.asked(ApiKey.LIST_GROUPS)) == [1, 2]


def test_brokers_that_joined_since_the_client_has_begun_are_asked_as_well(admin: Any) -> None:
    brokers = [(1, "one", 9092), (2, "two", 9092)]
    admin.handlers[ApiKey.METADATA] = lambda request: metadata_response(brokers, {})
    admin.handlers[ApiKey.LIST_GROUPS] = lambda request: ListGroupsResponse()
    admin.client.list_groups()

    brokers[1] = (3, "three", 9092)
    admin.client.list_groups()

    assert sorted(admin.asked(ApiKey.LIST_GROUPS)) == [1, 1, 2, 3]


def test_groups_that_some_brokers_listed_are_given_with_the_errors_of_the_others(admin: Any) -> None:
    answers = [ListGroupsResponse(error_code=31), ListGroupsResponse(groups=[ListedGroup(group_id="g")])]
    admin.handlers[ApiKey.LIST_GROUPS] = lambda request: answers[admin.asked(ApiKey.LIST_GROUPS)[-1] - 1]
    found = admin.client.list_groups(raise_errors=False)
    assert (list(found), found["g"].state, list(found.errors)) == (["g"], None, [1])
    with pytest.raises(ClusterAuthorizationError) as raised:
        admin.client.list_groups()
    assert raised.value.errors.keys() == {1}


def test_the_settings_of_a_broker_are_asked_of_that_broker(admin: Any) -> None:
    admin.handlers[ApiKey.DESCRIBE_CONFIGS] = lambda request: DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )
    resources = [ConfigResource.broker(1), ConfigResource.broker(2)]
    assert list(admin.client.describe_configs(resources)) == resources
    assert sorted(admin.asked(ApiKey.DESCRIBE_CONFIGS)) == [1, 2]


# What it retries


def test_a_broker_that_is_gone_is_waited_for(admin: Any) -> None:
    admin.selector.refusing.add(9092)
    attempts = 0
    original = admin.selector.connect

    def connect(*args: Any) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 5:
            admin.selector.refusing.clear()
        original(*args)

    admin.selector.connect = connect
    admin.answer(ApiKey.CREATE_TOPICS, created(a=0))
    assert "a" in admin.client.create_topics([NewTopic("a")])


def test_a_leader_that_is_gone_is_looked_up_again(new_admin: Any) -> None:
    """Nothing but the metadata says that another broker leads by now: the one that did answers nothing."""
    admin = new_admin(bootstrap_servers="boot:9093")
    admin.selector.refusing.add(9092)
    lookups = 0

    def metadata(request: Any) -> Any:
        nonlocal lookups
        lookups += bool(request.topics)
        return metadata_response([(1, "one", 9092), (2, "two", 9093)], {"t": 1}, leader=1 if lookups < 3 else 2)

    admin.handlers[ApiKey.METADATA] = metadata
    partition = ListOffsetsPartitionResponse(partition_index=0, offset=7, leader_epoch=2)
    admin.answer(
        ApiKey.LIST_OFFSETS,
        ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])]),
    )
    started = admin.clock.now

    assert admin.client.list_offsets({T0: OffsetSpec.LATEST}) == {T0: ListedOffset(7, -1, 2)}
    assert (admin.asked(ApiKey.LIST_OFFSETS), lookups) == ([2], 3)
    assert admin.clock.now - started < 2


def test_a_coordinator_that_is_gone_is_looked_up_again(new_admin: Any) -> None:
    admin = new_admin(bootstrap_servers="boot:9093")
    admin.selector.refusing.add(9092)
    brokers = [(1, "one", 9092), (2, "two", 9093)]
    admin.handlers[ApiKey.METADATA] = lambda request: metadata_response(brokers, {}, leader=2)
    found = [FindCoordinatorResponse(coordinators=[Coordinator("g", *broker)]) for broker in brokers]
    admin.answer(ApiKey.FIND_COORDINATOR, *found)
    admin.answer(ApiKey.DELETE_GROUPS, DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g")]))

    assert list(admin.client.delete_groups(["g"], timeout=5)) == ["g"]


def test_a_lost_connection_is_made_again_and_the_request_repeated(admin: Any) -> None:
    def create(request: Any) -> Any:
        if len(admin.asked(ApiKey.CREATE_TOPICS)) == 1:
            admin.selector.break_connection(2)
            return None
        return created(a=0)

    admin.handlers[ApiKey.CREATE_TOPICS] = create
    assert "a" in admin.client.create_topics([NewTopic("a")])
    assert admin.asked(ApiKey.CREATE_TOPICS) == [2, 2]


def test_when_the_time_is_over_the_last_problem_is_named(admin: Any) -> None:
    started = admin.clock.now
    admin.answer(ApiKey.CREATE_TOPICS, created(a=NOT_CONTROLLER))
    with pytest.raises(
        KafkaTimeoutError, match="create_topics of a did not succeed in time; the last answer was"
    ) as caught:
        admin.client.create_topics([NewTopic("a")], timeout=7.0)
    assert 6.9 <= admin.clock.now - started <= 8.0
    assert caught.value.__cause__ is not None
    assert len(admin.asked(ApiKey.CREATE_TOPICS)) > 3


def test_the_time_is_over_after_the_api_timeout_when_none_is_given(new_admin: Any) -> None:
    admin = new_admin(default_api_timeout_ms=3000)
    admin.selector.silent.add(9092)
    started = admin.clock.now
    with pytest.raises(KafkaTimeoutError, match="no broker answered"):
        admin.client.describe_cluster()
    assert 2.9 <= admin.clock.now - started <= 3.5


def test_it_tries_again_no_more_often_than_retries_allows(new_admin: Any) -> None:
    admin = new_admin(retries=2)
    admin.answer(ApiKey.CREATE_TOPICS, created(a=NOT_CONTROLLER))
    with pytest.raises(Exception, match="a: "):
        admin.client.create_topics([NewTopic("a")])
    assert len(admin.asked(ApiKey.CREATE_TOPICS)) == 3


def test_it_waits_longer_before_each_new_attempt(admin: Any) -> None:
    times: list[float] = []

    def create(request: Any) -> Any:
        times.append(admin.clock.now)
        return created(a=0 if len(times) == 5 else NOT_CONTROLLER)

    admin.handlers[ApiKey.CREATE_TOPICS] = create
    admin.client.create_topics([NewTopic("a")])
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8], rel=0.5)


def test_only_what_may_pass_is_asked_for_again(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=0, b=NOT_CONTROLLER, c=TOPIC_EXISTS), created(b=0))
    results = admin.client.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")], raise_errors=False)
    assert set(results) == {"a", "b"}
    assert set(results.errors) == {"c"}
    asked = [[topic.name for topic in request.topics] for request in admin.requests(ApiKey.CREATE_TOPICS)]
    assert asked == [["a", "b", "c"], ["b"]]


def test_a_key_that_the_response_leaves_out_is_asked_for_again(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=0), created(b=0))
    assert set(admin.client.create_topics([NewTopic("a"), NewTopic("b")])) == {"a", "b"}


def test_an_api_that_the_broker_lacks_is_an_error_at_once(admin: Any) -> None:
    few = ApiVersionsResponse(api_keys=[ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=12)])
    admin.handlers[ApiKey.API_VERSIONS] = lambda request: few
    with pytest.raises(UnsupportedVersionError, match="does not support CREATE_TOPICS"):
        admin.client.create_topics([NewTopic("a")])


def test_a_response_that_makes_no_sense_is_an_error_at_once(admin: Any) -> None:
    resource = DescribeConfigsResult(resource_type=77, resource_name="x")
    admin.answer(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsResponse(results=[resource]))
    with pytest.raises(ValueError, match="77"):
        admin.client.describe_configs([ConfigResource.topic("t")])
    assert len(admin.asked(ApiKey.DESCRIBE_CONFIGS)) == 1


# What it raises


def test_one_failure_raises_its_error(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=0, b=TOPIC_EXISTS))
    with pytest.raises(TopicExistsError, match=r"^b: ") as caught:
        admin.client.create_topics([NewTopic("a"), NewTopic("b")])
    assert set(caught.value.errors) == {"b"}
    assert set(caught.value.results) == {"a"}


def test_failures_of_one_kind_raise_that_kind(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=TOPIC_EXISTS, b=TOPIC_EXISTS))
    with pytest.raises(TopicExistsError, match=r"a: .*; b: ") as caught:
        admin.client.create_topics([NewTopic("a"), NewTopic("b")])
    assert set(caught.value.errors) == {"a", "b"}


def test_failures_of_several_kinds_raise_an_error_that_has_them_all(admin: Any) -> None:
    admin.answer(ApiKey.CREATE_TOPICS, created(a=TOPIC_EXISTS, b=INVALID_TOPIC, c=0))
    with pytest.raises(PartialFailureError) as caught:
        admin.client.create_topics([NewTopic("a"), NewTopic("b"), NewTopic("c")])
    assert {key: type(error) for key, error in caught.value.errors.items()} == {
        "a": TopicExistsError,
        "b": InvalidTopicError,
    }
    assert set(caught.value.results) == {"c"}


def test_results_give_values_by_key_and_raise_for_keys_that_failed() -> None:
    results: Results[str, int] = Results({"a": 1}, {"b": GroupNotEmptyError("b: it has members")})
    assert dict(results) == {"a": 1}
    assert results["a"] == 1
    assert "a" in results
    assert "b" not in results
    with pytest.raises(GroupNotEmptyError, match="b: it has members"):
        results["b"]
    with pytest.raises(KeyError):
        results["c"]


def test_topics_are_deleted_by_name_or_id(admin: Any) -> None:
    topic_id = b"0123456789abcdef"
    admin.answer(
        ApiKey.DELETE_TOPICS,
        DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name="a", topic_id=b"f" * 16),
                DeletableTopicResult(name="b", topic_id=topic_id, error_code=3),
            ]
        ),
    )
    results = admin.client.delete_topics(["a", topic_id], raise_errors=False)
    assert list(results) == ["a"]
    assert isinstance(results.errors[topic_id], UnknownTopicOrPartitionError)


def test_internal_topics_are_listed_on_request_only(admin: Any) -> None:
    assert list(admin.client.list_topics()) == ["t"]


def test_settings_are_set_reset_and_extended(admin: Any) -> None:
    admin.handlers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = lambda request: IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(resource_type=r.resource_type, resource_name=r.resource_name)
            for r in request.resources
        ]
    )
    topic, other = ConfigResource.topic("t"), ConfigResource.topic("u")
    admin.client.incremental_alter_configs(
        {
            topic: {"retention.ms": 5, "segment.ms": None},
            other: [AlterConfigOp("cleanup.policy", "compact", OpType.APPEND)],
        }
    )
    (request,) = admin.requests(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    changes = [[(c.name, c.config_operation, c.value) for c in r.configs] for r in request.resources]
    assert changes == [[("retention.ms", 0, "5"), ("segment.ms", 1, None)], [("cleanup.policy", 2, "compact")]]


def find_coordinator(admin: Any) -> None:
    admin.answer(
        ApiKey.FIND_COORDINATOR,
        FindCoordinatorResponse(coordinators=[Coordinator(key="g", node_id=1, host="one", port=9092)]),
    )


def test_committed_offsets_are_set_with_the_error_of_each_partition(admin: Any) -> None:
    find_coordinator(admin)

    def committed(first: int, second: int) -> OffsetCommitResponse:
        partitions = [
            OffsetCommitResponsePartition(partition_index=0, error_code=first),
            OffsetCommitResponsePartition(partition_index=1, error_code=second),
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])

    admin.answer(ApiKey.OFFSET_COMMIT, committed(NotCoordinatorError.code, 0), committed(0, 3))
    results = admin.client.alter_consumer_group_offsets("g", {T0: 5, T1: OffsetAndMetadata(6, "x")}, raise_errors=False)
    assert list(results) == [T0]
    assert isinstance(results.errors[T1], UnknownTopicOrPartitionError)
    assert len(admin.asked(ApiKey.OFFSET_COMMIT)) == 2
    with pytest.raises(UnknownTopicOrPartitionError, match="t-1"):
        admin.client.alter_consumer_group_offsets("g", {T0: 5, T1: 6})


def test_committed_offsets_of_partitions_without_one_are_left_out(admin: Any) -> None:
    find_coordinator(admin)
    partitions = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, committed_leader_epoch=1, metadata="m"),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata=""),
    ]
    group = OffsetFetchResponseGroup(group_id="g", topics=[OffsetFetchResponseTopics(name="t", partitions=partitions)])
    admin.answer(ApiKey.OFFSET_FETCH, OffsetFetchResponse(groups=[group]))
    assert admin.client.list_consumer_group_offsets("g", [T0, T1]) == {T0: OffsetAndMetadata(5, "m", 1)}


def test_an_answer_that_leaves_the_group_out_is_no_answer(admin: Any) -> None:
    found = Coordinator(key="g", node_id=1, host="one", port=9092)
    admin.answer(ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(), FindCoordinatorResponse(coordinators=[found]))
    admin.answer(
        ApiKey.OFFSET_FETCH,
        OffsetFetchResponse(),
        OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")]),
    )
    assert admin.client.list_consumer_group_offsets("g") == {}
    assert len(admin.asked(ApiKey.FIND_COORDINATOR)) >= 2
    assert len(admin.asked(ApiKey.OFFSET_FETCH)) == 2


# How it is used


@pytest.mark.parametrize(
    "misuse",
    [
        lambda client: client.create_topics(["t"]),
        lambda client: client.create_topics([NewTopic("t"), NewTopic("t")]),
        lambda client: client.delete_topics("t"),
        lambda client: client.describe_topics(["t"], timeout=-1),
        lambda client: client.list_offsets({T0: -1}, isolation_level="serializable"),
        lambda client: client.incremental_alter_configs({ConfigResource.topic("t"): ["retention.ms"]}),
        lambda client: client.describe_configs([ConfigResource.broker(1)._replace(name="one")]),
        lambda client: NewTopic(""),
        lambda client: NewTopic("t", 3, replica_assignments={0: [1]}),
    ],
)
def test_misuse_is_an_error_that_says_so(admin: Any, misuse: Any) -> None:
    with pytest.raises(IllegalArgumentError):
        misuse(admin.client)


def test_asking_for_nothing_asks_nobody(admin: Any) -> None:
    assert admin.client.create_topics([]) == {}
    assert admin.client.create_partitions({}) == {}
    assert admin.selector.connects == []


def test_new_partitions_can_be_placed(admin: Any) -> None:
    assert repr(NewPartitions(3, [(1,), (2,)])) == "NewPartitions(3, [[1], [2]])"
    assert NewTopic("t", 3) == NewTopic("t", 3)
    assert NewTopic("t", 3) != NewTopic("t", 4)


def test_a_closed_client_says_so(admin: Any) -> None:
    admin.client.close()
    admin.client.close()
    with pytest.raises(IllegalStateError, match="the admin client is closed"):
        admin.client.list_topics()


def test_closing_ends_a_call_of_another_thread_after_a_timeout() -> None:
    said: Queue[BaseException] = Queue()

    def ask(client: AdminClient) -> None:
        try:
            client.list_topics(timeout=600)
        except IllegalStateError as error:
            said.put(error)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = AdminClient(bootstrap_servers=f"127.0.0.1:{silent.getsockname()[1]}")
        thread = threading.Thread(target=ask, args=(client,), daemon=True)
        thread.start()
        with silent.accept()[0]:  # so the call is in progress
            with pytest.raises(IllegalArgumentError, match="negative"):
                client.close(timeout=-1)
            client.close(timeout=0.05)
            assert "closed" in str(said.get(timeout=30))
            thread.join(30)


def test_its_id_is_its_own_or_the_one_given(new_admin: Any) -> None:
    admin = new_admin(client_id="mine")
    admin.client.list_topics()
    assert {header.client_id for _, header, _ in admin.selector.received} == {"mine"}
    admin = new_admin()
    admin.client.list_topics()
    assert all(header.client_id.startswith("adminclient-") for _, header, _ in admin.selector.received)


def test_unknown_settings_are_refused(new_admin: Any) -> None:
    with pytest.raises(ConfigError, match="is not a setting of the admin"):
        new_admin(linger_ms=5)


def test_closing_does_not_wait_for_a_call_that_does_not_come_back(new_admin: Any) -> None:
    admin = new_admin()
    go_on, said = threading.Event(), Queue[BaseException]()
    poll = admin.selector.poll

    def hang(timeout: float, now: float) -> float:
        go_on.wait(60)
        return float(poll(timeout, now))

    def ask() -> None:
        try:
            admin.client.list_topics()
        except IllegalStateError as error:
            said.put(error)

    admin.selector.poll = hang
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    while not admin.client._lock.locked():
        time.sleep(0.001)
    began = time.monotonic()
    admin.client.close(timeout=0.05)
    assert time.monotonic() - began < 20
    assert thread.is_alive()

    go_on.set()
    thread.join(30)
    assert "closed" in str(said.get(timeout=30))
    with pytest.raises(IllegalStateError, match="closed"):
        admin.client._client.poll(0, 0.0)
