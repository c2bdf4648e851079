"""The handlers of the group APIs on a whole broker without sockets: every version answers, in its own shape."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.broker_state import BrokerState
from barnabas.broker.config import BrokerConfig
from barnabas.broker.handlers.registry import SERVED
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.cluster_metadata import TopicMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.node import BrokerNode, Disk
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.request_context import Connection, RequestContext
from barnabas.broker.security.authorized_operations import AUTHORIZED_OPERATIONS
from barnabas.protocol.api import request_class, response_class
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, ResourceType
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

UNKNOWN_PARTITION = errors.UnknownTopicOrPartitionError.code
UNKNOWN_TOPIC_ID = errors.UnknownTopicIdError.code
TOPIC_ID = b"0123456789abcdef"
OTHER_ID = b"fedcba9876543210"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerState]:
    """A broker with the topic "t" of 3 partitions."""
    config = BrokerConfig({"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4})
    node = BrokerNode(config, Disk([str(tmp_path)]), MemoryStore(), random.Random(1), pytest.fail)
    node.start(Instant(0.0, 1000))
    node.state.advertised["PLAINTEXT"] = ("broker.example", 9092)
    node.state.metadata.put_topics([TopicMetadata("t", TOPIC_ID, 3, {}, 0)])
    yield node.state
    node.close(2000)


def ask(broker: BrokerState, request: Any, version: int) -> Any:
    """The response, after both went through the codec in this version."""
    key = request.API_KEY
    module = import_module(f"barnabas.broker.handlers.{SERVED[key][0]}")
    assert (key, SERVED[key][1:]) == (module.API, module.VERSIONS)
    assert module.VERSIONS == request.VALID_VERSIONS
    decoded = request_class(key).decode(request.encode(version), version)
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="client")
    connection = Connection(7, "127.0.0.1")
    response = module.handle(broker, RequestContext(header, connection, Instant(10.0, 5000)), decoded)
    if isinstance(response, DelayedOperation):
        assert response.done, "still waiting"
        response = response.result
    return response_class(key).decode(response.encode(version), version)


def versions(request: type) -> list[int]:
    low, high = request.VALID_VERSIONS
    return list(range(low, high + 1))


# --- FindCoordinator


@pytest.mark.shows("S2.15", breaks="barnabas.broker.handlers.find_coordinator:_coordinator")
@pytest.mark.shows("S3.65", breaks="barnabas.broker.handlers.find_coordinator:handle")
@pytest.mark.parametrize("version", versions(FindCoordinatorRequest))
def test_this_broker_coordinates_every_group(broker: BrokerState, version: int) -> None:
    assert broker.metadata.topic("__consumer_offsets") is None

    if version < 4:
        answer = ask(broker, FindCoordinatorRequest(key="g"), version)
        found = [(answer.error_code, answer.node_id, answer.host, answer.port)]
    else:
        answer = ask(broker, FindCoordinatorRequest(coordinator_keys=["g", "h"]), version)
        found = [(c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators]
        assert [c.key for c in answer.coordinators] == ["g", "h"]

    assert set(found) == {(0, broker.node_id, "broker.example", 9092)}
    assert broker.metadata.topic("__consumer_offsets").partitions == 4


@pytest.mark.parametrize(
    ("key_type", "error"), [(0, 0), (1, 0), (2, errors.InvalidRequestError.code), (9, errors.InvalidRequestError.code)]
)
def test_groups_and_transactions_have_a_coordinator_share_groups_have_none(
    broker: BrokerState, key_type: int, error: int
) -> None:
    for version in (1, 6):
        request = FindCoordinatorRequest(key="k", key_type=key_type, coordinator_keys=["k"] if version > 3 else [])
        if version > 3:
            request.key = ""
        answer = ask(broker, request, version)
        found = answer if version < 4 else answer.coordinators[0]

        assert found.error_code == error
        assert (found.node_id == -1) == bool(error)


# --- membership


@pytest.mark.parametrize("version", versions(JoinGroupRequest))
def test_joining_in_every_version(broker: BrokerState, version: int) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"meta")],
    )
    answer = ask(broker, request, version)
    if version >= 4:
        assert answer.error_code == errors.MemberIdRequiredError.code
        request.member_id = answer.member_id
        answer = ask(broker, request, version)

    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, answer.member_id)
    assert [member.metadata for member in answer.members] == [b"meta"]


def member_of(broker: BrokerState, group: str = "g", version: int = 3) -> str:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"meta")],
    )
    member_id: str = ask(broker, request, version).member_id
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id, b"mine")],
    )
    assert ask(broker, sync, 5).assignment == b"mine"
    return member_id


@pytest.mark.parametrize("version", versions(SyncGroupRequest))
@pytest.mark.parametrize("names_protocol", [True, False])
def test_from_version_5_on_a_sync_names_the_protocol(broker: BrokerState, version: int, names_protocol: bool) -> None:
    member_id = member_of(broker)
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
    if names_protocol and version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"

    answer = ask(broker, request, version)

    refused = version >= 5 and not names_protocol
    assert answer.error_code == (errors.InconsistentGroupProtocolError.code if refused else 0)
    assert answer.assignment == (b"" if refused else b"mine")


@pytest.mark.parametrize("version", versions(HeartbeatRequest))
def test_heartbeats_in_every_version(broker: BrokerState, version: int) -> None:
    member_id = member_of(broker)

    assert ask(broker, HeartbeatRequest("g", 1, member_id), version).error_code == 0
    assert ask(broker, HeartbeatRequest("g", 2, member_id), version).error_code == errors.IllegalGenerationError.code


@pytest.mark.parametrize("version", versions(LeaveGroupRequest))
def test_leaving_in_every_version(broker: BrokerState, version: int) -> None:
    member_id = member_of(broker)

    def leave() -> int:
        if version < 3:
            code: int = ask(broker, LeaveGroupRequest("g", member_id), version).error_code
            return code
        answer = ask(broker, LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), version)
        assert answer.error_code == 0
        assert [member.member_id for member in answer.members] == [member_id]
        only: int = answer.members[0].error_code
        return only

    assert leave() == 0
    assert leave() == errors.UnknownMemberIdError.code
    assert ask(broker, LeaveGroupRequest(""), version).error_code == errors.InvalidGroupIdError.code


# --- offsets


def commit(broker: BrokerState, version: int, *wanted: tuple[str | bytes, int], group: str = "g") -> list[tuple]:
    """Commit offset 10 + partition; (topic, partition, error) for each answer."""
    topics: dict[str | bytes, OffsetCommitRequestTopic] = {}
    for topic, partition in wanted:
        entry = topics.setdefault(topic, OffsetCommitRequestTopic())
        if version >= 10:
            entry.topic_id = topic
        else:
            entry.name = topic
        entry.partitions.append(OffsetCommitRequestPartition(partition, 10 + partition))
    answer = ask(broker, OffsetCommitRequest(group, topics=list(topics.values())), version)
    return [
        (topic.topic_id if version >= 10 else topic.name, partition.partition_index, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", range(2, 10))
def test_commits_by_name_are_answered_partition_by_partition(broker: BrokerState, version: int) -> None:
    answers = commit(broker, version, ("t", 0), ("t", 3), ("none", 0), ("t", 2), ("t", -1))

    assert sorted(answers) == [
        ("none", 0, UNKNOWN_PARTITION),
        ("t", -1, UNKNOWN_PARTITION),
        ("t", 0, 0),
        ("t", 2, 0),
        ("t", 3, UNKNOWN_PARTITION),
    ]
    assert [topic for topic, _, _ in answers][-1] == "none", "topics in the order of the request"
    assert fetch(broker, 9, ("t", 0), ("t", 2), ("none", 0)) == {("t", 0): 10, ("t", 2): 12, ("none", 0): -1}


def test_commits_by_id_are_answered_by_id(broker: BrokerState) -> None:
    answers = commit(broker, 10, (OTHER_ID, 0), (TOPIC_ID, 1), (TOPIC_ID, 9))

    assert sorted(answers) == [
        (TOPIC_ID, 1, 0),
        (TOPIC_ID, 9, UNKNOWN_PARTITION),
        (OTHER_ID, 0, UNKNOWN_TOPIC_ID),
    ]
    assert fetch(broker, 9, ("t", 1)) == {("t", 1): 11}


def test_a_commit_of_nothing_that_exists_makes_no_group(broker: BrokerState) -> None:
    commit(broker, 9, ("none", 0))

    assert ask(broker, ListGroupsRequest(), 5).groups == []


def test_a_commit_that_the_group_refuses_is_refused_for_every_partition(broker: BrokerState) -> None:
    member_of(broker)

    unknown = errors.UnknownMemberIdError.code
    assert commit(broker, 9, ("t", 0), ("t", 1)) == [("t", 0, unknown), ("t", 1, unknown)]


def fetch(broker: BrokerState, version: int, *wanted: tuple[str | bytes, int]) -> dict[tuple, int]:
    """Offsets, or minus the error code, by topic (name or id) and partition; everything without `wanted`."""
    by_id = version >= 10
    if version < 8:
        topics = [OffsetFetchRequestTopic(topic, [partition]) for topic, partition in wanted] if wanted else None
        answer = ask(broker, OffsetFetchRequest("g", topics), version)
        assert answer.error_code == 0
        found = answer.topics
    else:
        asked = (
            [
                OffsetFetchRequestTopics("", t, [p]) if by_id else OffsetFetchRequestTopics(t, bytes(16), [p])
                for t, p in wanted
            ]
            if wanted
            else None
        )
        (group,) = ask(broker, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=asked)]), version).groups
        assert (group.group_id, group.error_code) == ("g", 0)
        found = group.topics
    return {
        (topic.topic_id if by_id else topic.name, part.partition_index): -part.error_code
        if part.error_code
        else part.committed_offset
        for topic in found
        for part in topic.partitions
    }


@pytest.mark.shows("S2.21", breaks="barnabas.broker.groups.group_coordinator:GroupCoordinator.fetch_offsets")
@pytest.mark.parametrize("version", range(1, 10))
def test_fetches_by_name_in_every_version(broker: BrokerState, version: int) -> None:
    commit(broker, 9, ("t", 0), ("t", 1))

    assert fetch(broker, version, ("t", 0), ("t", 2), ("none", 0)) == {("t", 0): 10, ("t", 2): -1, ("none", 0): -1}
    if version >= 2:
        assert fetch(broker, version) == {("t", 0): 10, ("t", 1): 11}


def test_fetches_by_id(broker: BrokerState) -> None:
    commit(broker, 10, (TOPIC_ID, 0))

    found = fetch(broker, 10, (TOPIC_ID, 0), (TOPIC_ID, 1), (OTHER_ID, 0))

    assert found == {(TOPIC_ID, 0): 10, (TOPIC_ID, 1): -1, (OTHER_ID, 0): -UNKNOWN_TOPIC_ID}
    assert fetch(broker, 10) == {(TOPIC_ID, 0): 10}


def test_a_topic_that_is_gone_is_left_out_where_topics_go_by_id(broker: BrokerState) -> None:
    commit(broker, 9, ("t", 0))
    broker.metadata.delete_topics(["t"])

    assert fetch(broker, 10) == {}
    assert fetch(broker, 9) == {("t", 0): 10}


def test_several_groups_at_once(broker: BrokerState) -> None:
    commit(broker, 9, ("t", 0), group="a")
    groups = [OffsetFetchRequestGroup(group, topics=None) for group in ("a", "b")]

    answer = ask(broker, OffsetFetchRequest(groups=groups), 8)

    assert [(group.group_id, len(group.topics), group.error_code) for group in answer.groups] == [
        ("a", 1, 0),
        ("b", 0, 0),
    ]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_while_groups_are_loaded_every_version_says_so_in_its_own_place(
    broker: BrokerState, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading = errors.CoordinatorLoadInProgressError.code
    loader = broker.group_coordinator._loader
    monkeypatch.setattr(loader, "states", dict.fromkeys(range(4), "Loading"))
    if version < 8:
        answer = ask(broker, OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), version)
        codes = [part.error_code for topic in answer.topics for part in topic.partitions] + [answer.error_code]
        assert codes == ([loading, 0] if version == 1 else [loading])
    else:
        groups = [OffsetFetchRequestGroup("g", topics=[])]
        (group,) = ask(broker, OffsetFetchRequest(groups=groups), version).groups
        assert (group.error_code, group.topics) == (loading, [])
    assert {code for _, _, code in commit(broker, 9, ("t", 0))} == {loading}


def test_deleting_offsets(broker: BrokerState) -> None:
    commit(broker, 9, ("t", 0), ("t", 1))

    def delete(*partitions: int, topic: str = "t", group: str = "g") -> tuple[int, list[tuple]]:
        topics = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in partitions])]
        answer = ask(broker, OffsetDeleteRequest(group, topics), 0)
        found = [(t.name, part.partition_index, part.error_code) for t in answer.topics for part in t.partitions]
        return answer.error_code, found

    assert delete(0, 7) == (0, [("t", 0, 0), ("t", 7, UNKNOWN_PARTITION)])
    assert delete(0, topic="none") == (0, [("none", 0, UNKNOWN_PARTITION)])
    assert delete(0, group="nobody") == (errors.GroupIdNotFoundError.code, [])
    assert fetch(broker, 9) == {("t", 1): 11}


# --- administration


@pytest.mark.parametrize("version", versions(ListGroupsRequest))
def test_listing_in_every_version(broker: BrokerState, version: int) -> None:
    member_of(broker)

    (group,) = ask(broker, ListGroupsRequest(), version).groups

    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert group.group_state == ("Stable" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize("version", versions(DescribeGroupsRequest))
def test_describing_in_every_version(broker: BrokerState, version: int) -> None:
    member_id = member_of(broker)
    authorized = version >= 3

    answer = ask(broker, DescribeGroupsRequest(["g", "nobody"], include_authorized_operations=authorized), version)

    group, nobody = answer.groups
    assert (group.group_state, group.members[0].member_id, group.members[0].member_assignment) == (
        "Stable",
        member_id,
        b"mine",
    )
    assert nobody.group_state == "Dead"
    operations = AUTHORIZED_OPERATIONS[ResourceType.GROUP] if authorized else AUTHORIZED_OPERATIONS_NOT_REQUESTED
    assert group.authorized_operations == operations


@pytest.mark.parametrize("version", versions(DeleteGroupsRequest))
def test_deleting_in_every_version(broker: BrokerState, version: int) -> None:
    member_of(broker, "busy")
    commit(broker, 9, ("t", 0))

    answer = ask(broker, DeleteGroupsRequest(["g", "busy", "nobody", "g"]), version)

    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", 0),
        ("busy", errors.GroupNotEmptyError.code),
        ("nobody", errors.GroupIdNotFoundError.code),
    ]
