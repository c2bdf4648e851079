"""A streams group as it will be once its records are in the log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.draft import Draft
from barnabas.broker.groups import streams_group_records as records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.coordinator.partition_storage import Record
    from barnabas.broker.groups.group_store import GroupStore
    from barnabas.broker.groups.streams.topology import StreamsTopology
    from barnabas.broker.groups.streams_group import StreamsGroup
    from barnabas.broker.groups.streams_group_member import StreamsGroupMember, TasksTuple
    from barnabas.broker.instant import Instant


class StreamsGroupDraft:
    """Changes to a copy of the group, each with its record. `commit` writes them and puts the copy in its place."""

    __slots__ = ("_copied", "_draft", "group")

    def __init__(self, group: StreamsGroup, before: Iterable[Record] = ()) -> None:
        """`before` are records that end what had the group's id until now."""
        #: The group with all changes so far.
        self.group = group
        self._copied = False
        self._draft = Draft(before)

    def commit(self, store: GroupStore, at: Instant) -> None:
        """Write the records, all or none, then let requests see the group. Raises `KafkaError`."""
        if not self._draft.records:
            return
        self._draft.afterwards(partial(store.put, self.group))
        store.commit(self.group.group_id, self._draft, at)

    def _changed(self) -> StreamsGroup:
        if not self._copied:
            self.group = self.group.copy()
            self._copied = True
        return self.group

    def _record(self, *written: Record) -> None:
        for record in written:
            self._draft.put(record)

    def put_member(self, member: StreamsGroupMember) -> None:
        """Who a member is, and where."""
        self._changed().put(member)
        self._record(records.member_record(self.group.group_id, member))

    def put_current(self, member: StreamsGroupMember) -> None:
        """Set what a member has and is to give up."""
        self._changed().put(member)
        self._record(records.current_record(self.group.group_id, member))

    def remove_member(self, member_id: str) -> None:
        """Put a member out, with all that belongs to it."""
        group = self._changed()
        group.targets.pop(member_id, None)
        group.remove(member_id)
        self._record(*records.member_tombstones(group.group_id, member_id))

    def put_topology(self, topology: StreamsTopology) -> None:
        """Set what the application is made of."""
        group = self._changed()
        group.topology, group.configured = topology, None
        self._record(records.topology_record(group.group_id, topology))

    def put_epoch(self, metadata_hash: int, validated_topology_epoch: int, configs: dict[str, str]) -> None:
        """Begin a new group epoch."""
        group = self._changed()
        group.epoch += 1
        group.metadata_hash, group.validated_topology_epoch = metadata_hash, validated_topology_epoch
        group.assignment_configs = configs
        self._record(records.epoch_record(group))

    def put_target(self, member_id: str, target: TasksTuple) -> None:
        """Set a member's part of the target assignment."""
        self._changed().targets[member_id] = target
        self._record(records.target_record(self.group.group_id, member_id, target))

    def put_target_epoch(self, now_ms: int) -> None:
        """Note that the target assignment is complete."""
        group = self._changed()
        group.target_epoch, group.target_timestamp_ms = group.epoch, now_ms
        self._record(records.target_epoch_record(group.group_id, group.epoch, now_ms))
