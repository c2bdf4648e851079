"""`barnabas top`: topics, groups, brokers, transactions and clients, with rates and lag, in the terminal."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments import Subparsers, add_command, add_connection
from barnabas.cli.connection import API_TIMEOUT_MS, check_reachable, client_settings
from barnabas.cli.output import print_json, print_table
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from barnabas.console.sampler import Sample
    from barnabas.console.top_view import More

_EXAMPLES = """\
  barnabas top -b kafka-1:9092          keys: t g b x c tables, Enter opens, s sort, / filter, o moves offsets
  barnabas top --once -o json           one look, for programs
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "watch topics, groups, brokers, transactions and clients in the terminal"
    parser = add_command(subparsers, "top", about, examples=_EXAMPLES)
    parser.add_argument("--once", action="store_true", help="look for a second, print, and end")
    parser.add_argument("--read-only", action="store_true", help="move no offsets")
    add_connection(parser)


def run(args: Namespace) -> int:
    """Watch the cluster, or look once. Raises `ConfigError`, `UnreachableError`."""
    from barnabas.cli import logs

    defaults = {"default.api.timeout.ms": API_TIMEOUT_MS, "client.id": "barnabas-top"}
    settings = client_settings(args, "admin", defaults)
    if args.once:
        logs.set_up(verbose=args.verbose)
        check_reachable(str(settings["bootstrap.servers"]), settings=settings)
        _print(*asyncio.run(_one_look(settings)), args.output)
        return 0
    try:
        from barnabas.console.commands import Commands
        from barnabas.console.top_app import Top
    except ImportError:
        raise ConfigError("the screen needs Textual: pip install 'barnabas[top]', or use --once") from None
    check_reachable(str(settings["bootstrap.servers"]), settings=settings)
    servers = str(settings["bootstrap.servers"])
    words = ("-b", servers, *(("--config", args.config) if args.config else ()))
    Top(settings, read_only=args.read_only, commands=Commands(words)).run()
    return 0


async def _one_look(settings: Mapping[str, Any]) -> tuple[Sample, More]:
    from barnabas.aio import AdminClient
    from barnabas.clock import wall_clock_ms
    from barnabas.console.live import Hub
    from barnabas.console.sampler import Sampler
    from barnabas.console.top_more import more_of
    from barnabas.console.top_view import TABLES

    async with AdminClient(settings) as admin:
        sampler = Sampler(admin, Hub(()), (wall_clock_ms, time.monotonic), {})
        # Rates are differences: they take two samples.
        await sampler.sample()
        await asyncio.sleep(1)
        sample = await sampler.sample()
        return sample, await more_of(admin, sample, TABLES)


def _print(sample: Sample, more: More, form: str) -> None:
    from barnabas.console.top_view import TABLES, health, table_rows

    if form == "json":
        print_json({"health": health(sample), **{name: table_rows(name, sample, more=more) for name in TABLES}})
        return
    print(health(sample))
    for name, table in TABLES.items():
        print(f"\n{name.upper()}")
        print_table(table_rows(name, sample, more=more), table.columns)
