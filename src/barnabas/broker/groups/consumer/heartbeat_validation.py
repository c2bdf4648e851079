"""What a ConsumerGroupHeartbeat has to look like (KIP-848, KIP-1082), and whether its member may send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnsupportedAssignorError,
)
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH

if TYPE_CHECKING:
    from barnabas.broker.groups.consumer_group_member import ConsumerGroupMember, Partitions
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

#: From this version on the client makes its member id.
_MEMBER_ID_REQUIRED_FROM = 1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Raise InvalidRequestError or UnsupportedAssignorError."""
    epoch = request.member_epoch
    if epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequestError(f"MemberEpoch {epoch} is invalid.")
    if version >= _MEMBER_ID_REQUIRED_FROM or epoch not in (JOIN_EPOCH, LEAVE_STATIC_EPOCH):
        _check_not_empty("MemberId", request.member_id)
    _check_not_empty("GroupId", request.group_id)
    _check_not_empty("InstanceId", request.instance_id)
    _check_not_empty("RackId", request.rack_id)
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null when a static member leaves for a while.")
    name = request.server_assignor
    if epoch not in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH) and name is not None and name not in settings.consumer_assignors:
        supported = ", ".join(settings.consumer_assignors)
        raise UnsupportedAssignorError(f"ServerAssignor {name} is not supported. Supported assignors: {supported}.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in the first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError("SubscribedTopicNames or SubscribedTopicRegex must be set in the first request.")


def _check_not_empty(name: str, value: str | None) -> None:
    if value is not None and not value.strip():
        raise InvalidRequestError(f"{name} can't be empty.")


def static_member(static: ConsumerGroupMember | None, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Return the static member, if it is who it says. Raises UnknownMemberIdError or FencedInstanceIdError."""
    if static is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise FencedInstanceIdError(
            f"Member {member_id} with group.instance.id {instance_id} was fenced by member {static.member_id}."
        )
    return static


def check_epoch(member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FencedMemberEpochError unless the member is in this epoch, or may have missed the answer with the next."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    # The answer that told the next epoch may have got lost.
    if epoch == member.previous_member_epoch and epoch < member.member_epoch and _has_no_more(request, member):
        return
    raise FencedMemberEpochError(
        f"Member {member.member_id} is in epoch {member.member_epoch}, not {epoch}. "
        "It must give up all partitions and join again."
    )


def _has_no_more(request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember) -> bool:
    owned = owned_partitions(request)
    if owned is None:
        return False
    return all(indexes <= member.assigned.get(topic_id, {}).keys() for topic_id, indexes in owned.items())


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Partitions | None:
    """Return the partitions that the request names; None where it leaves them out."""
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: frozenset(topic.partitions) for topic in request.topic_partitions}
