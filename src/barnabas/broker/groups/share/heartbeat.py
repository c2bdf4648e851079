"""ShareGroupHeartbeat: joining, living in and leaving a share group (KIP-932)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.modern_group import said
from barnabas.broker.groups.share import simple_assignor
from barnabas.broker.groups.share.draft import ShareGroupDraft
from barnabas.broker.groups.share.simple_assignor import ShareMemberSpec
from barnabas.broker.groups.share_group import Partitions, ShareGroup, ShareGroupMember
from barnabas.broker.groups.topic_image import metadata_hash
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.protocol.messages.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.coordinator.timers import TimerQueue
    from barnabas.broker.groups.group_coordinator_config import GroupSettings
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.share.state_partitions import ShareStates
    from barnabas.broker.groups.topic_image import TopicImage
    from barnabas.broker.instant import Instant
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

#: How long after a failed write a member is put out again.
_RETRY_SECONDS = 0.5
#: So long (seconds) a member waits for its share-partitions to be begun; else it has them with a later heartbeat.
_PATIENCE = 1.0


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise InvalidRequestError."""
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise errors.InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            raise errors.InvalidRequestError("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise errors.InvalidRequestError(f"MemberEpoch {request.member_epoch} is invalid.")


class ShareMembership:
    """Who is in which share group, and what each member has."""

    __slots__ = ("_image", "_settings", "_states", "_store", "_timers", "rebalances")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        timers: TimerQueue,
        image: TopicImage,
        states: ShareStates,
    ) -> None:
        self._settings = settings
        self._store = store
        self._timers = timers
        self._image = image
        self._states = states
        #: How many group epochs were begun.
        self.rebalances = 0

    def prepare(self, request: ShareGroupHeartbeatRequest, at: Instant, go_on: Callable[[], None]) -> None:
        """Have the states begun that a member's heartbeat needs; `go_on` is called then, or after a moment.

        Raises KafkaError.
        """
        check_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH or not request.subscribed_topic_names:
            go_on()
            return
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(request.group_id, joins)
        self._existing(group, request, joins)
        self._states.initialize(group, frozenset(request.subscribed_topic_names), at)
        if not self._states.is_beginning(request.group_id):
            go_on()
            return
        key = ("share states", request.group_id, request.member_id)
        has_gone_on = False

        def once() -> None:
            nonlocal has_gone_on
            if not has_gone_on:
                has_gone_on = True
                self._timers.cancel(key)
                go_on()

        self._timers.schedule(key, at.now + _PATIENCE, lambda later: once())
        self._states.when_begun(request.group_id, once)

    def heartbeat(
        self, context: RequestContext, request: ShareGroupHeartbeatRequest, at: Instant
    ) -> ShareGroupHeartbeatResponse:
        """Join, go on or leave. Raises KafkaError."""
        check_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request, at)
        joins = request.member_epoch == JOIN_EPOCH
        group = self._group(request.group_id, joins)
        before = self._existing(group, request, joins)
        self._states.initialize(group, frozenset(request.subscribed_topic_names or before.subscribed_topic_names), at)
        # The states may be there already.
        draft = ShareGroupDraft(self._group(request.group_id, joins))
        member = _said(before, context, request)
        changed = self._update_subscription(draft, before, member)
        self._refresh_epoch(draft, changed)
        self._update_target(draft, at)
        member = self._reconciled(draft, member)
        draft.commit(self._store, at)
        draft.group.metadata_version = self._image.version
        self.renew_session(request.group_id, member.member_id, at)
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._settings.share_heartbeat_interval_ms(request.group_id),
            assignment=None,
        )
        if joins or request.subscribed_topic_names is not None or before.assigned != member.assigned:
            response.assignment = _assignment(member.assigned)
        return response

    # --- the group and the member

    def _group(self, group_id: str, joins: bool) -> ShareGroup:
        group = self._store.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        if group is not None or not joins:
            kind = "not found" if group is None else "not a share group"
            raise errors.GroupIdNotFoundError(f"Group {group_id} is {kind}.")
        self._store.check_room(group_id)
        return ShareGroup(group_id)

    def _existing(self, group: ShareGroup, request: ShareGroupHeartbeatRequest, joins: bool) -> ShareGroupMember:
        member = group.members.get(request.member_id)
        if member is None:
            if not joins:
                group.member(request.member_id)
            limit = self._settings.share_max_size
            if len(group.members) >= limit:
                raise errors.GroupMaxSizeReachedError(f"Group {group.group_id} has its {limit} members already.")
            return ShareGroupMember(request.member_id)
        epoch = request.member_epoch
        # The answer that told the next epoch may have got lost.
        if epoch not in (JOIN_EPOCH, member.member_epoch, member.previous_member_epoch) or epoch > member.member_epoch:
            raise errors.FencedMemberEpochError(
                f"Member {member.member_id} is in epoch {member.member_epoch}, not {epoch}. It must join again."
            )
        return member

    # --- subscriptions, epochs, the target

    def _update_subscription(self, draft: ShareGroupDraft, before: ShareGroupMember, member: ShareGroupMember) -> bool:
        known = draft.group.members.get(member.member_id)
        if known is None or known.metadata != member.metadata:
            draft.put_member(member)
        return before.subscribed_topic_names != member.subscribed_topic_names

    def _refresh_epoch(self, draft: ShareGroupDraft, changed: bool) -> None:
        """Begin a new epoch if the subscription changed, the topics did, or more partitions can be assigned."""
        group = draft.group
        changed = changed or (group.target_epoch >= group.epoch and group.lacks_initialized())
        if not changed and group.metadata_version == self._image.version:
            return
        found = metadata_hash(group.subscribed_topics, self._image)
        if changed or found != group.metadata_hash:
            draft.put_epoch(group.epoch + 1, found)
            self.rebalances += 1

    def _update_target(self, draft: ShareGroupDraft, at: Instant) -> None:
        group = draft.group
        if group.target_epoch >= group.epoch:
            return
        if not group.is_target_due(self._settings.share_assignment_interval_ms(group.group_id), at):
            return
        members = {
            member.member_id: ShareMemberSpec(self._topic_ids(member), group.targets.get(member.member_id, {}))
            for member in group.members.values()
        }
        partitions = {topic_id: topic.partitions for topic_id, topic in group.states.initialized.items()}
        for member_id, target in simple_assignor.assign(members, partitions).items():
            if group.targets.get(member_id) != target:
                draft.put_target(member_id, target)
        draft.put_target_epoch(group.epoch, at.now_ms)

    def _topic_ids(self, member: ShareGroupMember) -> frozenset[bytes]:
        found = (self._image.topic(name) for name in member.subscribed_topic_names)
        return frozenset(topic.id for topic in found if topic is not None)

    def _reconciled(self, draft: ShareGroupDraft, member: ShareGroupMember) -> ShareGroupMember:
        group = draft.group
        subscribed = self._topic_ids(member)
        target = group.targets.get(member.member_id, {})
        assigned = {topic_id: numbers for topic_id, numbers in target.items() if topic_id in subscribed}
        after = member._replace(assigned=assigned)
        if group.target_epoch != member.member_epoch:
            after = after._replace(member_epoch=group.target_epoch, previous_member_epoch=member.member_epoch)
        if after != member:
            draft.put_current(after)
        return after

    # --- leaving

    def _leave(self, request: ShareGroupHeartbeatRequest, at: Instant) -> ShareGroupHeartbeatResponse:
        group = self._group(request.group_id, joins=False)
        self.put_out(group, group.member(request.member_id), at)
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, assignment=None
        )

    def put_out(self, group: ShareGroup, member: ShareGroupMember, at: Instant) -> None:
        """Put a member out. Raises KafkaError."""
        draft = ShareGroupDraft(group)
        draft.remove_member(member.member_id)
        draft.put_epoch(group.epoch + 1, metadata_hash(draft.group.subscribed_topics, self._image))
        draft.commit(self._store, at)
        self._timers.cancel(_session(group.group_id, member.member_id))

    # --- timers

    def loaded(self, group: ShareGroup, at: Instant) -> None:
        """Start a whole session for each member of a group that comes from the log."""
        for member_id in group.members:
            self.renew_session(group.group_id, member_id, at)

    def unload(self, group: ShareGroup) -> None:
        """Another broker coordinates the group, or none."""
        for member_id in group.members:
            self._timers.cancel(_session(group.group_id, member_id))

    def renew_session(self, group_id: str, member_id: str, at: Instant) -> None:
        """Note that the member was heard of: its session timeout begins anew."""
        deadline = at.now + self._settings.share_session_timeout_ms(group_id) / 1000
        self._timers.schedule(_session(group_id, member_id), deadline, partial(self._expire, group_id, member_id))

    def _expire(self, group_id: str, member_id: str, at: Instant) -> None:
        group = self._store.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
        if not isinstance(group, ShareGroup) or member is None:
            return
        try:
            self.put_out(group, member, at)
        except errors.KafkaError as error:
            problem = f"member {member_id} of group {group_id} could not be put out: {error}"
            self._store.warn_of_retry(group_id, "put out", problem)
            again = partial(self._expire, group_id, member_id)
            self._timers.schedule(_session(group_id, member_id), at.now + _RETRY_SECONDS, again)


def _session(group_id: str, member_id: str) -> tuple[str, str, str]:
    return "share session", group_id, member_id


def _said(member: ShareGroupMember, context: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareGroupMember:
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=said(request.rack_id, member.rack_id),
        client_id=context.client_id or "",
        client_host=context.connection.inet_address,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
    )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
        ]
    )
