"""The operations on consumer groups of KIP-848's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.admin.acls import authorized_operations
from barnabas.client.admin.admin_api_handler import Outcome
from barnabas.client.admin.groups import GroupDescription, GroupState, GroupType, MemberDescription
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.consumer_group_describe_response import (
        Assignment,
        ConsumerGroupDescribeResponse,
        Member,
    )

_TYPE_NOT_TOLD = -1
_CONSUMER_MEMBER = 1


class ConsumerGroupDescribeHandler:
    """ConsumerGroupDescribe, at the coordinators."""

    def __init__(self, name: str, *, include_authorized_operations: bool) -> None:
        self.name = name
        self.lookup = CoordinatorStrategy()
        self._include_authorized_operations = include_authorized_operations

    def build_request(self, keys: list[str], timeout_ms: int) -> ConsumerGroupDescribeRequest:
        """See `AdminApiHandler`."""
        return ConsumerGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=self._include_authorized_operations
        )

    def handle_response(
        self, keys: list[str], response: ConsumerGroupDescribeResponse, outcome: Outcome[str, GroupDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if outcome.is_success(group.group_id, group.error_code, group.error_message):
                members = [_member(member) for member in group.members]
                description = GroupDescription(
                    group.group_id,
                    "consumer",
                    group.assignor_name,
                    GroupState(group.group_state),
                    members,
                    GroupType.CONSUMER,
                    outcome.broker,
                    group.group_epoch,
                    group.assignment_epoch,
                    authorized_operations(group.authorized_operations),
                )
                outcome.complete(group.group_id, description)


def _member(member: Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        member.rack_id,
        member.member_epoch,
        _partitions(member.target_assignment),
        None if member.member_type == _TYPE_NOT_TOLD else member.member_type == _CONSUMER_MEMBER,
    )


def _partitions(assignment: Assignment) -> list[TopicPartition]:
    return [TopicPartition(t.topic_name, number) for t in assignment.topic_partitions for number in t.partitions]
