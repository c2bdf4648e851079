"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol in a consumer group.

No member leads: the coordinator assigns. A member's epoch is its generation; when the target assignment has moved on,
or it has to give something up, it is told to rebalance and joins again, which is its next step (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.groups.consumer.draft import GroupDraft
from barnabas.broker.groups.consumer.heartbeat import ConsumerMembership
from barnabas.broker.groups.consumer.heartbeat_validation import static_member
from barnabas.broker.groups.consumer.migration import can_downgrade, embedded_assignment
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_group_member import (
    STABLE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    ClassicMemberMetadata,
    ConsumerGroupMember,
)
from barnabas.broker.groups.embedded_protocol import by_topic_id, read_subscription
from barnabas.broker.groups.group import CONSUMER_PROTOCOL_TYPE
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.broker.instant import Instant
from barnabas.protocol.epochs import JOIN_EPOCH
from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse
from barnabas.protocol.messages.join_group_response import JoinGroupResponse
from barnabas.protocol.messages.leave_group_response import MemberResponse
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse
from barnabas.protocol.thresholds import JOIN_GROUP_MEMBER_ID_REQUIRED_FROM

if TYPE_CHECKING:
    from barnabas.broker.groups.classic.joining import Joining
    from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
    from barnabas.protocol.messages.leave_group_request import MemberIdentity
    from barnabas.protocol.messages.sync_group_request import SyncGroupRequest


class ClassicMembers:
    """The members of the classic protocol in all consumer groups."""

    __slots__ = ("_consumers", "_image", "_settings", "_store", "_timers")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        timers: TimerQueue,
        image: TopicImage,
        consumers: ConsumerMembership,
    ):
        self._settings = settings
        self._store = store
        self._timers = timers
        self._image = image
        self._consumers = consumers

    # --- JoinGroup

    def join(self, group: ConsumerGroup, joining: Joining, at: Instant) -> None:
        """Answer `joining.operation` at once. Raises KafkaError."""
        settings = self._settings
        if not settings.upgrade_enabled and not settings.downgrade_enabled:
            raise errors.InconsistentGroupProtocolError(
                f"Group {group.group_id} is a consumer group, and group.consumer.migration.policy is disabled."
            )
        member_id = joining.member_id or self._consumers.new_member_id()
        self._consumers.check_room(group, member_id)
        if not group.supports_classic_protocols(joining.protocol_type, set(joining.protocols)):
            raise errors.InconsistentGroupProtocolError(f"Group {group.group_id} does not know the member's protocols.")
        dynamic = joining.group_instance_id is None
        if dynamic and not joining.member_id and joining.version >= JOIN_GROUP_MEMBER_ID_REQUIRED_FROM:
            joining.refuse(errors.MemberIdRequiredError, member_id)
            return
        static = group.static_member(joining.group_instance_id)
        downgrades = static is not None and can_downgrade(group, {static.member_id}, settings)
        draft = GroupDraft(group)
        before = self._existing(draft, joining, member_id)
        member = self._step(draft, before, joining, at, downgrades)
        if static is not None and downgrades:
            self._consumers.downgrade(draft.group, set(), _is_under_way(draft.group, group, static), at, static)
        else:
            draft.commit(self._store, at)
            self._joined(group.group_id, member, at)
        joining.operation.complete(
            JoinGroupResponse(
                generation_id=member.member_epoch,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=next(iter(joining.protocols)),
                member_id=member.member_id,
            )
        )

    def _existing(self, draft: GroupDraft, joining: Joining, member_id: str) -> ConsumerGroupMember:
        instance_id = joining.group_instance_id
        static = draft.group.static_member(instance_id)
        if instance_id is not None and joining.member_id:
            return static_member(static, member_id, instance_id)
        if static is not None:
            return self._consumers.replace_static(draft, static, member_id)
        return draft.group.members.get(member_id) or ConsumerGroupMember(member_id)

    def _step(
        self, draft: GroupDraft, before: ConsumerGroupMember, joining: Joining, at: Instant, downgrades: bool
    ) -> ConsumerGroupMember:
        try:
            subscription = read_subscription(next(iter(joining.protocols.values())))
        except errors.ProtocolError as error:
            raise errors.InconsistentGroupProtocolError(f"The member's subscription is malformed: {error}") from None
        member = before._replace(
            instance_id=joining.group_instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            subscribed_topic_names=frozenset(subscription.topics),
            subscribed_topic_regex="",
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(joining.session_timeout_ms, tuple(joining.protocols.items())),
        )
        changed = self._consumers.update_subscription(draft, before, member, at)
        self._consumers.refresh_epoch(draft, changed)
        if downgrades:
            # What the group had agreed on holds; if that is out of date, the classic group rebalances.
            if before.member_epoch == JOIN_EPOCH:
                member = member._replace(member_epoch=draft.group.epoch, previous_member_epoch=before.member_epoch)
                draft.put_current(member)
            return member
        owned = by_topic_id(subscription.owned_partitions, self._image)
        return self._consumers.approach_target(draft, member, owned, changed, at)

    def _joined(self, group_id: str, member: ConsumerGroupMember, at: Instant) -> None:
        self._timers.cancel(("member join", group_id, member.member_id))
        self._consumers.renew_session(group_id, member, at)
        self._consumers.expire_later(("member sync", group_id, member.member_id), member.rebalance_timeout_ms, at)

    # --- SyncGroup and Heartbeat

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, at: Instant) -> SyncGroupResponse:
        """Return what the member has. Raises KafkaError."""
        member, classic = self._member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name = classic.protocols[0][0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise errors.InconsistentGroupProtocolError()
        if group.target_epoch > member.member_epoch and member.state != UNREVOKED_PARTITIONS:
            self._expect_join(group, member, at)
            raise errors.RebalanceInProgressError()
        self._timers.cancel(("member sync", group.group_id, member.member_id))
        self._consumers.renew_session(group.group_id, member, at)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=embedded_assignment(member, classic, self._image),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, at: Instant) -> HeartbeatResponse:
        """Keep the member's session; tell it when it has to join again. Raises KafkaError."""
        member, _ = self._member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._consumers.renew_session(group.group_id, member, at)
        if self._has_to_join(group, member, at):
            self._expect_join(group, member, at)
            raise errors.RebalanceInProgressError()
        return HeartbeatResponse()

    def _has_to_join(self, group: ConsumerGroup, member: ConsumerGroupMember, at: Instant) -> bool:
        if member.member_epoch < group.target_epoch or member.state == UNREVOKED_PARTITIONS:
            return True
        if member.state == UNRELEASED_PARTITIONS and self._can_get_more(group, member):
            return True
        # Only a request that joins computes a target, and no other member may be left to send one.
        return self._consumers.is_target_due(group, at)

    def _can_get_more(self, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
        return all(
            group.is_free(topic_id, index, member.member_id)
            for topic_id, indexes in group.targets.get(member.member_id, {}).items()
            for index in indexes
            if index not in member.assigned.get(topic_id, {})
        )

    def _expect_join(self, group: ConsumerGroup, member: ConsumerGroupMember, at: Instant) -> None:
        key = ("member join", group.group_id, member.member_id)
        if key not in self._timers:
            self._consumers.expire_later(key, member.rebalance_timeout_ms, at)

    def _member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = static_member(group.static_member(instance_id), member_id, instance_id)
        if member.classic is None:
            raise errors.UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
        return member, member.classic

    # --- LeaveGroup

    def leave(self, group: ConsumerGroup, members: list[MemberIdentity], at: Instant) -> list[MemberResponse]:
        """Put members out, each by its id or, without one, by its group.instance.id. Raises KafkaError."""
        gone: dict[str, ConsumerGroupMember] = {}
        responses = []
        for identity in members:
            response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                member = self._leaving(group, identity)
                response.member_id = member.member_id
                gone[member.member_id] = member
            except errors.KafkaError as error:
                response.error_code = error.code
            responses.append(response)
        if gone:
            self._consumers.put_out(group, list(gone.values()), at)
        return responses

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
        # An administrator may put out members of either protocol.
        instance_id = identity.group_instance_id
        if instance_id is None:
            return group.member(identity.member_id)
        static = group.static_member(instance_id)
        member_id = identity.member_id or (static.member_id if static is not None else "")
        return static_member(static, member_id, instance_id)


def _is_under_way(group: ConsumerGroup, before: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
    # Whether what the members have is not yet, or not any more, what they should have.
    others = [member for member in before.members.values() if member is not replaced]
    settled = replaced.state == STABLE and all(member.is_reconciled_to(before.target_epoch) for member in others)
    return group.epoch > before.target_epoch or not settled


def _check_generation(member: ConsumerGroupMember, generation_id: int) -> None:
    if member.member_epoch != generation_id:
        raise errors.IllegalGenerationError()
