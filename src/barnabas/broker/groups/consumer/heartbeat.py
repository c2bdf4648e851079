"""ConsumerGroupHeartbeat: joining, living in and leaving a consumer group (KIP-848)."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer.current_assignment import Target, reconcile
from barnabas.broker.groups.consumer.draft import GroupDraft
from barnabas.broker.groups.consumer.heartbeat_validation import check_epoch, owned_partitions, static_member
from barnabas.broker.groups.consumer.migration import can_downgrade, check_upgrade, downgraded, upgraded
from barnabas.broker.groups.consumer.regex_resolution import update_regexes
from barnabas.broker.groups.consumer.target_assignment import can_compute, update_target
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_group_member import (
    UNREVOKED_PARTITIONS,
    ConsumerGroupMember,
    Partitions,
    partitions_of,
)
from barnabas.broker.groups.consumer_group_records import group_tombstones
from barnabas.broker.groups.coordinator_records import group_metadata_tombstone
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.modern_group import said
from barnabas.broker.groups.topic_image import TopicImage, metadata_hash
from barnabas.broker.instant import Instant
from barnabas.protocol.epochs import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from barnabas.protocol.kafka_uuid import random_uuid, to_text
from barnabas.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

#: How long after a failed write a member is put out again.
_RETRY_SECONDS = 0.5


class ConsumerMembership:
    """Who is in which consumer group, and what each member has."""

    __slots__ = ("_image", "_random", "_rebalance", "_settings", "_store", "_timers")

    def __init__(
        self,
        settings: GroupSettings,
        store: GroupStore,
        timers: TimerQueue,
        image: TopicImage,
        rebalance: Rebalance,
        random: Random,
    ):
        self._settings = settings
        self._store = store
        self._timers = timers
        self._image = image
        self._rebalance = rebalance
        self._random = random

    def heartbeat(
        self, context: RequestContext, request: ConsumerGroupHeartbeatRequest, at: Instant
    ) -> ConsumerGroupHeartbeatResponse:
        """Join, go on or leave. Raises KafkaError."""
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request, at)
        joins = request.member_epoch == JOIN_EPOCH
        draft = self._draft(request.group_id, joins, at)
        member_id = request.member_id or self.new_member_id()
        self.check_room(draft.group, member_id)
        before = self._existing(draft, request, member_id, joins)
        member = self._said(before, context, request)
        changed = self.update_subscription(draft, before, member, at)
        self.refresh_epoch(draft, changed)
        member = self.approach_target(draft, member, owned_partitions(request), changed, at)
        draft.commit(self._store, at)
        draft.group.metadata_version = self._image.version
        self.renew_session(draft.group.group_id, member, at)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=self._settings.consumer_heartbeat_interval_ms(draft.group.group_id),
            assignment=None,
        )
        if joins or _is_full(request) or before.assigned != member.assigned:
            response.assignment = _assignment(partitions_of(member.assigned))
        return response

    def new_member_id(self) -> str:
        """Return an id for a member that has none."""
        return to_text(random_uuid(self._random))

    # --- the group and the member

    def _draft(self, group_id: str, joins: bool, at: Instant) -> GroupDraft:
        group = self._store.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return GroupDraft(group)
        if group is None and joins:
            self._store.check_room(group_id)
            return GroupDraft(ConsumerGroup(group_id))
        if isinstance(group, ClassicGroup) and joins and group.is_empty:
            # Its offsets stay; only the group itself is of another kind from now on.
            return GroupDraft(ConsumerGroup(group_id), [group_metadata_tombstone(group_id)])
        if isinstance(group, ClassicGroup) and joins:
            return self._upgrade(group, at)
        kind = "not found" if group is None else "not a consumer group"
        raise errors.GroupIdNotFoundError(f"Group {group_id} is {kind}.")

    def _upgrade(self, classic: ClassicGroup, at: Instant) -> GroupDraft:
        check_upgrade(classic, self._settings)
        draft = upgraded(classic, self._image)
        draft.afterwards(partial(self._rebalance.let_go, classic))
        for member in draft.group.members.values():
            draft.afterwards(partial(self.renew_session, classic.group_id, member, at))
        return draft

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReachedError."""
        limit = self._settings.consumer_max_size
        if len(group.members) >= limit and member_id not in group.members:
            raise errors.GroupMaxSizeReachedError(f"Group {group.group_id} has its {limit} members already.")

    def _existing(
        self, draft: GroupDraft, request: ConsumerGroupHeartbeatRequest, member_id: str, joins: bool
    ) -> ConsumerGroupMember:
        group = draft.group
        instance_id = request.instance_id
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                if not joins:
                    raise errors.UnknownMemberIdError(f"Member {member_id} is not a member of group {group.group_id}.")
                return ConsumerGroupMember(member_id)
            check_epoch(member, request)
            return member
        static = group.static_member(instance_id)
        if not joins:
            member = static_member(static, member_id, instance_id)
            check_epoch(member, request)
            return member
        if static is None:
            return group.members.get(member_id) or ConsumerGroupMember(member_id)
        if static.classic is None and static.member_epoch != LEAVE_STATIC_EPOCH:
            raise errors.UnreleasedInstanceIdError(
                f"Member {member_id} cannot join: member {static.member_id} has group.instance.id {instance_id}."
            )
        return self.replace_static(draft, static, member_id)

    def replace_static(self, draft: GroupDraft, static: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """Give all that a static member has to the member that comes in its place."""
        target = draft.group.targets.get(static.member_id, {})
        member = static._replace(member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
        draft.remove_member(static.member_id)
        draft.put_member(member)
        draft.put_target(member_id, target)
        draft.put_current(member)
        draft.afterwards(partial(self.end_timers, draft.group.group_id, static.member_id))
        return member

    def _said(
        self, member: ConsumerGroupMember, context: RequestContext, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupMember:
        names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
        return member._replace(
            instance_id=said(request.instance_id, member.instance_id),
            rack_id=said(request.rack_id, member.rack_id),
            client_id=context.client_id or "",
            client_host=context.connection.inet_address,
            subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
            subscribed_topic_regex=said(request.subscribed_topic_regex, member.subscribed_topic_regex),
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            server_assignor=said(request.server_assignor, member.server_assignor),
            classic=None,
        )

    # --- subscriptions and the group epoch

    def update_subscription(
        self, draft: GroupDraft, before: ConsumerGroupMember, member: ConsumerGroupMember, at: Instant
    ) -> bool:
        """Take over what the member says of itself; gives whether what it subscribes to is another now."""
        known = draft.group.members.get(member.member_id)
        if known is None or known.metadata != member.metadata:
            draft.put_member(member)
        regexes_changed = update_regexes(draft, before, member, self._image, at)
        return regexes_changed or before.subscribed_topic_names != member.subscribed_topic_names

    def is_target_due(self, group: ConsumerGroup, at: Instant) -> bool:
        """Whether the next request that joins would compute another target assignment."""
        if group.metadata_version != self._image.version:
            found = metadata_hash(group.subscribed_topics, self._image)
            if found != group.metadata_hash:
                return True
            group.metadata_version = self._image.version
        return group.epoch > group.target_epoch and can_compute(group, self._settings, at)

    def refresh_epoch(self, draft: GroupDraft, changed: bool) -> None:
        """Begin a new epoch if the subscription changed, or the topics did."""
        group = draft.group
        if not changed and group.metadata_version == self._image.version:
            return
        found = metadata_hash(group.subscribed_topics, self._image)
        if changed or found != group.metadata_hash:
            draft.put_epoch(group.epoch + 1, found)
            self._store.counts.consumer_group_rebalance += 1

    def approach_target(
        self,
        draft: GroupDraft,
        member: ConsumerGroupMember,
        owned: Partitions | None,
        subscription_changed: bool,
        at: Instant,
    ) -> ConsumerGroupMember:
        """Bring the target assignment up to date if that is due, then the member a step towards it."""
        if draft.group.epoch > draft.group.target_epoch and can_compute(draft.group, self._settings, at):
            update_target(draft, self._settings, self._image, at)
        group = draft.group
        partitions = group.targets.get(member.member_id, {})
        target = Target(group.target_epoch, partitions, group.topic_ids_of(member, self._image))
        after = reconcile(group, member, target, owned, subscription_changed)
        if after != member:
            draft.put_current(after)
            if after.classic is None:
                draft.afterwards(partial(self.watch_revocation, group.group_id, after, at))
        return after

    # --- leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest, at: Instant) -> ConsumerGroupHeartbeatResponse:
        group = self._store.consumer(request.group_id)
        if group is None:
            raise errors.GroupIdNotFoundError(f"Group {request.group_id} is not a consumer group.")
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_member(group.static_member(request.instance_id), request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            draft = GroupDraft(group)
            # It comes back within its session and finds all as it was, except what it was to give up.
            draft.put_current(member._replace(member_epoch=LEAVE_STATIC_EPOCH, pending_revocation={}))
            draft.commit(self._store, at)
        else:
            self.put_out(group, [member], at)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, assignment=None
        )

    def put_out(self, group: ConsumerGroup, members: list[ConsumerGroupMember], at: Instant) -> None:
        """Put members out; what they had is free for the others from the next epoch on. Raises KafkaError."""
        gone = {member.member_id for member in members}
        if can_downgrade(group, gone, self._settings):
            self.downgrade(group, gone, True, at)
            return
        draft = GroupDraft(group)
        for member in members:
            draft.remove_member(member.member_id)
        for regex in sorted(set(draft.group.regexes) - draft.group.subscribed_regexes()):
            draft.remove_regex(regex)
        draft.put_epoch(group.epoch + 1, metadata_hash(draft.group.subscribed_topics, self._image))
        draft.commit(self._store, at)
        self._store.counts.consumer_group_rebalance += 1
        for member in members:
            self.end_timers(group.group_id, member.member_id)

    def downgrade(
        self,
        group: ConsumerGroup,
        gone: set[str],
        rebalances: bool,
        at: Instant,
        replaced: ConsumerGroupMember | None = None,
    ) -> None:
        """Make a classic group of the members that are not `gone`; `replaced` is one whose place another took."""
        group_id = group.group_id
        classic, records = downgraded(group, gone, self._image, at.now_ms)
        old = self._store.consumer(group_id) or group
        if replaced is not None:
            records = [*group_tombstones(old), *records]
        draft = Draft(records)
        draft.afterwards(partial(self._store.put, classic))
        self._store.commit(group_id, draft, at)
        for member_id in {**old.members, **group.members}:
            self.end_timers(group_id, member_id)
        for member in classic.members.values():
            self._rebalance.sessions.renew(classic, member, at)
        if rebalances:
            self._rebalance.prepare(classic, at)

    # --- timers

    def loaded(self, group: ConsumerGroup, at: Instant) -> None:
        """Start a whole session for each member of a group that comes from the log."""
        for member in group.members.values():
            self.renew_session(group.group_id, member, at)
            self.watch_revocation(group.group_id, member, at)

    def unload(self, group: ConsumerGroup) -> None:
        """Another broker coordinates the group, or none."""
        for member_id in group.members:
            self.end_timers(group.group_id, member_id)

    def renew_session(self, group_id: str, member: ConsumerGroupMember, at: Instant) -> None:
        """Note that the member was heard of: its session timeout begins anew."""
        classic = member.classic
        timeout_ms = (
            self._settings.consumer_session_timeout_ms(group_id) if classic is None else classic.session_timeout_ms
        )
        self.expire_later(("member session", group_id, member.member_id), timeout_ms, at)

    def watch_revocation(self, group_id: str, member: ConsumerGroupMember, at: Instant) -> None:
        """See to it that a member gives up in time what it is to give up."""
        key = ("revocation", group_id, member.member_id)
        if member.state != UNREVOKED_PARTITIONS:
            self._timers.cancel(key)
            return
        self._timers.schedule(
            key, at.now + member.rebalance_timeout_ms / 1000, partial(self._expire, key, member.member_epoch)
        )

    def expire_later(self, key: tuple[str, str, str], timeout_ms: int, at: Instant) -> None:
        """Put the member out (key: what for, group, member id) when the time is over and nothing has changed that."""
        self._timers.schedule(key, at.now + timeout_ms / 1000, partial(self._expire, key, None))

    def end_timers(self, group_id: str, member_id: str) -> None:
        """Note that the member is gone."""
        for purpose in ("member session", "revocation", "member join", "member sync"):
            self._timers.cancel((purpose, group_id, member_id))

    def _expire(self, key: tuple[str, str, str], epoch: int | None, at: Instant) -> None:
        _, group_id, member_id = key
        group = self._store.consumer(group_id)
        member = group.members.get(member_id) if group is not None else None
        if group is None or member is None or (epoch is not None and member.member_epoch != epoch):
            return
        try:
            self.put_out(group, [member], at)
        except errors.KafkaError as error:
            problem = f"member {member_id} of group {group_id} could not be put out: {error}"
            self._store.warn_of_retry(group_id, "put out", problem)
            self._timers.schedule(key, at.now + _RETRY_SECONDS, partial(self._expire, key, epoch))


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    # What a member sends when it cannot be sure that the coordinator knows: after an error, for instance.
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions)
        ]
    )
