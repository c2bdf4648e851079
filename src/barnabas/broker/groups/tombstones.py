"""What ends a group in the log."""

from __future__ import annotations

from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.coordinator_records import group_metadata_tombstone
from barnabas.broker.groups.group import SHARE, STREAMS, Group


def tombstones_of(group: Group) -> list[Record]:
    """Give the tombstones of a group without members, of either protocol; its offsets stay."""
    if isinstance(group, ConsumerGroup):
        # Most brokers never have a consumer group: its records are loaded when the first comes.
        from barnabas.broker.groups.consumer_group_records import group_tombstones

        return group_tombstones(group)
    if group.TYPE == SHARE:
        from barnabas.broker.groups import share_group_records

        return share_group_records.group_tombstones(group)  # type: ignore[arg-type]  # by its type
    if group.TYPE == STREAMS:
        from barnabas.broker.groups import streams_group_records

        return streams_group_records.group_tombstones(group)  # type: ignore[arg-type]  # by its type
    return [group_metadata_tombstone(group.group_id)]
