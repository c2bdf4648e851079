"""LeaveGroup of classic groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.broker.groups.classic_group import COMPLETING_REBALANCE, STABLE, ClassicGroup
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.instant import Instant
from barnabas.protocol.messages.leave_group_response import MemberResponse

if TYPE_CHECKING:
    from barnabas.protocol.messages.leave_group_request import MemberIdentity

_UNKNOWN_MEMBER_ID = errors.UnknownMemberIdError.code


class LeaveGroup:
    """Puts out members that leave, or that an administrator removes."""

    __slots__ = ("_rebalance", "_store")

    def __init__(self, store: GroupStore, rebalance: Rebalance):
        self._store = store
        self._rebalance = rebalance

    def leave(self, group_id: str, members: list[MemberIdentity], at: Instant) -> list[MemberResponse]:
        """Put members out, each by its id or, without one, by its group.instance.id."""
        group = self._store.classic(group_id)
        responses = [
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=self._leave_one(group, member) if group is not None else _UNKNOWN_MEMBER_ID,
            )
            for member in members
        ]
        if group is not None and any(not response.error_code for response in responses):
            if group.state in (STABLE, COMPLETING_REBALANCE):
                self._rebalance.prepare_or_complete(group, at)
            else:
                self._rebalance.maybe_complete_join(group, at)
        return responses

    def _leave_one(self, group: ClassicGroup, member: MemberIdentity) -> int:
        member_id: str | None = member.member_id
        if not member_id:
            instance_id = member.group_instance_id
            member_id = group.static_member_id(instance_id) if instance_id is not None else None
            if member_id is None:
                return _UNKNOWN_MEMBER_ID
        elif member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, member_id)
            return 0
        else:
            try:
                group.validate_member(member_id, member.group_instance_id)
            except errors.KafkaError as error:
                return error.code
        self._rebalance.remove_member(group, group.members[member_id])
        return 0
