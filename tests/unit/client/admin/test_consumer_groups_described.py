"""AdminClient.describe_groups and its like on groups of both protocols."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.admin.groups import GroupState, GroupType
from barnabas.client.consumer.assignors.consumer_partition_assignor import Assignment as Assigned
from barnabas.client.consumer.coordinator.consumer_protocol import serialize_assignment
from barnabas.errors import GroupIdNotFoundError, IllegalArgumentError
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from barnabas.protocol.messages.consumer_group_describe_response import DescribedGroup as ConsumerGroup
from barnabas.protocol.messages.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from barnabas.protocol.topic_partition import TopicPartition

NOT_FOUND = 69

MEMBER = Member(
    member_id="m",
    instance_id="one",
    client_id="c",
    client_host="/127.0.0.1",
    assignment=Assignment(topic_partitions=[TopicPartitions(topic_name="flights", partitions=[2, 0])]),
)


@pytest.fixture
def groups(admin: Any) -> Any:
    """A cluster with the classic group `old`, the consumer group `new`, one of Kafka Connect, and no other."""

    def coordinator(request: Any) -> FindCoordinatorResponse:
        coordinators = [Coordinator(key=key, node_id=2, host="two", port=9092) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=coordinators)

    def classic(request: Any) -> DescribeGroupsResponse:
        known = {
            "old": DescribedGroup(group_id="old", group_state="Empty", protocol_type="consumer"),
            "connect": DescribedGroup(group_id="connect", group_state="Stable", protocol_type="connect"),
        }
        unknown = {g: DescribedGroup(group_id=g, group_state="Dead", error_code=NOT_FOUND) for g in request.groups}
        return DescribeGroupsResponse(groups=[{**unknown, **known}[group] for group in request.groups])

    def consumer(request: Any) -> ConsumerGroupDescribeResponse:
        known = {"new": ConsumerGroup(group_id="new", group_state="Stable", assignor_name="uniform", members=[MEMBER])}
        unknown = {g: ConsumerGroup(group_id=g, error_code=NOT_FOUND) for g in request.group_ids}
        return ConsumerGroupDescribeResponse(groups=[{**unknown, **known}[group] for group in request.group_ids])

    admin.handlers[ApiKey.FIND_COORDINATOR] = coordinator
    admin.handlers[ApiKey.DESCRIBE_GROUPS] = classic
    admin.handlers[ApiKey.CONSUMER_GROUP_DESCRIBE] = consumer
    return admin


def test_a_group_of_the_consumer_protocol_is_described_like_a_classic_one(groups: Any) -> None:
    found = groups.client.describe_groups(["old", "new"])

    assert list(found) == ["old", "new"]
    new = found["new"]
    assert (new.group_id, new.protocol_type, new.protocol, new.state) == ("new", "consumer", "uniform", "Stable")
    (member,) = new.members
    assert (member.member_id, member.group_instance_id, member.client_id) == ("m", "one", "c")
    assert member.assignment == [TopicPartition("flights", 2), TopicPartition("flights", 0)]


@pytest.mark.parametrize("operation", ["describe_groups", "describe_consumer_groups"])
def test_only_groups_that_are_not_of_the_consumer_protocol_are_asked_about_twice(groups: Any, operation: str) -> None:
    found = getattr(groups.client, operation)(["new", "old"])

    assert [group.type for group in found.values()] == [GroupType.CONSUMER, GroupType.CLASSIC]
    assert {group.coordinator for group in found.values()} == {Node(2, "two", 9092)}
    assert [request.group_ids for request in groups.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)] == [["new", "old"]]
    assert [request.groups for request in groups.requests(ApiKey.DESCRIBE_GROUPS)] == [["old"]]


def test_a_group_of_anything_but_consumers_is_described_where_it_belongs(groups: Any) -> None:
    found = groups.client.describe_consumer_groups(["old", "connect"], raise_errors=False)
    assert list(found) == ["old"]
    assert "'connect' is not a consumer group (connect)" in str(found.errors["connect"])
    assert isinstance(found.errors["connect"], IllegalArgumentError)

    assert groups.client.describe_groups(["connect"])["connect"].state is GroupState.STABLE
    asked = len(groups.requests(ApiKey.CONSUMER_GROUP_DESCRIBE))
    found = groups.client.describe_classic_groups(["connect", "old", "new"], raise_errors=False)
    assert {name: group.protocol_type for name, group in found.items()} == {"connect": "connect", "old": "consumer"}
    assert isinstance(found.errors["new"], GroupIdNotFoundError)
    assert len(groups.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)) == asked


def test_a_group_that_nobody_knows_is_not_found(groups: Any) -> None:
    found = groups.client.describe_groups(["old", "none"], raise_errors=False)

    assert list(found) == ["old"]
    assert isinstance(found.errors["none"], GroupIdNotFoundError)
    with pytest.raises(GroupIdNotFoundError):
        groups.client.describe_groups(["none"])


def test_a_broker_without_the_consumer_protocol_has_the_last_word_on_classic_groups(groups: Any) -> None:
    def dead(request: Any) -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[DescribedGroup(group_id=g, group_state="Dead") for g in request.groups])

    groups.handlers[ApiKey.DESCRIBE_GROUPS] = dead
    versions = groups.handlers[ApiKey.API_VERSIONS](None)
    versions.api_keys = [key for key in versions.api_keys if key.api_key != ApiKey.CONSUMER_GROUP_DESCRIBE]
    groups.handlers[ApiKey.API_VERSIONS] = lambda request: versions

    assert groups.client.describe_groups(["none"])["none"].state == "Dead"


def test_an_assignment_in_a_newer_version_than_ours_is_read(groups: Any) -> None:
    assigned = serialize_assignment(Assigned((TopicPartition("flights", 1), TopicPartition("flights", 3)), None))
    member = DescribedGroupMember(member_id="m", member_assignment=b"\x00\x09" + assigned[2:] + b"more")
    group = DescribedGroup(group_id="old", group_state="Stable", protocol_type="consumer", members=[member])
    groups.handlers[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(groups=[group])

    (described,) = groups.client.describe_groups(["old"])["old"].members

    assert described.assignment == [TopicPartition("flights", 1), TopicPartition("flights", 3)]
