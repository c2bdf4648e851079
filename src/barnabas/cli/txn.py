"""`barnabas txn`: list, describe and abort transactions, and find those that hang."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection, not_negative
from barnabas.cli.connection import admin_client
from barnabas.cli.hanging_transactions import all_partitions, find_hanging, producer_rows
from barnabas.cli.output import (
    print_json,
    print_rows,
    print_table,
    printable,
    report_failures,
    report_silent_brokers,
    time_text,
)
from barnabas.client.position_syntax import parse_duration
from barnabas.clock import wall_clock_ms
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.client.admin.hanging_transactions import OpenTransaction
    from barnabas.client.admin.transactions import TransactionDescription

_EXAMPLES = """\
  barnabas txn list --state Ongoing --longer-than 10m
  barnabas txn describe billing-0
  barnabas txn abort billing-0                               ends what is open, and shuts its producer out
  barnabas txn find-hanging                                  keeps readers of committed records waiting
  barnabas txn abort-hanging flights:3 --start-offset 4711   ends what no coordinator knows of
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "list, describe and abort transactions"
    parts = add_command(subparsers, "txn", about, examples=_EXAMPLES).add_subparsers(metavar="ACTION", required=True)

    listing = add_command(parts, "list", "list transactional ids")
    listing.add_argument("--state", action="append", default=[], metavar="STATE", help="only these, such as Ongoing")
    listing.add_argument(
        "--producer-id", action="append", default=[], metavar="ID", type=not_negative, help="only of these producers"
    )
    listing.add_argument(
        "--longer-than", metavar="TIME", type=_duration, help="only transactions open for longer, such as 30s or 5m"
    )
    listing.add_argument("--pattern", metavar="REGEX", help="only ids that match as a whole (RE2's syntax)")
    add_connection(listing)
    listing.set_defaults(action=_list)

    describe = add_command(parts, "describe", "show producer, state and partitions of transactional ids")
    describe.add_argument("ids", metavar="ID", nargs="+")
    add_connection(describe)
    describe.set_defaults(action=_describe)

    abort = add_command(
        parts, "abort", "end the open transactions of ids, prepared ones too, and fence their producers"
    )
    abort.add_argument("ids", metavar="ID", nargs="+")
    add_connection(abort)
    abort.set_defaults(action=_abort)
    _add_partition_commands(parts)


def _add_partition_commands(parts: Subparsers) -> None:
    producers = add_command(parts, "producers", "show the producers that partitions know")
    producers.add_argument("partitions", metavar="TOPIC[:LIST]", nargs="+", help="such as flights or flights:0,2-4")
    add_connection(producers)
    producers.set_defaults(action=_producers)

    find = add_command(parts, "find-hanging", "show open transactions that their coordinators know nothing of")
    find.add_argument("partitions", metavar="TOPIC[:LIST]", nargs="*", help="all topics unless some are given")
    find.add_argument(
        "--older-than",
        metavar="TIME",
        type=_duration,
        default=_duration("15m"),
        help="nothing written for so long; not below transaction.max.timeout.ms (15m)",
    )
    add_connection(find)
    find.set_defaults(action=_find_hanging)

    abort = add_command(parts, "abort-hanging", "end a transaction in a partition without asking its coordinator")
    abort.add_argument("partition", metavar="TOPIC:PARTITION")
    abort.add_argument("--start-offset", type=not_negative, required=True, metavar="N", help="its first offset")
    add_connection(abort)
    abort.set_defaults(action=_abort_hanging)


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 500ms, 30s, 5m, 2h or 1d")
    return seconds


def _list(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.list_transactions(
            states=args.state,
            producer_ids=args.producer_id,
            longer_than=args.longer_than,
            transactional_id_pattern=args.pattern,
            raise_errors=False,
        )
    outcome = report_silent_brokers("txn list", found)
    rows = [
        {"transactionalId": one.transactional_id, "producerId": one.producer_id, "state": one.state}
        for one in found.values()
    ]
    print_rows(args.output, rows, ("transactionalId", "producerId", "state"))
    return outcome


def _describe(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.describe_transactions(args.ids, raise_errors=False)
    documents = [_document(name, transaction) for name, transaction in found.items()]
    if args.output == "json":
        print_json(documents)
    else:
        for number, document in enumerate(documents):
            _print_description(document, is_first=number == 0)
    return report_failures("txn describe", found.errors.values())


def _document(transactional_id: str, found: TransactionDescription) -> dict[str, Any]:
    started = found.start_time_ms
    return {
        "transactionalId": transactional_id,
        "state": found.state,
        "coordinatorId": found.coordinator_id,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "timeoutMs": found.timeout_ms,
        "startTimeMs": started if started >= 0 else None,
        "durationMs": max(0, wall_clock_ms() - started) if started >= 0 else None,
        "partitions": [str(partition) for partition in sorted(found.topic_partitions)],
    }


def _print_description(document: dict[str, Any], *, is_first: bool) -> None:
    print(f"{'' if is_first else chr(10)}transactional id  {printable(document['transactionalId'])}")
    print(f"state             {document['state']}, at broker {document['coordinatorId']}")
    print(f"producer          {document['producerId']}, epoch {document['producerEpoch']}")
    print(f"time-out          {document['timeoutMs'] / 1000:g} s")
    if document["startTimeMs"] is not None:
        print(f"open since        {time_text(document['startTimeMs'])}, {document['durationMs'] / 1000:.1f} s")
    if document["partitions"]:
        print(f"partitions        {printable(', '.join(document['partitions']))}")


def _abort(args: Namespace) -> int:
    failures = []
    rows = []
    with admin_client(args) as admin:
        # This would create an id that does not exist.
        known = admin.describe_transactions(args.ids, raise_errors=False)
        for name, before in known.items():
            fenced = admin.fence_producers([name], raise_errors=False)
            failures += list(fenced.errors.values())
            rows += [
                {"transactionalId": name, "before": before.state, "producerId": p.producer_id, "producerEpoch": p.epoch}
                for p in fenced.values()
            ]
    print_rows(args.output, rows, ("transactionalId", "before", "producerId", "producerEpoch"))
    return report_failures("txn abort", [*known.errors.values(), *failures])


def _producers(args: Namespace) -> int:
    with admin_client(args) as admin:
        found = admin.describe_producers(all_partitions(admin, args.partitions), raise_errors=False)
    columns = ("topic", "partition", "producerId", "producerEpoch", "lastSequence", "lastTime", "startOffset")
    print_rows(args.output, producer_rows(found), columns)
    return report_failures("txn producers", found.errors.values())


def _find_hanging(args: Namespace) -> int:
    with admin_client(args) as admin:
        oldest_ms = wall_clock_ms() - int(args.older_than * 1000)
        hanging = find_hanging(admin, all_partitions(admin, args.partitions), oldest_ms)
    rows = [_hanging_row(transaction) for transaction in hanging]
    print_rows(args.output, rows, ("topic", "partition", "producerId", "producerEpoch", "startOffset", "lastTime"))
    return 0


def _hanging_row(transaction: OpenTransaction) -> dict[str, Any]:
    (row,) = producer_rows({transaction.partition: [transaction.producer]})
    return row


def _abort_hanging(args: Namespace) -> int:
    from barnabas.client.admin.hanging_transactions import abort_of

    with admin_client(args) as admin:
        chosen = all_partitions(admin, [args.partition])
        if len(chosen) != 1:
            raise IllegalArgumentError(f"{args.partition}: name one partition, such as flights:3")
        spec = abort_of(chosen[0], args.start_offset, admin.describe_producers(chosen))
        admin.abort_transaction(spec)
    row = {
        "topic": chosen[0].topic,
        "partition": chosen[0].partition,
        "producerId": spec.producer_id,
        "startOffset": args.start_offset,
        "aborted": True,
    }
    if args.output == "json":
        print_json([row])
    else:
        print_table([row], tuple(row))
    return 0
