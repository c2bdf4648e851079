"""JoinGroup of classic groups: new members, known ones, static ones that come back (KIP-345, KIP-394, KIP-814)."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.classic.rebalance import Rebalance, join_response, members_for_leader
from barnabas.broker.groups.classic_group import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.coordinator_records import group_metadata_record, new_group_record
from barnabas.broker.groups.group import CONSUMER, STREAMS
from barnabas.broker.groups.group_coordinator_config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from barnabas.broker.groups.group_kinds import tombstones_of
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.messages.join_group_response import JoinGroupResponse
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse
from barnabas.protocol.thresholds import JOIN_GROUP_MEMBER_ID_REQUIRED_FROM

if TYPE_CHECKING:
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.join_group_request import JoinGroupRequest

#: Ids given out to members that have not come back with them, per group: more are asked for only by a client that
#: invents members.
MAX_PENDING_MEMBERS = 10_000
#: From this version on a returning static leader is told not to assign again (KIP-814).
_SKIP_ASSIGNMENT_FROM = 9
#: From this version on the protocol's name may be null.
_NO_PROTOCOL_FROM = 7


class Joining:
    """A JoinGroup request with what the coordinator makes of it."""

    __slots__ = (
        "client_host",
        "client_id",
        "group_instance_id",
        "member_id",
        "operation",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "version",
    )

    def __init__(self, context: RequestContext, request: JoinGroupRequest):
        self.version = context.api_version
        self.client_id = context.client_id or ""
        self.client_host = context.connection.inet_address
        self.member_id = request.member_id
        self.group_instance_id = request.group_instance_id
        self.session_timeout_ms = request.session_timeout_ms
        # Version 0 has no rebalance timeout.
        in_request = request.rebalance_timeout_ms
        self.rebalance_timeout_ms = request.session_timeout_ms if in_request < 0 else in_request
        self.protocol_type = request.protocol_type
        self.protocols: dict[str, bytes] = {}
        for protocol in request.protocols:
            self.protocols.setdefault(protocol.name, bytes(protocol.metadata))
        self.operation = DelayedOperation()

    def refuse(self, error: type[errors.KafkaError], member_id: str | None = None) -> None:
        """Answer with an error."""
        answered_id = self.member_id if member_id is None else member_id
        self.operation.complete(refusal(error.code, answered_id, self.version))


def refusal(error_code: int, member_id: str, version: int) -> JoinGroupResponse:
    """JoinGroup's answer with an error: without a protocol, where the version has a word for that."""
    response = JoinGroupResponse(error_code=error_code, member_id=member_id)
    if version >= _NO_PROTOCOL_FROM:
        response.protocol_name = None
    return response


class JoinGroup:
    """Takes members into classic groups, or turns them away."""

    __slots__ = ("_random", "_rebalance", "_settings", "_store")

    def __init__(self, settings: GroupSettings, store: GroupStore, rebalance: Rebalance, random: Random):
        self._settings = settings
        self._store = store
        self._rebalance = rebalance
        self._random = random

    def check_session_timeout(self, joining: Joining) -> None:
        """Raise InvalidSessionTimeoutError."""
        settings = self._settings
        if not settings.min_session_timeout_ms <= joining.session_timeout_ms <= settings.max_session_timeout_ms:
            raise errors.InvalidSessionTimeoutError()

    def join(self, group_id: str, joining: Joining, at: Instant) -> None:
        """Answer `joining.operation`, or park it in the group until all members have joined."""
        group = self._store.classic(group_id)
        if group is None:
            if not self._makes_room(group_id):
                joining.refuse(errors.InconsistentGroupProtocolError)
                return
            if joining.member_id:
                joining.refuse(errors.UnknownMemberIdError)
                return
            group = self._new_group(group_id, at)
        if not self._has_room(group, joining.member_id):
            self._turn_away(group, joining, at)
        elif not group.supports_protocols(joining.protocol_type, joining.protocols):
            joining.refuse(errors.InconsistentGroupProtocolError)
        elif joining.member_id:
            self._join_known(group, joining, at)
        elif joining.group_instance_id is not None:
            self._join_static(group, joining, joining.group_instance_id, at)
        else:
            self._join_dynamic(group, joining, at)

    def _makes_room(self, group_id: str) -> bool:
        """Whether a classic group can have this id: groups of other kinds keep it, but for some without members."""
        other = self._store.groups.get(group_id)
        return other is None or (other.is_empty and other.TYPE in (CONSUMER, STREAMS))

    def _new_group(self, group_id: str, at: Instant) -> ClassicGroup:
        self._store.check_room(group_id)
        old = self._store.groups.get(group_id)
        ends = [] if old is None else tombstones_of(old)
        group = ClassicGroup(group_id, at.now_ms)
        draft = Draft(ends)
        draft.put(new_group_record(group_id, at.now_ms), lambda _: self._store.put(group))
        self._store.commit(group_id, draft, at)
        return group

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        member = group.members.get(member_id)
        if group.state == EMPTY:
            return True
        if group.state == PREPARING_REBALANCE:
            # The members that have rejoined count: of a group that is too large the last ones are turned away.
            joined = member is not None and member.awaiting_join is not None
            return joined or group.awaiting_join_count < self._settings.max_size
        return member is not None or len(group.members) < self._settings.max_size

    def _turn_away(self, group: ClassicGroup, joining: Joining, at: Instant) -> None:
        member = group.members.get(joining.member_id)
        if member is not None:
            self._rebalance.remove_member(group, member)
        elif joining.member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, joining.member_id)
        joining.refuse(errors.GroupMaxSizeReachedError, member_id="")
        self._rebalance.maybe_complete_join(group, at)

    def _join_dynamic(self, group: ClassicGroup, joining: Joining, at: Instant) -> None:
        member_id = f"{joining.client_id}-{self._uuid()}"
        if joining.version < JOIN_GROUP_MEMBER_ID_REQUIRED_FROM:
            self._add(group, joining, member_id, at)
            return
        if len(group.pending_members) >= MAX_PENDING_MEMBERS:
            # Its owner is told UNKNOWN_MEMBER_ID, and asks for another.
            self._rebalance.remove_pending_member(group, next(iter(group.pending_members)))
        group.pending_members[member_id] = None
        self._rebalance.sessions.start(group, member_id, joining.session_timeout_ms, at)
        joining.refuse(errors.MemberIdRequiredError, member_id)

    def _join_static(self, group: ClassicGroup, joining: Joining, instance_id: str, at: Instant) -> None:
        member_id = f"{instance_id}-{self._uuid()}"
        if group.static_member_id(instance_id) is None:
            self._add(group, joining, member_id, at)
        else:
            self._return_of_static(group, joining, instance_id, member_id, at)

    def _add(self, group: ClassicGroup, joining: Joining, member_id: str, at: Instant) -> None:
        member = ClassicGroupMember(
            member_id,
            joining.group_instance_id,
            joining.client_id,
            joining.client_host,
            joining.rebalance_timeout_ms,
            joining.session_timeout_ms,
            joining.protocol_type,
            joining.protocols,
        )
        member.is_new = True
        if group.state == PREPARING_REBALANCE and group.previous_state == EMPTY:
            group.new_member_added = True
        group.add(member)
        group.park_join(member, joining.operation)
        # It cannot send heartbeats while it waits; if its connection broke, this is what puts it out.
        self._rebalance.sessions.start(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS, at)
        self._rebalance.prepare_or_complete(group, at)

    def _join_known(self, group: ClassicGroup, joining: Joining, at: Instant) -> None:
        if joining.member_id in group.pending_members and joining.group_instance_id is None:
            self._add(group, joining, joining.member_id, at)
            return
        group.validate_member(joining.member_id, joining.group_instance_id)
        member = group.members[joining.member_id]
        if _changes_nothing(group, member, joining):
            is_leader = group.is_leader(member.member_id)
            joining.operation.complete(join_response(group, member, members_for_leader(group) if is_leader else []))
            return
        group.update_member(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        group.park_join(member, joining.operation)
        self._rebalance.prepare_or_complete(group, at)

    # --- a static member that comes back (KIP-345)

    def _return_of_static(
        self, group: ClassicGroup, joining: Joining, instance_id: str, member_id: str, at: Instant
    ) -> None:
        old_id = group.static_member_id(instance_id) or ""
        # What the member gave up has no owner. Its rejoin was never sent, or went with a coordinator; Apache Kafka
        # lets the member in as it is, and the partition stays without one.
        owes_rejoin = group.owes_rejoin(group.members[old_id])
        after = group.copy()
        member = after.replace_static_member(instance_id, member_id)
        after.update_member(member, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        goes_on = group.state == STABLE and after.select_protocol() == group.protocol_name and not owes_rejoin
        draft = Draft()
        if goes_on:
            draft.put(group_metadata_record(after, after.assignments))
        draft.afterwards(lambda: self._store.put(after))
        self._store.commit(group.group_id, draft, at)
        fenced = errors.FencedInstanceIdError.code
        after.answer_join(member, JoinGroupResponse(error_code=fenced, member_id=old_id))
        member.answer_sync(SyncGroupResponse(error_code=fenced))
        self._rebalance.sessions.end(after, old_id)
        self._rebalance.sessions.renew(after, member, at)
        if goes_on:
            joining.operation.complete(_welcome_back(after, member, joining.version, group.leader_id))
            return
        after.park_join(member, joining.operation)
        # In CompletingRebalance the leader may already assign to the old id: all members have to join again.
        self._rebalance.prepare_or_complete(after, at)

    def _uuid(self) -> str:
        # A random uuid (version 4) as Java prints it, without importing uuid.
        digits = f"{self._random.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | 4 << 76 | 2 << 62:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _changes_nothing(group: ClassicGroup, member: ClassicGroupMember, joining: Joining) -> bool:
    # In CompletingRebalance the member may have missed the answer. In Stable the leader is free to force a rebalance:
    # it may know of something that its metadata does not show, new partitions for instance.
    if group.state == COMPLETING_REBALANCE:
        return member.matches(joining.protocols)
    if group.state == STABLE:
        return not group.is_leader(member.member_id) and member.matches(joining.protocols)
    return False


def _welcome_back(
    group: ClassicGroup, member: ClassicGroupMember, version: int, old_leader: str | None
) -> JoinGroupResponse:
    is_leader = group.is_leader(member.member_id)
    if version >= _SKIP_ASSIGNMENT_FROM:
        response = join_response(group, member, members_for_leader(group) if is_leader else [])
        response.skip_assignment = is_leader
        return response
    # An old client that reads its own new id as the leader's would assign again; the old id makes it a follower.
    response = join_response(group, member, [])
    response.leader = old_leader or ""
    return response
