"""`barnabas log-dir`: where brokers keep their logs, how large they are, and what is out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection, not_negative
from barnabas.cli.connection import admin_client
from barnabas.cli.output import error_line, print_json, print_table, report_silent_brokers, size_text
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from argparse import Namespace

    from barnabas.client.admin.admin_client import AdminClient

_DIRECTORIES = ("broker", "directory", "partitions", "size", "free", "problem")
_PARTITIONS = ("broker", "topic", "partition", "size", "offsetLag")
_EXAMPLES = """\
  barnabas log-dir
  barnabas log-dir --partitions --topic flights
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "show the brokers' log directories, their sizes and problems"
    add_options(add_command(subparsers, "log-dir", about, examples=_EXAMPLES))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Describe what is shown; `barnabas cluster log-dirs` is the same."""
    parser.add_argument(
        "--broker", metavar="ID", action="append", default=[], type=not_negative, help="only of this one; repeatable"
    )
    parser.add_argument("--topic", metavar="TOPIC", action="append", default=[], help="only logs of this one")
    parser.add_argument("--partitions", action="store_true", help="a line for each partition, the largest first")
    add_connection(parser)


def run(args: Namespace) -> int:
    """Print the directories; 1 if one of them has a problem."""
    with admin_client(args) as admin:
        brokers = _brokers(admin, args.broker)
        found = admin.describe_log_dirs(brokers, raise_errors=False)
    outcome = report_silent_brokers("log-dir", found)
    directories: list[dict[str, Any]] = []
    partitions: list[dict[str, Any]] = []
    for broker, of_broker in sorted(found.items()):
        for path, directory in sorted(of_broker.items()):
            every = directory.replica_infos
            logs = {name: log for name, log in every.items() if not args.topic or name.topic in args.topic}
            directories.append({
                "broker": broker,
                "directory": path,
                "partitions": len(logs),
                "size": sum(log.size for log in logs.values()),
                "total": directory.total_bytes,
                "free": directory.usable_bytes,
                "problem": None if directory.error is None else error_line(directory.error),
            })  # fmt: skip
            partitions += [
                {
                    "broker": broker,
                    "directory": path,
                    "topic": name.topic,
                    "partition": name.partition,
                    "size": log.size,
                    "offsetLag": log.offset_lag,
                }
                for name, log in logs.items()
            ]
    partitions.sort(key=lambda row: (-row["size"], row["topic"], row["partition"]))
    _print(args, directories, partitions)
    return max(outcome, int(any(row["problem"] for row in directories)))


def _brokers(admin: AdminClient, wanted: list[int]) -> list[int]:
    there = sorted(node.id for node in admin.describe_cluster().nodes)
    for broker in wanted:
        if broker not in there:
            raise ConfigError(f"--broker {broker}: the cluster has no such broker; it has {', '.join(map(str, there))}")
    return wanted or there


def _print(args: Namespace, directories: list[dict[str, Any]], partitions: list[dict[str, Any]]) -> None:
    if args.output == "json":
        print_json({"directories": directories, **({"partitions": partitions} if args.partitions else {})})
    elif args.partitions:
        print_table([{**row, "size": size_text(row["size"])} for row in partitions], _PARTITIONS)
    else:
        shown = [
            {**row, "size": size_text(row["size"]), "free": size_text(row["free"]) if row["free"] >= 0 else None}
            for row in directories
        ]
        print_table(shown, _DIRECTORIES)
