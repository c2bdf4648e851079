"""Groups: their members, who is assigned what, lag now and over time; members removed, groups deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import MemberToRemove
from barnabas.console.answers import Place, place
from barnabas.console.group_kinds import described_group, positions_of
from barnabas.console.lag_clock import DelayRow, delay_row
from barnabas.console.topics import bounds
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import GroupDescription
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands
    from barnabas.console.sampler import Point, Sample
    from barnabas.console.session_clients import SessionClients


class GroupRow(TypedDict):
    """A group in the list; `state` and `type` are None where the broker is too old to tell."""

    group: str
    type: str | None
    state: str | None
    protocol: str


class Groups(TypedDict):
    """All groups; `missing` are brokers that did not answer."""

    groups: list[GroupRow]
    missing: list[int]
    command: str


class MemberRow(TypedDict):
    """A member, and its partitions as `topic-partition`; epochs only with KIP-848."""

    member: str
    instance: str | None
    client: str
    host: str
    epoch: int | None
    partitions: list[str]


class OffsetRow(Place):
    """A partition that a group has committed, or that a member has; None where there is nothing.

    `delay` is how long the oldest record that was not read has waited, as far as the cluster was looked at.
    """

    committed: int | None
    end: int | None
    lag: int | None
    delay: DelayRow | None
    members: list[str]


class Group(TypedDict):
    """A group; `lag` is the sum, `history` has time (epoch ms), lag and delay (ms) since the cluster is looked at."""

    group: str
    type: str
    state: str
    protocol: str
    coordinator: int
    members: list[MemberRow]
    offsets: list[OffsetRow]
    lag: int
    history: list[tuple[int, int, int | None]]
    commands: dict[str, str]


class LagNow(TypedDict):
    """A group's lag in records, and how long the oldest of them has waited."""

    lag: int
    delay: DelayRow | None


def lags(sample: Sample, points: Iterable[Point]) -> dict[str, LagNow]:
    """Return the lag of each group that commits offsets."""
    return {
        name: {"lag": group.lag, "delay": delay_row(group.delay)}
        for name, group in sample.groups.items()
        if group.committed
    }


def reads(sample: Sample, points: Iterable[Point]) -> dict[str, dict[str, float]]:
    """Return the records a second by topic that groups commit, of those that commit any."""
    return {
        name: {topic: round(rate, 1) for topic, rate in group.reads.items()}
        for name, group in sample.groups.items()
        if group.reads
    }


async def all_groups(admin: AdminClient, commands: Commands) -> Groups:
    """Return the groups of all brokers."""
    listed = await admin.list_groups(raise_errors=False)
    rows: list[GroupRow] = [
        {
            "group": name,
            "type": None if group.type is None else group.type.name,
            "state": None if group.state is None else group.state.name,
            "protocol": group.protocol_type,
        }
        for name, group in listed.items()
    ]
    return {"groups": rows, "missing": sorted(listed.errors), "command": commands.line("group", "list")}


async def group(clients: SessionClients, name: str, now_ms: int, commands: Commands) -> Group:
    """Return one group. Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ..."""
    admin, sampler = clients.admin, clients.sampler
    description = await described_group(admin, name)
    committed, told = await positions_of(admin, description)
    owners = _owners(description)
    partitions = sorted(committed.keys() | owners.keys())
    _, ends = await bounds(admin, partitions)
    rows: list[OffsetRow] = []
    for partition in partitions:
        at, end = committed.get(partition), ends.get(partition)
        lag = told.get(partition, None if at is None or end is None else max(0, end - at))
        delay = None if at is None else sampler.lag_clock.delay(partition, at, now_ms)
        rows.append(
            {
                **place(partition),
                "committed": at,
                "end": end,
                "lag": lag,
                # The clock has not looked since: nothing waits where nothing is left.
                "delay": {"ms": 0, "isAtLeast": False} if lag == 0 else delay_row(delay),
                "members": owners.get(partition, []),
            }
        )
    return {
        "group": name,
        "type": description.type.name,
        "state": description.state.name,
        "protocol": description.protocol,
        "coordinator": description.coordinator.id,
        "members": [
            {
                "member": member.member_id,
                "instance": member.group_instance_id,
                "client": member.client_id,
                "host": member.host,
                "epoch": member.member_epoch,
                "partitions": [f"{p.topic}-{p.partition}" for p in sorted(member.assignment)],
            }
            for member in description.members
        ],
        "offsets": rows,
        "lag": sum(row["lag"] or 0 for row in rows),
        "history": [(p.at_ms, p.lags[name], p.delays.get(name)) for p in sampler.points if name in p.lags],
        "commands": {
            "describe": commands.line("group", "describe", name),
            "delete": commands.line("group", "delete", name),
        },
    }


def _owners(description: GroupDescription) -> dict[TopicPartition, list[str]]:
    """Return whose each partition is; in a share group it may be several members'."""
    found: dict[TopicPartition, list[str]] = {}
    for member in description.members:
        for partition in member.assignment:
            found.setdefault(partition, []).append(member.member_id)
    return found


class Deleted(TypedDict):
    """A group that was deleted."""

    group: str
    command: str


async def delete(admin: AdminClient, body: Body, commands: Commands) -> Deleted:
    """Delete a group with its offsets. Raises `GroupNotEmptyError`, `GroupIdNotFoundError`, ..."""
    name = body.text("group")
    body.confirmed(name)
    await admin.delete_groups([name])
    return {"group": name, "command": commands.line("group", "delete", name)}


class Removed(TypedDict):
    """The members that were made to leave."""

    members: list[str]
    command: str


async def remove_members(admin: AdminClient, body: Body, commands: Commands) -> Removed:
    """Make members leave a group, whose others then get their partitions.

    Raises `UnknownMemberIdError` for one that is gone, `IllegalArgumentError`, ...
    """
    name, wanted = body.text("group"), body.texts("members")
    body.confirmed(name)
    there = {member.member_id: member for member in (await described_group(admin, name)).members}
    missing = [member for member in wanted if member not in there]
    if missing or not wanted:
        raise IllegalArgumentError(f"members must be some of {', '.join(there) or 'a group that has none'}")
    chosen = [MemberToRemove(there[member].group_instance_id, member) for member in wanted]
    await admin.remove_members_from_consumer_group(name, chosen, reason="removed in the console")
    return {"members": wanted, "command": commands.line("group", "remove-members", name, *wanted)}
