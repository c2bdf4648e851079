"""A share group as it will be once its records are in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.groups import share_group_records as records
from barnabas.broker.groups.modern_group_draft import ModernGroupDraft
from barnabas.broker.groups.share_group import ShareGroup

if TYPE_CHECKING:
    from barnabas.broker.groups.share_group import Partitions, ShareGroupMember, StatePartitions


class ShareGroupDraft(ModernGroupDraft[ShareGroup]):
    """Changes to a copy of a share group, each with its record."""

    __slots__ = ()

    def put_member(self, member: ShareGroupMember) -> None:
        """Who a member is and what it subscribes to."""
        self._record(records.member_record(self.group.group_id, member)).members[member.member_id] = member

    def put_current(self, member: ShareGroupMember) -> None:
        """Set what a member has."""
        self._record(records.current_record(self.group.group_id, member)).members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Put a member out, with all that belongs to it."""
        group = self._record(*records.member_tombstones(self.group.group_id, member_id))
        group.targets.pop(member_id, None)
        group.members.pop(member_id, None)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Begin a new group epoch."""
        group = self._record(records.epoch_record(self.group.group_id, epoch, metadata_hash))
        group.epoch, group.metadata_hash = epoch, metadata_hash

    def put_target(self, member_id: str, target: Partitions) -> None:
        """Set a member's part of the target assignment."""
        self._record(records.target_record(self.group.group_id, member_id, target)).targets[member_id] = target

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Note that the target assignment is complete."""
        group = self._record(records.target_epoch_record(self.group.group_id, epoch, now_ms))
        group.target_epoch, group.target_timestamp_ms = epoch, now_ms

    def put_states(self, states: StatePartitions) -> None:
        """Note which share-partitions have a state."""
        self._record(records.states_record(self.group.group_id, states)).states = states
