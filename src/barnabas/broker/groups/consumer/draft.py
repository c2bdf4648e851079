"""A consumer group as it will be once its records are in the log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.broker.groups import consumer_group_records as records
from barnabas.broker.groups.consumer_group import ConsumerGroup, ResolvedRegex
from barnabas.broker.groups.modern_group_draft import ModernGroupDraft

if TYPE_CHECKING:
    from barnabas.broker.groups.consumer_group_member import ConsumerGroupMember, Partitions
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.instant import Instant


class GroupDraft(ModernGroupDraft[ConsumerGroup]):
    """Changes to a copy of a consumer group, each with its record."""

    __slots__ = ()

    def commit(self, store: GroupStore, at: Instant) -> None:
        """See `ModernGroupDraft`."""
        super().commit(store, at)
        if anatomy.active is not None and self._copied:
            group = self.group
            told = anatomy.events.GroupState(group.group_id, group.state_name, group.epoch, len(group.members))
            anatomy.active.record(told)

    def put_member(self, member: ConsumerGroupMember) -> None:
        """Who a member is and what it subscribes to; where it stands comes with `put_current`."""
        if anatomy.active is not None and member.member_id not in self.group.members:
            names = self.group.group_id, member.member_id, member.client_id, member.instance_id or ""
            self.afterwards(partial(anatomy.active.record, anatomy.events.GroupMemberJoined(*names)))
        self._record(records.member_record(self.group.group_id, member)).put(member)

    def put_current(self, member: ConsumerGroupMember) -> None:
        """Where a member stands."""
        self._record(records.current_record(self.group.group_id, member)).put(member)

    def remove_member(self, member_id: str) -> None:
        """Put a member out, with all that belongs to it."""
        group_id = self.group.group_id
        if anatomy.active is not None:
            left = anatomy.events.GroupMemberLeft(group_id, member_id)
            self.afterwards(partial(anatomy.active.record, left))
        group = self._record(*records.member_tombstones(group_id, member_id))
        group.targets.pop(member_id, None)
        group.remove(member_id)

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        """Begin a new group epoch."""
        group_id = self.group.group_id
        group = self._record(records.group_epoch_record(group_id, epoch, metadata_hash))
        group.epoch, group.metadata_hash = epoch, metadata_hash
        if group.has_partition_metadata_record:
            self._record(records.partition_metadata_tombstone(group_id)).has_partition_metadata_record = False

    def put_target(self, member_id: str, target: Partitions) -> None:
        """Set a member's part of the target assignment."""
        self._record(records.target_record(self.group.group_id, member_id, target)).targets[member_id] = target

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Note that the target assignment is complete."""
        group = self._record(records.target_epoch_record(self.group.group_id, epoch, now_ms))
        group.target_epoch, group.target_timestamp_ms = epoch, now_ms

    def put_regex(self, regex: str, resolved: ResolvedRegex) -> None:
        """Set what a regular expression stands for."""
        self._record(records.regex_record(self.group.group_id, regex, resolved)).put_regex(regex, resolved)

    def remove_regex(self, regex: str) -> None:
        """Forget an expression that no member subscribes to any more."""
        self._record(records.regex_tombstone(self.group.group_id, regex)).put_regex(regex, None)
