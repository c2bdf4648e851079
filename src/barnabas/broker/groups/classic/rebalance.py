"""How a classic group gets from one generation to the next: who is waited for, for how long, and what ends the wait.

Empty or Stable → PreparingRebalance (all members join) → CompletingRebalance (the leader assigns) → Stable. Each
wait has one timer under the group's id; each member has one for its session (`sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.groups.classic.sessions import Sessions
from barnabas.broker.groups.classic_group import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.coordinator_records import group_metadata_record
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant
from barnabas.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

UNKNOWN_MEMBER_ID = errors.UnknownMemberIdError.code
REBALANCE_IN_PROGRESS = errors.RebalanceInProgressError.code
NOT_COORDINATOR = errors.NotCoordinatorError.code


class Rebalance:
    """The rebalances of all classic groups."""

    __slots__ = ("_settings", "_store", "_timers", "_warn", "sessions")

    def __init__(self, settings: GroupSettings, store: GroupStore, timers: TimerQueue, warn: Callable[[str], None]):
        self._settings = settings
        self._store = store
        self._timers = timers
        self._warn = warn
        self.sessions = Sessions(store, timers, self._session_ended)

    # --- members that go

    def _session_ended(self, group: ClassicGroup, member_id: str, at: Instant) -> None:
        if member_id in group.pending_members:
            self.remove_pending_member(group, member_id)
            self.maybe_complete_after_removal(group, at)
        else:
            self.remove_member(group, group.members[member_id])
            self.after_removal(group, at)

    def let_go(self, group: ClassicGroup) -> None:
        """Note that the group is a consumer group now, with the same members: those that wait are told to join it."""
        for member in group.members.values():
            self.sessions.end(group, member.member_id)
            group.answer_join(member, JoinGroupResponse(error_code=REBALANCE_IN_PROGRESS, member_id=member.member_id))
            member.answer_sync(SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
        self._end_waits(group)

    def unload(self, group: ClassicGroup) -> None:
        """Another broker coordinates the group, or none: members look for their coordinator and join again."""
        for member in group.members.values():
            self.sessions.end(group, member.member_id)
            group.answer_join(member, JoinGroupResponse(error_code=NOT_COORDINATOR, member_id=member.member_id))
            member.answer_sync(SyncGroupResponse(error_code=NOT_COORDINATOR))
        for member_id in group.pending_members:
            self.sessions.end(group, member_id)
        self._end_waits(group)

    def _end_waits(self, group: ClassicGroup) -> None:
        for wait in ("join", "sync"):
            self._timers.cancel((wait, group.group_id))

    def remove_member(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Put a member out. What it waits for is answered with UNKNOWN_MEMBER_ID: if it lives, it joins again."""
        self.sessions.end(group, member.member_id)
        group.answer_join(member, JoinGroupResponse(error_code=UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncGroupResponse(error_code=UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def remove_pending_member(self, group: ClassicGroup, member_id: str) -> None:
        """Forget an id that was given out."""
        self.sessions.end(group, member_id)
        group.remove(member_id)

    def after_removal(self, group: ClassicGroup, at: Instant) -> None:
        """Let the others rebalance, or go on if they only waited for the one that is gone."""
        if group.state in (STABLE, COMPLETING_REBALANCE):
            self.prepare(group, at)
        else:
            self.maybe_complete_after_removal(group, at)

    def maybe_complete_after_removal(self, group: ClassicGroup, at: Instant) -> None:
        """Complete the join if no other member is waited for, even in an initial rebalance."""
        if group.state == PREPARING_REBALANCE and group.has_all_members_joined:
            self.complete_join(group, at)

    # --- PreparingRebalance

    def prepare_or_complete(self, group: ClassicGroup, at: Instant) -> None:
        """Begin a rebalance; in one that has begun, complete it if all members have joined."""
        if group.can_rebalance:
            self.prepare(group, at)
        else:
            self.maybe_complete_join(group, at)

    def prepare(self, group: ClassicGroup, at: Instant) -> None:
        """Begin a rebalance: from now on all members have to join."""
        if group.state == COMPLETING_REBALANCE:
            self.propagate_error(group, REBALANCE_IN_PROGRESS, at)
        group.pending_sync_members.clear()
        self._timers.cancel(("sync", group.group_id))
        is_initial = group.state == EMPTY
        group.transition_to(PREPARING_REBALANCE, at.now_ms)
        if is_initial:
            delay_ms = self._settings.initial_rebalance_delay_ms
            self._delay_initial(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), at)
        elif group.has_all_members_joined:
            self.complete_join(group, at)
        else:
            self._schedule_join(group, group.rebalance_timeout_ms, partial(self._end_join, group.group_id), at)

    def maybe_complete_join(self, group: ClassicGroup, at: Instant) -> None:
        """Complete the join if all members have joined; an initial rebalance waits for its delay (KIP-134)."""
        waits_for_delay = group.previous_state == EMPTY
        if group.state == PREPARING_REBALANCE and not waits_for_delay and group.has_all_members_joined:
            self.complete_join(group, at)

    def _delay_initial(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, at: Instant) -> None:
        group.new_member_added = False
        self._schedule_join(group, delay_ms, partial(self._end_initial_delay, group.group_id, remaining_ms), at)

    def _end_initial_delay(self, group_id: str, remaining_ms: int, at: Instant) -> None:
        group = self._store.classic(group_id)
        if group is None:
            return
        if group.new_member_added and remaining_ms:
            # As long as members come it is put off again, up to the rebalance timeout in all.
            delay_ms = min(self._settings.initial_rebalance_delay_ms, remaining_ms)
            self._delay_initial(group, delay_ms, remaining_ms - delay_ms, at)
        else:
            self.complete_join(group, at)

    def _schedule_join(
        self, group: ClassicGroup, timeout_ms: int, action: Callable[[Instant], None], at: Instant
    ) -> None:
        self._timers.schedule(("join", group.group_id), at.now + timeout_ms / 1000, action)

    def _end_join(self, group_id: str, at: Instant) -> None:
        group = self._store.classic(group_id)
        if group is not None:
            self.complete_join(group, at)

    # --- CompletingRebalance

    def complete_join(self, group: ClassicGroup, at: Instant) -> None:
        """End the wait: dynamic members that did not join are out, static ones stay; the next generation begins."""
        self._timers.cancel(("join", group.group_id))
        absent = [member for member in group.members.values() if member.awaiting_join is None and not member.is_static]
        for member in absent:
            self.remove_member(group, member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none is there: their sessions will end, or they come back.
            self._schedule_join(group, group.rebalance_timeout_ms, partial(self._end_join, group.group_id), at)
            return
        group.init_next_generation(at.now_ms)
        if group.state == EMPTY:
            self._write_empty(group, at)
        else:
            self._begin_generation(group, at)

    def _write_empty(self, group: ClassicGroup, at: Instant) -> None:
        try:
            self._store.commit(group.group_id, Draft([group_metadata_record(group, {})]), at)
        except errors.KafkaError as error:
            # The generation before becomes active again after a restart, and its members time out: no harm done.
            self._warn(f"Could not write that group {group.group_id} is empty: {error}")

    def _begin_generation(self, group: ClassicGroup, at: Instant) -> None:
        for member in group.members.values():
            is_leader = group.is_leader(member.member_id)
            response = join_response(group, member, members_for_leader(group) if is_leader else [])
            group.answer_join(member, response)
            self.sessions.renew(group, member, at)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        self._timers.schedule(
            ("sync", group.group_id),
            at.now + group.rebalance_timeout_ms / 1000,
            partial(self._expire_sync, group.group_id, group.generation_id),
        )

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """Note that the member has sent SyncGroup."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._timers.cancel(("sync", group.group_id))

    def _expire_sync(self, group_id: str, generation_id: int, at: Instant) -> None:
        group = self._store.classic(group_id)
        if group is None or group.generation_id != generation_id:
            return
        if group.state in (COMPLETING_REBALANCE, STABLE) and group.pending_sync_members:
            for member_id in list(group.pending_sync_members):
                self.remove_member(group, group.members[member_id])
            self.prepare(group, at)

    # --- Stable

    def stabilize(self, group: ClassicGroup, assignments: dict[str, bytes], at: Instant) -> None:
        """Answer each parked SyncGroup with the part that the leader assigned, empty for a member it left out."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            response = sync_response(group, member)
            if member.answer_sync(response):
                self.sessions.renew(group, member, at)
        group.transition_to(STABLE, at.now_ms)
        self._store.counts.group_completed_rebalance += 1

    def propagate_error(self, group: ClassicGroup, error_code: int, at: Instant) -> None:
        """Take all assignments back and answer each parked SyncGroup with `error_code`."""
        for member in group.members.values():
            member.assignment = b""
            if member.answer_sync(SyncGroupResponse(error_code=error_code)):
                self.sessions.renew(group, member, at)


def members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Return the members and their subscriptions, for the leader."""
    protocol = group.protocol_name or ""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(protocol),
        )
        for member in group.members.values()
    ]


def join_response(
    group: ClassicGroup, member: ClassicGroupMember, members: list[JoinGroupResponseMember]
) -> JoinGroupResponse:
    """Return what a member is told about the current generation."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name or "",
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def sync_response(group: ClassicGroup, member: ClassicGroupMember) -> SyncGroupResponse:
    """Return what a member is assigned in the current generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
