"""The operations on consumer groups of KIP-848's protocol."""

from __future__ import annotations

from typing import Any

from barnabas.client.admin.api_handler import Outcome
from barnabas.client.admin.groups import GroupDescription, MemberDescription
from barnabas.client.admin.lookups import CoordinatorLookup
from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from barnabas.protocol.topic_partition import TopicPartition


class ConsumerGroupDescribeHandler:
    """ConsumerGroupDescribe, at the coordinators."""

    name = "describe_groups"

    def __init__(self) -> None:
        self.lookup = CoordinatorLookup()

    def build_request(self, keys: list[str], timeout_ms: int) -> ConsumerGroupDescribeRequest:
        """See `AdminApiHandler`."""
        return ConsumerGroupDescribeRequest(group_ids=keys)

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, GroupDescription]) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if outcome.is_success(group.group_id, group.error_code, group.error_message):
                members = [_member(member) for member in group.members]
                description = GroupDescription(
                    group.group_id, "consumer", group.assignor_name, group.group_state, members
                )
                outcome.complete(group.group_id, description)


def _member(member: Any) -> MemberDescription:
    assigned = [TopicPartition(t.topic_name, n) for t in member.assignment.topic_partitions for n in t.partitions]
    return MemberDescription(member.member_id, member.instance_id, member.client_id, member.client_host, assigned)
