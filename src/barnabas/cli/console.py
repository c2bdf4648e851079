"""`barnabas console`: a web page that shows a cluster, and changes it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli import browser
from barnabas.cli.arguments import Subparsers, add_client_options, add_command
from barnabas.cli.connection import API_TIMEOUT_MS, check_reachable, client_settings, offered_mechanisms
from barnabas.cli.output import note
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

    from barnabas.broker.config import Listener
    from barnabas.console.server import Console
    from barnabas.console.settings import ConsoleSettings
    from barnabas.streams.topology.description import TopologyDescription

DEFAULT_LISTEN = "127.0.0.1:8080"
_EXAMPLES = """\
  barnabas console                                      the cluster at localhost:9092
  barnabas console -b kafka-1:9092 --read-only          any Kafka, and nothing can be changed
  barnabas console --config client.properties           as the principal of these settings
  barnabas console -X security.protocol=SASL_SSL --login   each person as themselves
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    parser = add_command(subparsers, "console", "serve a web page that shows a cluster", examples=_EXAMPLES)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, help=f"where the page is (else {DEFAULT_LISTEN})"
    )
    parser.add_argument("--read-only", action="store_true", help="change nothing in the cluster")
    parser.add_argument("--login", action="store_true", help="have each person log in to the cluster, by SASL")
    repeatable = partial(parser.add_argument, action="append", default=[])
    other = "another name that browsers know it by, such as a proxy's; repeatable"
    repeatable("--allowed-host", metavar="HOST[:PORT]", help=other)
    proxy = "a reverse proxy's address or network, whose X-Forwarded-* are believed; repeatable"
    repeatable("--trusted-proxy", metavar="ADDRESS", help=proxy)
    parser.add_argument("--tls-certificate", metavar="FILE", help="serve by TLS, which other hosts than 127.0.0.1 need")
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's private key")
    parser.add_argument("--schema-registry", metavar="URL", help="its schemas are shown, and read Avro, JSON, Protobuf")
    of_spark = "a Spark query's checkpoint, or a directory of them; repeatable"
    repeatable("--checkpoint", metavar="DIR", type=Path, help=of_spark)
    drawn = "draw a streams application as this topology of barnabas.streams; repeatable"
    repeatable("--topology", metavar="APPLICATION=MODULE:NAME", help=drawn)
    masked = "what of records is not shown, such as orders*:value.card; repeatable"
    repeatable("--mask", metavar="TOPIC:PLACE", help=masked)
    repeatable("--protobuf", metavar="FILE", type=Path, help="a descriptor file of Protobuf messages; repeatable")
    holds = "what topics hold, such as orders*:value=shop.Order; repeatable"
    repeatable("--protobuf-type", metavar="TOPIC:SIDE=TYPE", help=holds)
    parser.add_argument("--change-log", metavar="FILE", type=Path, help="note every change there, as JSON lines")
    parser.add_argument("--no-browser", action="store_true", help="print the link, and open no browser")
    parser.add_argument("--until-stdin-ends", action="store_true", help="end when standard input does")
    add_client_options(parser)


def run(args: Namespace) -> int:
    """Serve the console until it is told to stop. Raises `ConfigError`, `UnreachableError`."""
    check_installed()
    from barnabas.cli import logs
    from barnabas.console.server import Console

    settings = _settings(args)
    logs.set_up(verbose=args.verbose)
    admin = settings.clients["admin"]
    if args.login:
        settings = settings._replace(login=_ways_to_log_in(settings))
    else:
        check_reachable(str(admin["bootstrap.servers"]), settings=admin)
    console = Console(settings)
    if args.until_stdin_ends:
        threading.Thread(target=_stop_at_end_of_input, args=(console,), daemon=True).start()
    say = _say_address if args.login else _say

    def begin(link: str) -> None:
        say(link)
        if not args.no_browser:
            browser.show(link)

    asyncio.run(console.serve(begin, say))
    return 0


def _ways_to_log_in(settings: ConsoleSettings) -> tuple[str, ...]:
    """Return by which mechanisms people may log in. Raises `ConfigError`, `UnreachableError`."""
    from barnabas.console.credentials import check_leaves_open_who, offered_here

    for each in settings.clients.values():
        check_leaves_open_who(each)
    admin = settings.clients["admin"]
    return offered_here(offered_mechanisms(admin), admin.get("sasl.mechanism"))


def check_installed() -> None:
    """Raise `ConfigError` where the packages of the console are missing."""
    try:
        import starlette  # noqa: F401 - only to see whether it is there
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError("the console needs Starlette and uvicorn: pip install 'barnabas[console]'") from None


def start_beside(
    listeners: Sequence[Listener], client_settings_file: str | None = None, *, no_browser: bool = False
) -> None:
    """Start the console of a broker that runs here, in a process that ends with this one.

    It listens at the usual port, or at a free one where that is taken, and connects as the file says, else to the first
    listener without security; where there is none, this says how to start it by hand.
    """
    if client_settings_file is not None:
        start_for(["--config", client_settings_file], no_browser=no_browser)
        return
    plain = next((listener for listener in listeners if listener.protocol == "PLAINTEXT"), None)
    sasl = next((listener for listener in listeners if listener.protocol == "SASL_PLAINTEXT"), None)
    if plain is not None:
        start_for(["-b", plain.address.replace("*", "127.0.0.1")], no_browser=no_browser)
    elif sasl is not None:
        address = sasl.address.replace("*", "127.0.0.1")
        start_for(["-b", address, "-X", "security.protocol=SASL_PLAINTEXT", "--login"], no_browser=no_browser)
    else:
        note("--console: all listeners want TLS; start `barnabas console --config FILE` with a client's settings")


def start_for(connection: Sequence[str], *, no_browser: bool = False) -> None:
    """Start the console with these options of a connection, in a process that ends with this one."""
    command = [sys.executable, "-m", "barnabas.cli.main", "console", *connection, "--listen", _free_address()]
    if no_browser:
        command.append("--no-browser")
    # The broker's end, of any kind, closes the pipe, and the console ends with it.
    subprocess.Popen([*command, "--until-stdin-ends"], stdin=subprocess.PIPE)  # noqa: S603 - our own command


def _free_address() -> str:
    import socket

    host, _, port = DEFAULT_LISTEN.rpartition(":")
    try:
        socket.create_server((host, int(port))).close()
    except OSError:
        return f"{host}:0"
    return DEFAULT_LISTEN


def _settings(args: Namespace) -> ConsoleSettings:
    from barnabas.broker.config import parse_address
    from barnabas.console import masking
    from barnabas.console.proxies import parse_network
    from barnabas.console.settings import ConsoleSettings

    host, port = parse_address(args.listen)
    defaults = {"client.id": "barnabas-console"}
    waits = {"default.api.timeout.ms": API_TIMEOUT_MS}
    clients = {
        "admin": client_settings(args, "admin", {**defaults, **waits}),
        "consumer": client_settings(args, "consumer", {**defaults, **waits}),
        "producer": client_settings(args, "producer", {**defaults, "max.block.ms": API_TIMEOUT_MS}),
    }
    servers = str(clients["admin"]["bootstrap.servers"])
    # A person's commands have settings of their own.
    connection = ("-b", servers, *(("--config", args.config) if args.config and not args.login else ()))
    return ConsoleSettings(
        clients,
        connection,
        host,
        port,
        args.read_only,
        tuple(args.allowed_host),
        args.tls_certificate,
        args.tls_key,
        args.schema_registry,
        checkpoints=tuple(args.checkpoint),
        topologies=_topologies(args.topology),
        change_log=args.change_log,
        masks=tuple(map(masking.parse_rule, args.mask)),
        trusted_proxies=tuple(map(parse_network, args.trusted_proxy)),
        **_messages(args.protobuf, args.protobuf_type),
    )


def _messages(files: Sequence[Path], rules: Sequence[str]) -> dict[str, Any]:
    """Return the settings of Protobuf messages. Raises `ConfigError` for a type that no file has."""
    from barnabas.console.protobuf_values import Messages, parse_rule

    if not files and not rules:
        return {}
    messages, found = Messages(files), tuple(map(parse_rule, rules))
    for rule in found:
        messages.reader(rule.message)
    return {"messages": messages, "message_rules": found}


def _topologies(given: Sequence[str]) -> dict[str, TopologyDescription]:
    from barnabas.cli.streams import topology_of

    found = {}
    for text in given:
        application, equals, reference = text.partition("=")
        if not equals:
            raise ConfigError(f"--topology {text}: write APPLICATION=MODULE:NAME, such as delays=airport:topology")
        found[application] = topology_of(reference).describe()
    return found


def _say(link: str) -> None:
    print(f"console at {link} (valid once, for five minutes)", flush=True)


def _say_address(address: str) -> None:
    print(f"console at {address} (each person logs in to the cluster)", flush=True)


def _stop_at_end_of_input(console: Console) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    note("standard input ended: the console stops")
    console.stop()
