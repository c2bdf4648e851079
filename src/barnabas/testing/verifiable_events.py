"""What Kafka's verifiable clients have in common: events as lines of JSON, settings from a file, the way they end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from barnabas.clock import wall_clock_ms
from barnabas.config.properties_file import read_properties
from barnabas.errors import ConfigError

_lock = threading.Lock()


def print_event(name: str, **fields: Any) -> None:
    """Print one event, whole lines whichever thread prints them."""
    line = json.dumps({"timestamp": wall_clock_ms(), "name": name, **fields}, separators=(",", ":"))
    with _lock:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def on_stop_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on SIGTERM and SIGINT."""

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def add_common_arguments(parser: argparse.ArgumentParser, config_option: str) -> None:
    """Add the arguments of both clients."""
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="the topic")
    parser.add_argument(
        "--bootstrap-server",
        required=True,
        metavar="HOST1:PORT1[,HOST2:PORT2[...]]",
        help="the servers to connect to",
    )
    parser.add_argument(
        "--max-messages", type=int, default=-1, metavar="N", help="stop after this many; -1 (the default): never"
    )
    parser.add_argument("--command-config", metavar="FILE", help="a file of Kafka settings")
    parser.add_argument(config_option, dest="old_config", metavar="FILE", help="the same; deprecated in Kafka 4.2")


def settings_of(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the settings in the file that was given. Ends the program, with code 1, when it cannot be read."""
    if arguments.command_config and arguments.old_config:
        parser.exit(1, f"{parser.prog}: error: give one file of settings, not two\n")
    path = arguments.command_config or arguments.old_config
    if not path:
        return {}
    try:
        return dict(read_properties(path))
    except ConfigError as problem:
        parser.exit(1, f"{parser.prog}: error: {problem}\n")
