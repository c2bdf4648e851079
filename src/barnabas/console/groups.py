"""Groups: their members, who is assigned what, lag now and over time; offsets moved with a preview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import OffsetSpec
from barnabas.client.position_syntax import BEGINNING, END, TIME, Range, parse_position, resolve
from barnabas.console.answers import Place, place
from barnabas.console.lag_clock import DelayRow, delay_row
from barnabas.console.streams_groups import described_group
from barnabas.errors import GroupNotEmptyError, IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import GroupDescription
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands
    from barnabas.console.sampler import Point, Sample, Sampler


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
    member: str | None


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


class Move(Place):
    """Where a committed offset is, and where it goes."""

    committed: int | None
    offset: int
    lag: int


class Moved(TypedDict):
    """The moves, made or with `dryRun` only shown."""

    dryRun: bool
    moves: list[Move]
    command: str


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


async def group(admin: AdminClient, name: str, sampler: Sampler, now_ms: int, commands: Commands) -> Group:
    """Return one group. Raises `GroupIdNotFoundError`, `GroupAuthorizationError`, ..."""
    description = await described_group(admin, name)
    committed = {p: found.offset for p, found in (await admin.list_consumer_group_offsets(name)).items()}
    owners = _owners(description)
    partitions = sorted(committed.keys() | owners.keys())
    _, ends = await _bounds(admin, partitions)
    rows: list[OffsetRow] = []
    for partition in partitions:
        at, end = committed.get(partition), ends.get(partition)
        lag = None if at is None or end is None else max(0, end - at)
        delay = None if at is None else sampler.lag_clock.delay(partition, at, now_ms)
        rows.append(
            {
                **place(partition),
                "committed": at,
                "end": end,
                "lag": lag,
                # The clock has not looked since: nothing waits where nothing is left.
                "delay": {"ms": 0, "isAtLeast": False} if lag == 0 else delay_row(delay),
                "member": owners.get(partition),
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


def _owners(description: GroupDescription) -> dict[TopicPartition, str]:
    return {p: member.member_id for member in description.members for p in member.assignment}


async def _bounds(
    admin: AdminClient, partitions: list[TopicPartition]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    if not partitions:
        return {}, {}
    first = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST), raise_errors=False)
    end = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), raise_errors=False)
    both = first.keys() & end.keys()
    return {p: first[p].offset for p in both}, {p: end[p].offset for p in both}


async def move_offsets(admin: AdminClient, body: Body, now_ms: int, commands: Commands) -> Moved:
    """Move what a group has committed to a place, or with `dryRun` only say where that is.

    Raises `GroupNotEmptyError` while it has members, `IllegalArgumentError`, ...
    """
    name, to, dry_run, topics = body.text("group"), body.text("to"), body.flag("dryRun"), body.texts("topics")
    position = parse_position(to, now_ms)
    if position.kind in (BEGINNING, END) and position.value:
        raise IllegalArgumentError(f"{to!r}: offsets move to beginning, end, an offset, or a time such as -5m")
    description = await described_group(admin, name)
    if description.members and not dry_run:
        raise GroupNotEmptyError(f"group {name!r} has {len(description.members)} members, who would not notice")
    committed = {p: found.offset for p, found in (await admin.list_consumer_group_offsets(name)).items()}
    chosen = sorted(partition for partition in committed if not topics or partition.topic in topics)
    if not chosen:
        raise IllegalArgumentError(f"group {name!r} has no committed offsets there to move")
    first, ends = await _bounds(admin, chosen)
    known = [partition for partition in chosen if partition in ends]
    at_time: dict[TopicPartition, int] = {}
    if position.kind == TIME:
        listed = await admin.list_offsets(dict.fromkeys(known, position.value))
        at_time = {partition: found.offset for partition, found in listed.items() if found.offset >= 0}
    targets = {p: resolve(position, Range(first[p], ends[p]), at_time.get(p)) for p in known}
    if not dry_run:
        await admin.alter_consumer_group_offsets(name, targets)
    moves: list[Move] = [
        {**place(p), "committed": committed[p], "offset": target, "lag": ends[p] - target}
        for p, target in targets.items()
    ]
    return {"dryRun": dry_run, "moves": moves, "command": _command(commands, name, to, topics, dry_run=dry_run)}


_PLACES = {"beginning": "--to-earliest", "earliest": "--to-earliest", "end": "--to-latest", "latest": "--to-latest"}


def _command(commands: Commands, name: str, to: str, topics: list[str], *, dry_run: bool) -> str:
    where = [_PLACES[to]] if to in _PLACES else ["--to-offset" if to.isdecimal() else "--to-datetime", to]
    which = [word for topic in topics for word in ("--topic", topic)] or ["--all-topics"]
    return commands.line("group", "offsets", "reset", name, *which, *where, *([] if dry_run else ["--execute"]))


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
