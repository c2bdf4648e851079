"""`barnabas produce`: sends the lines of standard input to a topic."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from barnabas.cli.arguments import Subparsers, add_command, add_connection, not_negative, unescaped
from barnabas.cli.lines import Lines
from barnabas.cli.output import note
from barnabas.cli.printed_command import connection_of, printed_command
from barnabas.cli.signals import StopSignals
from barnabas.client.position_syntax import parse_time
from barnabas.clock import wall_clock_ms
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from barnabas.records.compression import CODECS

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.cli.produce_input import Parse
    from barnabas.cli.produce_report import Report
    from barnabas.client.producer.producer import Producer

#: How long the first Ctrl-C waits for the acknowledgements of what was read, in seconds; the second does not wait.
STOP_TIMEOUT = 10.0
#: How often the wait for acknowledgements looks for a Ctrl-C, in seconds.
FLUSH_STEP = 0.5
_EXAMPLES = r"""
  echo hello | barnabas produce news
  barnabas produce flights -k '\t' -H source=import < flights.tsv
  barnabas consume flights -e -o json | barnabas produce copy -f json
JSON lines have the fields value (null: a tombstone), key, headers, partition, timestamp.
""".strip("\n")


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    from barnabas.cli.produce_input import DECODINGS

    parser = add_command(subparsers, "produce", "send lines of standard input to a topic", examples=_EXAMPLES + "\n")
    parser.add_argument("topic", metavar="TOPIC")
    lines = parser.add_argument_group("what a line is")
    lines.add_argument("-f", "--format", choices=("lines", "json"), default="lines", metavar="FORM", help="lines|json")
    lines.add_argument("-k", "--key-delimiter", metavar="TEXT", help="what stands before it is the key, such as '\\t'")
    lines.add_argument("-T", "--tombstone", action="store_true", help="an empty value is null, not empty")
    lines.add_argument("--key-as", choices=DECODINGS, default="utf8", metavar="ENCODING", help="|".join(DECODINGS))
    lines.add_argument("--value-as", choices=DECODINGS, default="utf8", metavar="ENCODING", help="likewise")
    every = parser.add_argument_group("for every record")
    every.add_argument("-H", "--header", metavar="NAME=VALUE", action="append", default=[], help="repeatable")
    every.add_argument("-p", "--partition", type=not_negative, metavar="N", help="else by the key")
    every.add_argument("--timestamp", metavar="TIME", help="such as 2013-06-01T12:00, -5m, @1370088000000; else now")
    how = parser.add_argument_group("how they are sent")
    how.add_argument("-z", "--compression", choices=CODECS, metavar="CODEC", help="|".join(CODECS))
    how.add_argument("--acks", choices=("all", "1", "0"), metavar="ACKS", help="all (default)|1|0")
    how.add_argument("-q", "--quiet", action="store_true", help="say nothing on stderr but errors")
    add_connection(parser)


def run(args: Namespace) -> int:
    """Send standard input; 1 when any line could not be sent."""
    from barnabas.cli.connection import producer
    from barnabas.cli.produce_report import Report

    parse = _parser(args)
    chosen = {"compression.type": args.compression, "acks": args.acks}
    report = Report(quiet=args.quiet)
    with producer(args, {name: value for name, value in chosen.items() if value is not None}) as client:
        count = _partition_count(client, args)
        if sys.stdin.isatty():
            report.note("one record a line; Ctrl-D ends")
        lines = Lines(sys.stdin.fileno())
        with StopSignals(lines.stop) as signals:
            try:
                _send(client, args.topic, count, lines, parse, report)
                _await_acknowledgements(client, lines)
            except (KeyboardInterrupt, KafkaTimeoutError):
                # What is not acknowledged by now fails here, and is reported.
                client.close(0)
    lines.close()
    if signals.received:
        note(f"stopped after line {lines.count}")
    return report.finish(args.topic, args.output) or signals.code


def _parser(args: Namespace) -> Parse:
    from barnabas.cli.produce_input import GivenFields, json_parser, line_parser

    timestamp = None
    if args.timestamp is not None:
        timestamp = parse_time(args.timestamp, wall_clock_ms())
        if timestamp is None:
            raise IllegalArgumentError(f"--timestamp {args.timestamp}: write 2013-06-01T12:00, -5m or @1370088000000")
    headers: list[tuple[str, bytes | None]] = [_header(text) for text in args.header]
    given = GivenFields(args.partition, timestamp, headers, args.tombstone)
    if args.format == "json":
        if args.key_delimiter is not None:
            raise IllegalArgumentError("-k is for -f lines; a JSON line has its key in the field `key`")
        return json_parser(args.key_as, args.value_as, given)
    delimiter = unescaped(args.key_delimiter).encode(errors="surrogateescape") if args.key_delimiter else None
    return line_parser(delimiter, args.key_as, args.value_as, given)


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise IllegalArgumentError(f"-H {text}: it must be NAME=VALUE")
    return name, value.encode(errors="surrogateescape")


def _partition_count(client: Producer[bytes, bytes], args: Namespace) -> int:
    """Return the topic's partitions, asked for before the first line, for without them each line would wait in vain."""
    try:
        count = len(client.partitions_for(args.topic))
    except KafkaTimeoutError as problem:
        # Nothing was sent, so there is nothing to wait for.
        client.close(0)
        creating = printed_command("topic", "create", args.topic, *connection_of(args))
        raise KafkaTimeoutError(f"{problem}; `{creating}` creates it") from None
    _check_partition(args.partition, args.topic, count)
    return count


def _check_partition(partition: int | None, topic: str, count: int) -> None:
    if partition is not None and partition >= count:
        raise UnknownTopicOrPartitionError(f"topic {topic!r} has {count} partitions, none numbered {partition}")


def _send(client: Producer[bytes, bytes], topic: str, count: int, lines: Lines, parse: Parse, report: Report) -> None:
    for number, line in enumerate(lines, 1):
        try:
            record = parse(line)
            _check_partition(record.partition, topic, count)
            report.read(number)
            callback = report.callback(number)
            client.send(topic, record.value, record.key, record.partition, record.timestamp, record.headers, callback)
        except IllegalStateError:
            raise
        except KafkaError as problem:
            report.fail(number, problem)


def _await_acknowledgements(client: Producer[bytes, bytes], lines: Lines) -> None:
    """Wait for all results; raises KafkaTimeoutError when they do not come soon after a signal."""
    give_up_at = None
    while True:
        try:
            return client.flush(FLUSH_STEP)
        except KafkaTimeoutError:
            if lines.is_stopped:
                give_up_at = give_up_at or time.monotonic() + STOP_TIMEOUT
            if give_up_at is not None and time.monotonic() >= give_up_at:
                raise
