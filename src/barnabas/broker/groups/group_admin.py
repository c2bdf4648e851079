"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from barnabas import errors
from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups.classic.rebalance import Rebalance
from barnabas.broker.groups.classic_group import DEAD, STABLE, ClassicGroup
from barnabas.broker.groups.coordinator_records import offset_commit_tombstone
from barnabas.broker.groups.group_kinds import tombstones_of
from barnabas.broker.groups.group_store import GroupStore
from barnabas.broker.groups.offsets.offset_store import OffsetStore
from barnabas.broker.instant import Instant
from barnabas.protocol.messages.describe_groups_response import DescribedGroup, DescribedGroupMember
from barnabas.protocol.messages.list_groups_response import ListedGroup

#: From this version of DescribeGroups on a group that does not exist is an error (KIP-1043).
_NOT_FOUND_IS_AN_ERROR_FROM = 6


class GroupAdmin:
    """What administrators ask about groups."""

    __slots__ = ("_offsets", "_rebalance", "_store")

    def __init__(self, store: GroupStore, offsets: OffsetStore, rebalance: Rebalance):
        self._store = store
        self._offsets = offsets
        self._rebalance = rebalance

    def list(self, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
        """Return the groups in one of `states` and of one of `types`, in any case; empty filters let all through."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {type.strip().lower() for type in types}
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=group.state_name,
                group_type=group.TYPE,
            )
            for group in self._store.groups.values()
            if not wanted_types or group.TYPE in wanted_types
            if not wanted_states or group.state_name.lower() in wanted_states
        ]

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """Return a classic group and its members; subscriptions only when it is Stable.

        One that does not exist is Dead.
        """
        group = self._store.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return _described(group)
        missing = DescribedGroup(group_id=group_id, group_state=DEAD)
        if version >= _NOT_FOUND_IS_AN_ERROR_FROM:
            missing.error_code = errors.GroupIdNotFoundError.code
            kind = "not found" if group is None else "is not a classic group"
            missing.error_message = f"Group {group_id} {kind}."
        return missing

    def delete(self, group_id: str, at: Instant) -> None:
        """Delete a group without members, and its offsets. Raises KafkaError."""
        group = self._store.group(group_id)
        if not group.is_empty:
            raise errors.GroupNotEmptyError()
        draft = Draft()
        for topic, partition in self._offsets.all_partitions(group_id):
            draft.put(
                offset_commit_tombstone(group_id, topic, partition),
                partial(self._offsets.remove_written, group_id, topic, partition),
            )
        for record in tombstones_of(group):
            draft.put(record)
        draft.afterwards(partial(self._store.remove, group_id))
        if isinstance(group, ClassicGroup):
            for member_id in list(group.pending_members):
                draft.afterwards(partial(self._rebalance.remove_pending_member, group, member_id))
        self._store.commit(group_id, draft, at)


def _described(group: ClassicGroup) -> DescribedGroup:
    protocol = group.protocol_name if group.state == STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if protocol is not None else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
