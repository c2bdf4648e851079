"""Offsets of groups of all kinds, moved or forgotten, with a preview: to a place, relatively, or as a file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from barnabas.admin import GroupType
from barnabas.client.offsets_plan import parse_plan
from barnabas.client.position_syntax import BEGINNING, END, OFFSET, TIME, Position, Range, parse_position
from barnabas.console.answers import Place, place
from barnabas.console.group_kinds import described_group, forget_positions, positions_of, set_positions
from barnabas.console.topics import bounds
from barnabas.errors import GroupNotEmptyError, IllegalArgumentError, UnknownTopicOrPartitionError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.answers import Body
    from barnabas.console.commands import Commands


class Move(Place):
    """Where a committed offset is, and where it goes; `wanted` is that before it was kept in range."""

    committed: int | None
    offset: int
    lag: int
    wanted: int


class Moved(TypedDict):
    """The moves, made or with `dryRun` only shown."""

    dryRun: bool
    moves: list[Move]
    command: str


class ForgottenRow(Place):
    """A partition of which nothing is committed any more, and what was."""

    committed: int


class Forgotten(TypedDict):
    """What was forgotten, or with `dryRun` would be."""

    dryRun: bool
    offsets: list[ForgottenRow]
    command: str


async def move_offsets(admin: AdminClient, body: Body, now_ms: int, commands: Commands) -> Moved:
    """Move what a group has committed, or with `dryRun` only say where that is.

    Where to is one of `to` (a place), `shiftBy` (records from the committed offset) and `plan` (lines of
    topic,partition,offset). Raises `GroupNotEmptyError` while it has members, `IllegalArgumentError`, ...
    """
    name, dry_run, topics = body.text("group"), body.flag("dryRun"), body.texts("topics")
    way = _way(body, now_ms)
    description = await described_group(admin, name)
    if description.members and not dry_run:
        raise GroupNotEmptyError(f"group {name!r} has {len(description.members)} members, who would not notice")
    committed = (await positions_of(admin, description)).committed
    named = way if isinstance(way, dict) else committed
    chosen = sorted(partition for partition in named if not topics or partition.topic in topics)
    if not chosen:
        raise IllegalArgumentError(f"group {name!r} has no committed offsets there to move")
    first, ends = await bounds(admin, chosen)
    missing = [partition for partition in chosen if partition not in ends]
    if isinstance(way, dict) and missing:
        raise UnknownTopicOrPartitionError(f"the plan names {missing[0]}, which there is not")
    there = {partition: Range(first[partition], ends[partition]) for partition in chosen if partition in ends}
    wanted = await _wanted(admin, way, committed, there)
    targets = {p: min(max(offset, first[p]), ends[p]) for p, offset in wanted.items()}
    if not dry_run:
        await set_positions(admin, description, targets)
    moves: list[Move] = [
        {**place(p), "committed": committed.get(p), "offset": at, "lag": ends[p] - at, "wanted": wanted[p]}
        for p, at in targets.items()
    ]
    words = _words(body, way, name, topics)
    return {"dryRun": dry_run, "moves": moves, "command": commands.line(*words, *([] if dry_run else ["--execute"]))}


#: By a plan, by so many records, or to a place.
_Way = dict[TopicPartition, int] | int | Position


def _way(body: Body, now_ms: int) -> _Way:
    if sum(body.has(way) for way in ("to", "shiftBy", "plan")) != 1:
        raise IllegalArgumentError("give one of to, shiftBy and plan")
    if body.has("plan"):
        return parse_plan(body.text("plan"))
    return body.integer("shiftBy") if body.has("shiftBy") else _position(body.text("to"), now_ms)


async def _wanted(
    admin: AdminClient, way: _Way, committed: Mapping[TopicPartition, int], there: Mapping[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """Return where each partition is to go, be it in range or not."""
    if isinstance(way, dict):
        return {partition: way[partition] for partition in there}
    if isinstance(way, int):
        return {partition: committed[partition] + way for partition in there}
    if way.kind == OFFSET:
        return dict.fromkeys(there, way.value)
    if way.kind != TIME:
        return {p: found.first if way.kind == BEGINNING else found.end for p, found in there.items()}
    listed = await admin.list_offsets(dict.fromkeys(there, way.value))
    return {p: listed[p].offset if listed[p].offset >= 0 else found.end for p, found in there.items()}


def _position(text: str, now_ms: int) -> Position:
    position = parse_position(text, now_ms)
    if position.kind in (BEGINNING, END) and position.value:
        raise IllegalArgumentError(
            f"{text!r}: offsets move to beginning, end, an offset, or a time such as -5m; shiftBy moves them relatively"
        )
    return position


_PLACES = {"beginning": "--to-earliest", "earliest": "--to-earliest", "end": "--to-latest", "latest": "--to-latest"}


def _words(body: Body, way: _Way, name: str, topics: list[str]) -> list[str]:
    if isinstance(way, dict):
        return ["group", "offsets", "import", name, "FILE"]
    which = [word for topic in topics for word in ("--topic", topic)] or ["--all-topics"]
    if isinstance(way, int):
        return ["group", "offsets", "reset", name, *which, f"--shift-by={way}"]
    to = body.text("to")
    where = [_PLACES[to]] if to in _PLACES else ["--to-offset" if to.isdecimal() else "--to-datetime", to]
    return ["group", "offsets", "reset", name, *which, *where]


async def forget_offsets(admin: AdminClient, body: Body, commands: Commands) -> Forgotten:
    """Forget what a group has committed of topics, or with `dryRun` only say what that is.

    Raises `GroupSubscribedToTopicError`, `GroupNotEmptyError` of a share group, `IllegalArgumentError`, ...
    """
    name, dry_run, topics = body.text("group"), body.flag("dryRun"), body.texts("topics")
    description = await described_group(admin, name)
    committed = (await positions_of(admin, description)).committed
    chosen = sorted(partition for partition in committed if partition.topic in topics)
    if not chosen:
        raise IllegalArgumentError(f"group {name!r} has no committed offsets of these topics to forget")
    if not dry_run:
        if description.type == GroupType.SHARE and description.members:
            raise GroupNotEmptyError(f"group {name!r} has {len(description.members)} members; they have to leave first")
        await forget_positions(admin, description, chosen)
    rows: list[ForgottenRow] = [{**place(partition), "committed": committed[partition]} for partition in chosen]
    which = [word for topic in topics for word in ("--topic", topic)]
    return {"dryRun": dry_run, "offsets": rows, "command": commands.line("group", "offsets", "delete", name, *which)}
