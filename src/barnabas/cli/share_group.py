"""`barnabas group` for share groups: their description, and where they begin to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.output import print_table, printable
from barnabas.client.admin.groups import GroupType
from barnabas.errors import GroupNotEmptyError

if TYPE_CHECKING:
    from collections.abc import Collection

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.topic_partition import TopicPartition


def types_of(admin: AdminClient, groups: Collection[str]) -> dict[str, GroupType | None]:
    """Return the type of each group that there is."""
    found = admin.list_groups(raise_errors=False)
    return {name: found[name].type for name in groups if name in found}


def share_groups(admin: AdminClient, groups: Collection[str]) -> set[str]:
    """Return those of the groups that are share groups."""
    return {name for name, kind in types_of(admin, groups).items() if kind == GroupType.SHARE}


def document(admin: AdminClient, group_id: str) -> dict[str, Any]:
    """Return what `group describe` tells of a share group."""
    group = admin.describe_share_groups([group_id])[group_id]
    offsets = admin.list_share_group_offsets({group_id: None})[group_id]
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "startOffset": offset.start_offset,
            "lag": None if offset.lag < 0 else offset.lag,
        }
        for partition, offset in sorted(offsets.items())
    ]
    return {
        "group": group.group_id,
        "type": "share",
        "state": group.state,
        "assignor": group.assignor,
        "epoch": group.group_epoch,
        "members": [
            {
                "memberId": member.member_id,
                "clientId": member.client_id,
                "host": member.host,
                "topics": member.subscribed_topics,
                "assignment": [str(partition) for partition in sorted(member.assignment)],
            }
            for member in group.members
        ],
        "partitions": partitions,
    }


def print_description(told: dict[str, Any], *, is_first: bool) -> None:
    """Print it for people."""
    print(f"{'' if is_first else chr(10)}group     {printable(told['group'])} (share)")
    print(f"state     {told['state']}, {len(told['members'])} members, epoch {told['epoch']}")
    print(f"assignor  {printable(told['assignor'] or '-')}")
    if told["partitions"]:
        print()
        print_table(told["partitions"], ("topic", "partition", "startOffset", "lag"))
    if told["members"]:
        print()
        print_table(told["members"], ("memberId", "clientId", "host", "assignment"))


def check_without_members(admin: AdminClient, group_id: str) -> None:
    """Raise `GroupNotEmptyError` where there are members."""
    members = admin.describe_share_groups([group_id])[group_id].members
    if members:
        raise GroupNotEmptyError(f"group {group_id!r} has {len(members)} members, who would not notice")


def start_offsets(admin: AdminClient, group_id: str) -> dict[TopicPartition, int]:
    """Return where the group begins to read."""
    found = admin.list_share_group_offsets({group_id: None})[group_id]
    return {partition: offset.start_offset for partition, offset in found.items()}
