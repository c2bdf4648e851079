"""Groups in general, and those of the classic protocol."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.acls import authorized_operations
from barnabas.client.admin.admin_api_handler import Outcome, StaticLookup
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.client.admin.requests import RequestInParts
from barnabas.client.arguments import LONGEST_REASON
from barnabas.client.consumer.coordinator.consumer_protocol import deserialize_assignment
from barnabas.errors import IllegalArgumentError
from barnabas.network.client_request import RequestBuilder
from barnabas.network.node import Node
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import AclOperation
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
from barnabas.protocol.protocol_enum import NamedEnum
from barnabas.protocol.thresholds import LEAVE_GROUP_MEMBERS_FROM
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.delete_groups_response import DeleteGroupsResponse
    from barnabas.protocol.messages.describe_groups_response import DescribedGroupMember, DescribeGroupsResponse
    from barnabas.protocol.messages.leave_group_response import LeaveGroupResponse
    from barnabas.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse

_CONSUMER = "consumer"
_FIRST_LIST_WITH_STATES = 4
_FIRST_LIST_WITH_TYPES = 5
_FIRST_DESCRIBE_WITH_OPERATIONS = 3
_REMOVED = "member was removed by an admin"


class GroupState(NamedEnum):
    """The states of groups, with the names of the protocol; not every kind of group has all."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(NamedEnum):
    """The protocols of groups, with the names of the protocol."""

    UNKNOWN = "unknown"
    CONSUMER = "consumer"
    CLASSIC = "classic"
    SHARE = "share"
    STREAMS = "streams"


class GroupListing(NamedTuple):
    """A group in a list; `state` and `type` are None when the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: GroupState | None
    type: GroupType | None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has offsets and never had members."""
        return self.type == GroupType.CLASSIC and not self.protocol_type


class MemberDescription(NamedTuple):
    """A member of a group, and the partitions it has (of a group of consumers).

    What follows the assignment is told of members of groups of KIP-848 only: `target_assignment` is what the member is
    to have, `is_upgraded` whether it speaks that protocol itself.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    rack_id: str | None = None
    member_epoch: int | None = None
    target_assignment: list[TopicPartition] | None = None
    is_upgraded: bool | None = None


class GroupDescription(NamedTuple):
    """A group: `protocol` is the assignor its members agreed on, `coordinator` the broker that keeps it.

    Only groups of KIP-848 have epochs. `authorized_operations` is what the caller may do with it, if that was asked.
    """

    group_id: str
    protocol_type: str
    protocol: str
    state: GroupState
    members: list[MemberDescription]
    type: GroupType
    coordinator: Node
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether it has offsets and never had members."""
        return not self.protocol_type


class ListGroupsHandler:
    """ListGroups, from every broker: each knows the groups it coordinates. The keys are the brokers' ids."""

    name = "list_groups"

    def __init__(self, *, states: Collection[str], types: Collection[str], protocol_types: Collection[str]) -> None:
        self.lookup: StaticLookup[int] = StaticLookup(lambda node_id: node_id)
        self._protocol_types = protocol_types
        self._states = list(states)
        self._types = list(types)

    def build_request(self, keys: list[int], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        message = ListGroupsRequest(states_filter=self._states, types_filter=self._types)
        low, high = stable_versions(ApiKey.LIST_GROUPS)
        if self._states:
            low = max(low, _FIRST_LIST_WITH_STATES)
        if self._types:
            low = max(low, _FIRST_LIST_WITH_TYPES)
        return RequestBuilder(ApiKey.LIST_GROUPS, lambda _: message, low, high)

    def handle_response(
        self, keys: list[int], response: ListGroupsResponse, outcome: Outcome[int, list[GroupListing]]
    ) -> None:
        """See `AdminApiHandler`."""
        if outcome.is_success(keys[0], response.error_code):
            wanted = self._protocol_types
            found = [g for g in response.groups if not wanted or g.protocol_type in wanted]
            outcome.complete(keys[0], [_listing(group) for group in found])


def _listing(group: ListedGroup) -> GroupListing:
    state, kind = GroupState.or_none(group.group_state), GroupType.or_none(group.group_type)
    return GroupListing(group.group_id, group.protocol_type, state, kind)


class DescribeGroupsHandler:
    """DescribeGroups, at the coordinators; with `only_consumers` a group of anything else fails."""

    def __init__(self, name: str, *, include_authorized_operations: bool, only_consumers: bool = False) -> None:
        self.name = name
        self.lookup = CoordinatorStrategy()
        self._only_consumers = only_consumers
        self._include_authorized_operations = include_authorized_operations

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        message = DescribeGroupsRequest(groups=keys, include_authorized_operations=self._include_authorized_operations)
        low, high = stable_versions(ApiKey.DESCRIBE_GROUPS)
        low = _FIRST_DESCRIBE_WITH_OPERATIONS if self._include_authorized_operations else low
        return RequestBuilder(ApiKey.DESCRIBE_GROUPS, lambda _: message, low, high)

    def handle_response(
        self, keys: list[str], response: DescribeGroupsResponse, outcome: Outcome[str, GroupDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if not outcome.is_success(group.group_id, group.error_code, group.error_message):
                continue
            if self._only_consumers and group.protocol_type not in ("", _CONSUMER):
                kind = f"group {group.group_id!r} is not a consumer group ({group.protocol_type})"
                outcome.fail(group.group_id, IllegalArgumentError(kind))
                continue
            description = GroupDescription(
                group.group_id,
                group.protocol_type,
                group.protocol_data,
                GroupState(group.group_state),
                [_member(member, group.protocol_type) for member in group.members],
                GroupType.CLASSIC,
                outcome.broker,
                authorized_operations=authorized_operations(group.authorized_operations),
            )
            outcome.complete(group.group_id, description)


def _member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    is_assigned = protocol_type == _CONSUMER and member.member_assignment
    assigned = list(deserialize_assignment(bytes(member.member_assignment)).partitions) if is_assigned else []
    return MemberDescription(member.member_id, member.group_instance_id, member.client_id, member.client_host, assigned)


class DeleteGroupsHandler:
    """DeleteGroups, at the coordinators."""

    name = "delete_groups"

    def __init__(self) -> None:
        self.lookup = CoordinatorStrategy()

    def build_request(self, keys: list[str], timeout_ms: int) -> DeleteGroupsRequest:
        """See `AdminApiHandler`."""
        return DeleteGroupsRequest(groups_names=keys)

    def handle_response(self, keys: list[str], response: DeleteGroupsResponse, outcome: Outcome[str, None]) -> None:
        """See `AdminApiHandler`."""
        for result in response.results:
            if outcome.is_success(result.group_id, result.error_code):
                outcome.complete(result.group_id, None)


class MemberToRemove(NamedTuple):
    """A member that is to leave: a static one by its instance id, any other by its member id."""

    group_instance_id: str | None = None
    member_id: str = ""

    def __str__(self) -> str:
        return self.group_instance_id or self.member_id


def remove_members(members: Collection[MemberToRemove], reason: str | None) -> RequestInParts[MemberToRemove]:
    """LeaveGroup on behalf of members, at the group's coordinator."""
    text = f"{_REMOVED}: {reason}"[:LONGEST_REASON] if reason else _REMOVED

    def build(group_id: str, timeout_ms: int) -> RequestBuilder:
        leaving = [
            MemberIdentity(member_id=member.member_id, group_instance_id=member.group_instance_id, reason=text)
            for member in members
        ]
        message = LeaveGroupRequest(group_id=group_id, members=leaving)
        high = stable_versions(ApiKey.LEAVE_GROUP)[1]
        return RequestBuilder(ApiKey.LEAVE_GROUP, lambda _: message, LEAVE_GROUP_MEMBERS_FROM, high)

    def parts(response: LeaveGroupResponse) -> Iterable[tuple[MemberToRemove, int, str | None]]:
        for asked, member in zip(members, response.members, strict=False):
            yield asked, member.error_code, None

    return RequestInParts("remove_members_from_consumer_group", CoordinatorStrategy(), build, parts)
