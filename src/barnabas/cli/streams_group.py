"""`barnabas group` for streams groups: their topology, their members and the tasks of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.committed_offsets import committed_partitions
from barnabas.cli.output import print_table, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.share_and_streams_groups import (
        StreamsMemberDescription,
        StreamsSubtopology,
        StreamsTask,
    )


def document(admin: AdminClient, group_id: str) -> dict[str, Any]:
    """Return what `group describe` tells of a streams group."""
    group = admin.describe_streams_groups([group_id])[group_id]
    partitions = committed_partitions(admin, group_id, {})
    return {
        "group": group.group_id,
        "type": "streams",
        "state": group.state,
        "epoch": group.group_epoch,
        "topologyEpoch": group.topology_epoch,
        "lag": sum(row["lag"] for row in partitions if row["lag"] is not None),
        "subtopologies": [_subtopology(part) for part in group.subtopologies],
        "members": [_member(member) for member in group.members],
        "partitions": partitions,
    }


def _subtopology(part: StreamsSubtopology) -> dict[str, Any]:
    return {
        "id": part.subtopology_id,
        "sources": part.source_topics,
        "repartitionSources": [topic.name for topic in part.repartition_source_topics],
        "repartitionSinks": part.repartition_sink_topics,
        "changelogs": [topic.name for topic in part.state_changelog_topics],
    }


def _member(member: StreamsMemberDescription) -> dict[str, Any]:
    endpoint, assignment = member.user_endpoint, member.assignment
    return {
        "memberId": member.member_id,
        "clientId": member.client_id,
        "host": member.host,
        "process": member.process_id,
        "epoch": member.member_epoch,
        "topologyEpoch": member.topology_epoch,
        "endpoint": None if endpoint is None else f"{endpoint[0]}:{endpoint[1]}",
        "tags": member.client_tags,
        "active": _tasks(assignment.active),
        "standby": _tasks(assignment.standby),
        "warmup": _tasks(assignment.warmup),
        "target": {
            "active": _tasks(member.target_assignment.active),
            "standby": _tasks(member.target_assignment.standby),
            "warmup": _tasks(member.target_assignment.warmup),
        },
    }


def _tasks(tasks: Iterable[StreamsTask]) -> list[str]:
    """Write tasks as Kafka Streams does: the sub-topology, then the partition."""
    return [f"{task.subtopology_id}_{task.partition}" for task in sorted(tasks)]


def print_description(told: dict[str, Any], *, is_first: bool) -> None:
    """Print it for people."""
    print(f"{'' if is_first else chr(10)}group     {printable(told['group'])} (streams)")
    members = f"{len(told['members'])} members, epoch {told['epoch']}, lag {told['lag']}"
    print(f"state     {told['state']}, {members}")
    print(f"topology  epoch {told['topologyEpoch']}, {len(told['subtopologies'])} sub-topologies")
    if told["subtopologies"]:
        print()
        columns = ("id", "sources", "repartitionSources", "repartitionSinks", "changelogs")
        print_table(told["subtopologies"], columns)
    if told["partitions"]:
        print()
        print_table(told["partitions"], ("topic", "partition", "committedOffset", "endOffset", "lag"))
    if told["members"]:
        print()
        print_table(told["members"], ("clientId", "process", "host", "active", "standby", "warmup"))
