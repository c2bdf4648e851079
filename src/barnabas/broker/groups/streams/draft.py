"""A streams group as it will be once its records are in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.groups import streams_group_records as records
from barnabas.broker.groups.modern_group_draft import ModernGroupDraft
from barnabas.broker.groups.streams_group import StreamsGroup

if TYPE_CHECKING:
    from barnabas.broker.groups.streams.topology import StreamsTopology
    from barnabas.broker.groups.streams_group_member import StreamsGroupMember, TasksTuple


class StreamsGroupDraft(ModernGroupDraft[StreamsGroup]):
    """Changes to a copy of a streams group, each with its record."""

    __slots__ = ()

    def put_member(self, member: StreamsGroupMember) -> None:
        """Who a member is, and where."""
        self._record(records.member_record(self.group.group_id, member)).put(member)

    def put_current(self, member: StreamsGroupMember) -> None:
        """Set what a member has and is to give up."""
        self._record(records.current_record(self.group.group_id, member)).put(member)

    def remove_member(self, member_id: str) -> None:
        """Put a member out, with all that belongs to it."""
        group = self._record(*records.member_tombstones(self.group.group_id, member_id))
        group.targets.pop(member_id, None)
        group.remove(member_id)

    def put_topology(self, topology: StreamsTopology) -> None:
        """Set what the application is made of."""
        group = self._record(records.topology_record(self.group.group_id, topology))
        group.topology, group.configured = topology, None

    def put_epoch(self, metadata_hash: int, validated_topology_epoch: int, configs: dict[str, str]) -> None:
        """Begin a new group epoch."""
        group = self._changed()
        group.epoch += 1
        group.metadata_hash, group.validated_topology_epoch = metadata_hash, validated_topology_epoch
        group.assignment_configs = configs
        self._record(records.epoch_record(group))

    def put_target(self, member_id: str, target: TasksTuple) -> None:
        """Set a member's part of the target assignment."""
        self._record(records.target_record(self.group.group_id, member_id, target)).targets[member_id] = target

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        """Note that the target assignment is complete, for an epoch of the group."""
        group = self._changed()
        group.target_epoch, group.target_timestamp_ms = epoch, now_ms
        self._record(records.target_epoch_record(group.group_id, epoch, now_ms))
