"""The requests that a group member sends, in the form that the coordinator's version of each API wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.client.arguments import LONGEST_REASON
from barnabas.client.consumer.membership.messages import NO_GENERATION, Generation, GroupMembershipOperation
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
from barnabas.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.thresholds import (
    FIND_COORDINATOR_KEYS_FROM,
    LEAVE_GROUP_MEMBERS_FROM,
    OFFSET_COMMIT_TOPIC_IDS_FROM,
    OFFSET_FETCH_GROUPS_FROM,
    OFFSET_FETCH_TOPIC_IDS_FROM,
)
from barnabas.protocol.topic_partition import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from barnabas.protocol.message import Message

PROTOCOL_TYPE: Final = "consumer"
# Versions from 10 on name topics by id, which a commit of offsets has to do without: it may outlive the topic.


class GroupIdentity:
    """What stays the same in all requests of one member; durations in milliseconds."""

    __slots__ = ("group_id", "group_instance_id", "rebalance_timeout_ms", "session_timeout_ms")

    def __init__(
        self, group_id: str, group_instance_id: str | None, session_timeout_ms: int, rebalance_timeout_ms: int
    ) -> None:
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms

    @property
    def is_dynamic(self) -> bool:
        """Whether the member has no name of its own that outlives it (KIP-345)."""
        return self.group_instance_id is None

    def leaves(self, operation: GroupMembershipOperation) -> bool:
        """Whether such an ending takes the member out of the group at once."""
        if operation is GroupMembershipOperation.DEFAULT:
            return self.is_dynamic
        return operation is GroupMembershipOperation.LEAVE_GROUP


def find_coordinator(group_id: str) -> RequestBuilder:
    """Which broker coordinates the group? From version 4 on the question is a list of groups."""

    def build(version: int) -> FindCoordinatorRequest:
        if version < FIND_COORDINATOR_KEYS_FROM:
            return FindCoordinatorRequest(key=group_id, key_type=CoordinatorType.GROUP)
        return FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=[group_id])

    return _builder(FindCoordinatorRequest, build)


def join_group(
    group: GroupIdentity, member_id: str, protocols: Iterable[tuple[str, bytes]], reason: str
) -> JoinGroupRequest:
    """Let this member into the group, or begin a rebalance as a member of it."""
    return JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=group.session_timeout_ms,
        rebalance_timeout_ms=group.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=group.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason[:LONGEST_REASON],
    )


def sync_group(group: GroupIdentity, generation: Generation, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
    """Give me my part of the assignment; the leader brings the whole."""
    return SyncGroupRequest(
        group_id=group.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=group.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=generation.protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in assignments.items()
        ],
    )


def heartbeat(group: GroupIdentity, generation: Generation) -> HeartbeatRequest:
    """I am still here."""
    return HeartbeatRequest(
        group_id=group.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=group.group_instance_id,
    )


def leave_group(group: GroupIdentity, member_id: str, reason: str) -> RequestBuilder:
    """I am going; from version 3 on the request is a list of members, and names static ones by instance id."""

    def build(version: int) -> LeaveGroupRequest:
        if version < LEAVE_GROUP_MEMBERS_FROM:
            return LeaveGroupRequest(group_id=group.group_id, member_id=member_id)
        member = MemberIdentity(
            member_id=member_id, group_instance_id=group.group_instance_id, reason=reason[:LONGEST_REASON]
        )
        return LeaveGroupRequest(group_id=group.group_id, members=[member])

    return _builder(LeaveGroupRequest, build)


def offset_commit(
    group: GroupIdentity, generation: Generation | None, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> RequestBuilder:
    """Remember these offsets, for the member of this generation, or for a group that has no members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (topic, partition), offset in offsets.items():
        assert offset.offset >= 0, f"{topic}-{partition}: OffsetCommits refuses what is negative"
        if topic not in topics:
            topics[topic] = OffsetCommitRequestTopic(name=topic)
        topics[topic].partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    member = generation or NO_GENERATION
    request = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=None if generation is None else group.group_instance_id,
        topics=list(topics.values()),
    )
    return _builder(OffsetCommitRequest, lambda version: request, OFFSET_COMMIT_TOPIC_IDS_FROM - 1)


def offset_fetch(group: GroupIdentity, partitions: Iterable[TopicPartition]) -> RequestBuilder:
    """Return what was committed for these partitions? Offsets of open transactions are waited for (KIP-447)."""
    topics = numbers_by_topic(partitions)

    def build(version: int) -> OffsetFetchRequest:
        if version < OFFSET_FETCH_GROUPS_FROM:
            old = [OffsetFetchRequestTopic(name=name, partition_indexes=found) for name, found in topics.items()]
            return OffsetFetchRequest(group_id=group.group_id, topics=old, require_stable=version >= 7)
        new = [OffsetFetchRequestTopics(name=name, partition_indexes=found) for name, found in topics.items()]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group.group_id, topics=new)], require_stable=True
        )

    return _builder(OffsetFetchRequest, build, OFFSET_FETCH_TOPIC_IDS_FROM - 1)


def _builder(message: type[Message], build: Callable[[int], Message], highest: int = 32767) -> RequestBuilder:
    low, high = message.VALID_VERSIONS
    return RequestBuilder(message.API_KEY, build, low, min(high, highest))
