"""`barnabas topic offsets` and `topic trim`: which offsets there are, and cutting off old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection, partition_numbers
from barnabas.cli.connection import admin_client
from barnabas.cli.output import print_rows, report_failures, time_text
from barnabas.client.position_syntax import TIME, Position, Range, parse_position, resolve
from barnabas.clock import wall_clock_ms
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient
    from barnabas.client.admin.topic_descriptions import TopicDescription
    from barnabas.protocol.topic_partition import TopicPartition


def add_parsers(parts: Subparsers) -> None:
    """Describe the options of both."""
    offsets = add_command(parts, "offsets", "show the first and last offsets, and those at a time")
    offsets.add_argument("topics", metavar="TOPIC", nargs="+")
    offsets.add_argument("--at", metavar="TIME", help="also the first offset of that time or later (-5m, 2013-06-01)")
    add_connection(offsets)
    offsets.set_defaults(action=_offsets)

    trim = add_command(parts, "trim", "delete the records before an offset or time")
    trim.add_argument("topic", metavar="TOPIC")
    trim.add_argument("--before", metavar="PLACE", required=True, help="an offset, a time, -7d, -1000, end")
    trim.add_argument("-p", "--partitions", type=partition_numbers, metavar="LIST", help="only these, such as 0,2-4")
    add_connection(trim)
    trim.set_defaults(action=_trim)


def bounds_of(admin: AdminClient, description: TopicDescription) -> dict[int, Range]:
    """First and end offset of the partitions that have a leader, by number."""
    from barnabas.protocol.topic_partition import TopicPartition

    led = [TopicPartition(description.name, p.partition) for p in description.partitions if p.leader is not None]
    return {partition.partition: bounds for partition, bounds in partition_bounds(admin, led).items()}


def partition_bounds(admin: AdminClient, partitions: list[TopicPartition]) -> dict[TopicPartition, Range]:
    """First and end offset of partitions; those that could not be asked are left out."""
    from barnabas.client.admin.partition_offsets import OffsetSpec

    if not partitions:
        return {}
    first = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST), raise_errors=False)
    end = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), raise_errors=False)
    return {p: Range(first[p].offset, end[p].offset) for p in partitions if p in first.keys() & end.keys()}


def resolve_all(
    admin: AdminClient, position: Position, bounds: dict[TopicPartition, Range]
) -> dict[TopicPartition, int]:
    """Return the offset of a place in each partition."""
    at_time: dict[TopicPartition, int] = {}
    if position.kind == TIME and bounds:
        listed = admin.list_offsets(dict.fromkeys(bounds, position.value))
        at_time = {partition: found.offset for partition, found in listed.items() if found.offset >= 0}
    return {p: resolve(position, known, at_time.get(p)) for p, known in bounds.items()}


def _offsets(args: Namespace) -> int:
    position = _time(args.at) if args.at else None
    rows: list[dict[str, Any]] = []
    with admin_client(args) as admin:
        found = admin.describe_topics(args.topics, raise_errors=False)
        for description in found.values():
            rows.extend(_rows(admin, description, position))
    columns = ("topic", "partition", "beginningOffset", "endOffset", "records")
    print_rows(args.output, rows, (*columns, *(("offsetAt", "time") if position else ())))
    return report_failures("topic offsets", found.errors.values())


def _time(text: str) -> Position:
    from barnabas.errors import IllegalArgumentError

    position = parse_position(text, wall_clock_ms())
    if position.kind != TIME:
        raise IllegalArgumentError(f"--at {text}: a time is needed, such as -5m or 2013-06-01T12:00")
    return position


def _rows(admin: AdminClient, description: TopicDescription, at: Position | None) -> list[dict[str, Any]]:
    from barnabas.protocol.topic_partition import TopicPartition

    bounds = bounds_of(admin, description)
    rows: list[dict[str, Any]] = [
        {
            "topic": description.name,
            "partition": number,
            "beginningOffset": known.first,
            "endOffset": known.end,
            "records": known.end - known.first,
        }
        for number, known in bounds.items()
    ]
    if at is not None:
        listed = admin.list_offsets({TopicPartition(description.name, number): at.value for number in bounds})
        for row in rows:
            found = listed[TopicPartition(description.name, row["partition"])]
            row["offsetAt"] = found.offset if found.offset >= 0 else None
            row["timestamp"] = found.timestamp if found.offset >= 0 else None
            row["time"] = time_text(found.timestamp) if found.offset >= 0 else None
    return rows


def _trim(args: Namespace) -> int:
    position = parse_position(args.before, wall_clock_ms())
    with admin_client(args) as admin:
        description = admin.describe_topics([args.topic])[args.topic]
        chosen = {
            number: known
            for number, known in bounds_of(admin, description).items()
            if args.partitions is None or number in args.partitions
        }
        missing = [number for number in args.partitions or () if number not in chosen]
        if missing:
            raise KafkaError(f"{args.topic} has no partition {', '.join(map(str, missing))}")
        from barnabas.protocol.topic_partition import TopicPartition

        before = resolve_all(admin, position, {TopicPartition(args.topic, n): known for n, known in chosen.items()})
        results = admin.delete_records(before, raise_errors=False)
    rows = [{"topic": p.topic, "partition": p.partition, "beginningOffset": first} for p, first in results.items()]
    print_rows(args.output, rows, ("topic", "partition", "beginningOffset"))
    return report_failures("topic trim", results.errors.values())
