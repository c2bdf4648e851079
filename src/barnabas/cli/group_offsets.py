"""`barnabas group offsets`: moves the committed offsets of a group, or forgets them."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli import share_group
from barnabas.cli.arguments import Subparsers, add_command, add_connection, not_negative, partition_numbers
from barnabas.cli.connection import admin_client
from barnabas.cli.output import note, print_rows, report_failures
from barnabas.client.admin.groups import GroupType
from barnabas.client.offsets_plan import parse_plan
from barnabas.client.position_syntax import BEGINNING, END, OFFSET, TIME, Position, Range, parse_time
from barnabas.clock import wall_clock_ms
from barnabas.errors import GroupNotEmptyError, IllegalArgumentError, KafkaError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.protocol.topic_partition import TopicPartition


class Move(NamedTuple):
    """A partition's committed offset (None for none) and what it becomes; `wanted` before it was kept in range."""

    partition: TopicPartition
    committed: int | None
    wanted: int
    bounds: Range

    @property
    def offset(self) -> int:
        """The new offset: within what the partition holds."""
        return min(max(self.wanted, self.bounds.first), self.bounds.end)


def add_parsers(parts: Subparsers) -> None:
    """Describe the options of both."""
    offsets = add_command(parts, "offsets", "move a group's committed offsets, or forget them")
    actions = offsets.add_subparsers(metavar="ACTION", required=True)

    reset = add_command(actions, "reset", "move the offsets of a group without members")
    _add_scope(reset)
    _add_targets(reset.add_argument_group("where to").add_mutually_exclusive_group(required=True))
    reset.add_argument("--execute", action="store_true", help="do it; without this only show what would be done")
    reset.add_argument("--dry-run", action="store_true", help="only show what would be done, the default")
    add_connection(reset)
    reset.set_defaults(action=_reset)

    planned = add_command(actions, "import", "move offsets to what a file says")
    planned.add_argument("group", metavar="GROUP")
    planned.add_argument("file", metavar="FILE", help="lines of topic,partition,offset; - is standard input")
    planned.add_argument("--execute", action="store_true", help="do it; without this only show what would be done")
    add_connection(planned)
    planned.set_defaults(action=_import)

    delete = add_command(actions, "delete", "forget offsets of topics that no member is subscribed to")
    _add_scope(delete)
    add_connection(delete)
    delete.set_defaults(action=_delete)


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP")
    which = parser.add_argument_group("which partitions").add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic", metavar="TOPIC[:LIST]", action="append", default=[], help="such as flights or flights:0,2-4"
    )
    which.add_argument("--all-topics", action="store_true", help="all that have a committed offset")


def _add_targets(targets: argparse._MutuallyExclusiveGroup) -> None:
    targets.add_argument("--to-earliest", action="store_true", help="the first offset")
    targets.add_argument("--to-latest", action="store_true", help="the end")
    targets.add_argument("--to-current", action="store_true", help="the committed offset, brought into range")
    targets.add_argument("--to-offset", type=not_negative, metavar="N", help="this offset")
    targets.add_argument("--to-datetime", metavar="TIME", help="the first record of a time: 2013-06-01T12:00, -2h")
    targets.add_argument("--shift-by", type=int, metavar="N", help="forward, or back if negative, from the committed")


def _reset(args: argparse.Namespace) -> int:
    if args.execute and args.dry_run:
        raise IllegalArgumentError("--execute and --dry-run exclude each other")
    position = _position(args)
    with admin_client(args) as admin:
        is_shared = bool(share_group.share_groups(admin, [args.group]))
        check = share_group.check_without_members if is_shared else _check_without_members
        check(admin, args.group)
        moves = _moves(admin, args, position, _committed(admin, args.group, is_shared=is_shared))
        if args.execute:
            _carry_out(admin, args.group, moves, is_shared=is_shared)
    _print(args, moves)
    return 0


def _import(args: argparse.Namespace) -> int:
    with contextlib.nullcontext(sys.stdin) if args.file == "-" else Path(args.file).open(encoding="utf-8") as stream:
        text = stream.read()
    try:
        plan = parse_plan(text)
    except IllegalArgumentError as problem:
        raise IllegalArgumentError(f"{args.file}: {problem}") from None
    with admin_client(args) as admin:
        is_shared = bool(share_group.share_groups(admin, [args.group]))
        check = share_group.check_without_members if is_shared else _check_without_members
        check(admin, args.group)
        committed = _committed(admin, args.group, is_shared=is_shared)
        bounds = _bounds(admin, sorted(plan))
        moves = [Move(each, committed.get(each), plan[each], bounds[each]) for each in sorted(plan)]
        if args.execute:
            _carry_out(admin, args.group, moves, is_shared=is_shared)
    _print(args, moves)
    return 0


def _carry_out(admin: AdminClient, group: str, moves: list[Move], *, is_shared: bool) -> None:
    alter = admin.alter_share_group_offsets if is_shared else admin.alter_consumer_group_offsets
    alter(group, {move.partition: move.offset for move in moves})


def _print(args: argparse.Namespace, moves: list[Move]) -> None:
    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "committedOffset": move.committed,
            "newOffset": move.offset,
            "lag": move.bounds.end - move.offset,
        }
        for move in moves
    ]
    print_rows(args.output, rows, ("topic", "partition", "committedOffset", "newOffset", "lag"))
    for move in moves:
        if move.offset != move.wanted:
            note(f"{move.partition}: {move.wanted} is outside of {move.bounds.first} to {move.bounds.end}")
    if not args.execute:
        note("nothing was changed; --execute does it")


def _position(args: argparse.Namespace) -> Position | None:
    """Where to, in each partition; None for a place relative to what is committed."""
    if args.to_earliest:
        return Position(BEGINNING)
    if args.to_latest:
        return Position(END)
    if args.to_offset is not None:
        return Position(OFFSET, args.to_offset)
    if args.to_datetime is None:
        return None
    moment = parse_time(args.to_datetime, wall_clock_ms())
    if moment is None:
        raise IllegalArgumentError(f"--to-datetime {args.to_datetime}: write 2013-06-01T12:00, -2h or @1370088000000")
    return Position(TIME, moment)


def _check_without_members(admin: AdminClient, group: str) -> None:
    if share_group.types_of(admin, [group]).get(group) == GroupType.STREAMS:
        count = len(admin.describe_streams_groups([group])[group].members)
    else:
        found = admin.describe_groups([group], raise_errors=False)
        count = len(found[group].members) if group in found else 0
    if count:
        raise GroupNotEmptyError(f"group {group!r} has {count} members, who would not notice")


def _committed(admin: AdminClient, group: str, *, is_shared: bool) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group; of a share group, where it begins to read."""
    if is_shared:
        return share_group.start_offsets(admin, group)
    return {partition: entry.offset for partition, entry in admin.list_consumer_group_offsets(group).items()}


def _moves(
    admin: AdminClient, args: argparse.Namespace, position: Position | None, offsets: dict[TopicPartition, int]
) -> list[Move]:
    from barnabas.cli.topic_offsets import resolve_all

    partitions = _scope(admin, args, sorted(offsets))
    bounds = _bounds(admin, partitions)
    if position is None:
        without = [str(partition) for partition in partitions if partition not in offsets]
        if without:
            raise KafkaError(f"group {args.group!r} has no committed offset of {', '.join(without)} to start from")
        wanted = {partition: offsets[partition] + (args.shift_by or 0) for partition in partitions}
    elif position.kind == OFFSET:
        wanted = dict.fromkeys(partitions, position.value)
    else:
        wanted = resolve_all(admin, position, bounds)
    return [Move(partition, offsets.get(partition), wanted[partition], bounds[partition]) for partition in partitions]


def _bounds(admin: AdminClient, partitions: list[TopicPartition]) -> dict[TopicPartition, Range]:
    from barnabas.cli.topic_offsets import partition_bounds

    bounds = partition_bounds(admin, partitions)
    missing = [partition for partition in partitions if partition not in bounds]
    if missing:
        raise UnknownTopicOrPartitionError(f"there is no partition {', '.join(map(str, missing))}")
    return bounds


def _scope(admin: AdminClient, args: argparse.Namespace, committed: list[TopicPartition]) -> list[TopicPartition]:
    from barnabas.protocol.topic_partition import TopicPartition

    if args.all_topics:
        if not committed:
            raise KafkaError(f"group {args.group!r} has no committed offsets; name topics with --topic")
        return committed
    chosen: set[TopicPartition] = set()
    for text in args.topic:
        topic, colon, numbers = text.partition(":")
        if colon:
            chosen.update(TopicPartition(topic, number) for number in _numbers(numbers))
        else:
            description = admin.describe_topics([topic])[topic]
            chosen.update(TopicPartition(topic, info.partition) for info in description.partitions)
    return sorted(chosen)


def _numbers(text: str) -> list[int]:
    import argparse

    try:
        return partition_numbers(text)
    except argparse.ArgumentTypeError as problem:
        raise IllegalArgumentError(f"--topic: {problem}") from None


def _delete(args: argparse.Namespace) -> int:
    with admin_client(args) as admin:
        if share_group.share_groups(admin, [args.group]):
            return _delete_of_share_group(admin, args)
        partitions = _scope(admin, args, sorted(admin.list_consumer_group_offsets(args.group)))
        results = admin.delete_consumer_group_offsets(args.group, partitions, raise_errors=False)
    rows = [{"topic": p.topic, "partition": p.partition, "deleted": True} for p in results]
    print_rows(args.output, rows, ("topic", "partition", "deleted"))
    return report_failures("group offsets delete", results.errors.values())


def _delete_of_share_group(admin: AdminClient, args: argparse.Namespace) -> int:
    """Forget whole topics: share groups cannot forget single partitions."""
    if any(":" in topic for topic in args.topic):
        raise IllegalArgumentError("a share group forgets whole topics: give --topic without partitions")
    topics = args.topic or sorted({partition.topic for partition in share_group.start_offsets(admin, args.group)})
    results = admin.delete_share_group_offsets(args.group, topics, raise_errors=False)
    print_rows(args.output, [{"topic": topic, "deleted": True} for topic in results], ("topic", "deleted"))
    return report_failures("group offsets delete", results.errors.values())
