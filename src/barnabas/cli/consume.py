"""`barnabas consume`: prints the records of topics."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection, partition_numbers, positive
from barnabas.cli.record_format import ENCODINGS, FORMS, MESSAGE
from barnabas.client.position_syntax import BEGINNING, END, Position, parse_position
from barnabas.clock import wall_clock_ms
from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.cli.record_format import Formatter

_EXAMPLES = """\
  barnabas consume flights -e                   what is there now, then end
  barnabas consume flights --from -10m          the last ten minutes, then wait for more
  barnabas consume flights --from end -n 1      the next record
  barnabas consume flights -p 0 --from 120 --to 130 -o json
  barnabas consume flights -e -f '%T %k %s\\n'   tokens: %t %p %o %T %k %s %h, lengths %K %S %R
  barnabas consume flights -g tower             share the partitions with others, commit offsets
  barnabas consume orders --share shipping -n 5 take five records from a queue
A PLACE is an offset, beginning, end, +10 or -10 from either end, or a time: 2013-06-01T12:00 (UTC
unless a zone follows), -5m, -2h, -7d, @ and epoch milliseconds.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    parser = add_command(subparsers, "consume", "print the records of topics", examples=_EXAMPLES)
    parser.add_argument("topics", metavar="TOPIC", nargs="+")
    which = parser.add_argument_group("which records")
    which.add_argument("-p", "--partitions", type=partition_numbers, metavar="LIST", help="only these, such as 0,2-4")
    which.add_argument("--from", dest="start", metavar="PLACE", help="begin there (default: beginning)")
    which.add_argument("--to", dest="stop", metavar="PLACE", help="end before it, or at the end")
    which.add_argument("-n", "--count", type=positive, metavar="N", help="end after N records")
    ending = which.add_mutually_exclusive_group()
    ending.add_argument("-e", "--exit", action="store_true", help="end where the topics end now")
    ending.add_argument("--follow", action="store_true", help="wait for more (default without -e, --to)")
    which.add_argument("-g", "--group", metavar="GROUP", help="read as a member of a group, and commit")
    which.add_argument("--share", metavar="GROUP", help="read as a member of a share group, and accept what is printed")
    how = parser.add_argument_group("how they are printed")
    how.add_argument("-f", "--format", metavar="FORMAT", help="a format string, as kcat's")
    encodings = "|".join((*ENCODINGS, "protobuf:TYPE"))
    how.add_argument("--key-as", type=_encoding, default="utf8", metavar="ENCODING", help=encodings)
    how.add_argument("--value-as", type=_encoding, default="utf8", metavar="ENCODING", help="likewise")
    how.add_argument("--protobuf", type=Path, metavar="FILE", action="append", default=[], help="descriptors of TYPE")
    how.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but errors")
    add_connection(parser, FORMS)


def _encoding(text: str) -> str:
    if text not in ENCODINGS and not text.startswith(MESSAGE):
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(ENCODINGS)}, {MESSAGE}TYPE")
    return text


def run(args: Namespace) -> int:
    """Print records until the end that was asked for, or a signal."""
    if args.share:
        return _run_share(args)
    from barnabas.cli.connection import client_settings, consumer
    from barnabas.cli.consume_reader import Reader

    start, stop = _places(args)
    write = _formatter(args)
    defaults = {"max.poll.records": 5000, "auto.offset.reset": "latest" if start.kind == END else "earliest"}
    # Committed is what was printed, and only this command knows that; so it commits itself.
    forced: dict[str, Any] = {"enable.auto.commit": False}
    commits = False
    if args.group:
        forced["group.id"] = args.group
        given = client_settings(args, "consumer").get("enable.auto.commit", "true")
        commits = str(given).lower() == "true"
    with consumer(args, defaults, forced) as client:
        reader = Reader(client, write, Stdout(), count=args.count, commits=commits, quiet=args.quiet)
        if args.group:
            return reader.read_group(args.topics, ends=args.exit)
        return reader.read_partitions(args.topics, args.partitions, start, stop)


def _run_share(args: Namespace) -> int:
    from barnabas.cli.connection import admin_client, share_consumer
    from barnabas.cli.share_reader import ShareReader

    if args.group or args.partitions is not None or args.start or args.stop:
        raise IllegalArgumentError(
            "--share reads what the share group has not given to others: it takes no -g, -p, --from and --to; where a "
            "new group begins is its setting share.auto.offset.reset, and `barnabas group offsets reset` moves it"
        )
    with admin_client(args) as admin:
        admin.describe_topics(args.topics)
    write = _formatter(args)
    defaults: dict[str, Any] = {"max.poll.records": min(args.count or 500, 500)}
    if args.count:
        defaults["share.acquire.mode"] = "record_limit"
    forced = {"group.id": args.share, "share.acknowledgement.mode": "explicit"}
    with share_consumer(args, defaults, forced) as client:
        client.subscribe(args.topics)
        return ShareReader(client, write, Stdout(), count=args.count, ends=args.exit).read()


def _places(args: Namespace) -> tuple[Position, Position | None]:
    now_ms = wall_clock_ms()
    start = parse_position(args.start, now_ms) if args.start else Position(BEGINNING)
    stop = parse_position(args.stop, now_ms) if args.stop else None
    if args.exit and stop is None:
        stop = Position(END)
    if args.follow and stop is not None:
        raise IllegalArgumentError("--follow waits for more and --to ends: choose one")
    if args.group:
        if args.partitions is not None:
            raise IllegalArgumentError("-p and --group exclude each other: the group hands out the partitions")
        if args.stop or start not in (Position(BEGINNING), Position(END)):
            raise IllegalArgumentError(
                "a group goes on from its committed offsets: --from can only be beginning or end, for partitions "
                "without one, and --to cannot be given; `barnabas group offsets reset` moves the offsets"
            )
    return start, stop


def _formatter(args: Namespace) -> Formatter:
    from barnabas.cli.record_format import encodings_of, format_string, formatter, saying_where

    encodings = encodings_of((args.key_as, args.value_as), args.protobuf)
    if args.format is not None:
        write = format_string(args.format, args.key_as, args.value_as, encodings)
    else:
        write = formatter(args.output, args.key_as, args.value_as, encodings)
    return write if encodings is ENCODINGS else saying_where(write)


class Stdout:
    """Standard output as bytes."""

    def write(self, data: bytes) -> None:
        """Write and flush. Raises `BrokenPipeError` when the reader is gone."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def check(self) -> None:
        """Raise `BrokenPipeError` when the reader is gone, which goes unnoticed while nothing is written."""
        import select

        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in poll.poll(0)):
            raise BrokenPipeError
