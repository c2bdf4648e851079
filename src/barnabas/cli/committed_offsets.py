"""How far a group is in each partition, for `barnabas group describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.groups import MemberDescription
    from barnabas.protocol.topic_partition import TopicPartition


def committed_partitions(
    admin: AdminClient, group_id: str, readers: Mapping[TopicPartition, MemberDescription]
) -> list[dict[str, Any]]:
    """Return what was committed or is read: how far the group is, how far the log, and who reads."""
    from barnabas.cli.topic_offsets import partition_bounds

    committed = admin.list_consumer_group_offsets(group_id)
    wanted = sorted(committed.keys() | readers.keys())
    there = admin.describe_topics({p.topic for p in wanted}, raise_errors=False) if wanted else {}
    bounds = partition_bounds(admin, [partition for partition in wanted if partition.topic in there])
    rows = []
    for partition in wanted:
        offset = committed[partition].offset if partition in committed else None
        end = bounds[partition].end if partition in bounds else None
        reader = readers.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committedOffset": offset,
                "endOffset": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": reader.client_id if reader else None,
                "memberId": reader.member_id if reader else None,
                "metadata": committed[partition].metadata if partition in committed else None,
            }
        )
    return rows
