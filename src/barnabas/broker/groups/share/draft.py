"""A share group as it will be once its records are in the log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups import share_group_records as records

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.coordinator.partition_storage import Record
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.share_group import Partitions, ShareGroup, ShareGroupMember, StatePartitions
    from barnabas.broker.instant import Instant


class ShareGroupDraft:
    """Changes to a copy of the group, each with its record. `commit` writes them and puts the copy in its place."""

    __slots__ = ("_copied", "_draft", "group")

    def __init__(self, group: ShareGroup) -> None:
        #: The group with all changes so far.
        self.group = group
        self._copied = False
        self._draft = Draft()

    def commit(self, store: GroupStore, at: Instant) -> None:
        """Write the records, all or none, then let requests see the group. Raises `KafkaError`."""
        if not self._draft.records:
            return
        self._draft.afterwards(partial(store.put, self.group))
        store.commit(self.group.group_id, self._draft, at)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do something once the records are written."""
        self._draft.afterwards(action)

    def _record(self, *written: Record) -> ShareGroup:
        if not self._copied:
            self.group = self.group.copy()
            self._copied = True
        for record in written:
            self._draft.put(record)
        return self.group

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
