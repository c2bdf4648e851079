"""`barnabas anatomy`: what the parts of clients and broker do, as a film in the browser."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.cli import browser
from barnabas.cli.arguments import Subparsers, add_command
from barnabas.cli.console import check_installed
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from argparse import Namespace

DEFAULT_LISTEN = "127.0.0.1:8081"
_EXAMPLES = """\
  barnabas anatomy                              a broker, a producer and a group, as they work
  BARNABAS_ANATOMY=/tmp/anatomy python job.py   a program of your own records itself
  barnabas anatomy /tmp/anatomy                 its recordings
  barnabas anatomy seed.jsonl                   one file, such as the simulator's (--record)
"""


def add_parser(subparsers: Subparsers) -> None:
    """Describe the command's options."""
    about = "watch what producer, consumers and broker do, step by step"
    parser = add_command(subparsers, "anatomy", about, examples=_EXAMPLES)
    parser.add_argument(
        "recordings", nargs="*", type=Path, metavar="RECORDING", help="files, or directories of them (else a stage)"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, help=f"where the page is (else {DEFAULT_LISTEN})"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the link, and open no browser")


def run(args: Namespace) -> int:
    """Show recordings, or a stage, until it is told to stop. Raises `ConfigError`."""
    check_installed()
    from barnabas.broker.config import parse_address
    from barnabas.cli import logs
    from barnabas.console.server import Console
    from barnabas.console.settings import ConsoleSettings

    logs.set_up(verbose=False)
    host, port = parse_address(args.listen)
    with contextlib.ExitStack() as ending:
        paths = _files(args.recordings) if args.recordings else (ending.enter_context(_stage()),)
        console = Console(ConsoleSettings({}, (), host, port, read_only=True, recordings=paths))
        asyncio.run(console.serve(_say if args.no_browser else _say_and_show, _say))
    return 0


def _files(given: list[Path]) -> tuple[Path, ...]:
    """Return the recordings; a directory stands for those in it."""
    found: list[Path] = []
    for path in given:
        inside = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"{path} has no recordings: a program with BARNABAS_ANATOMY={path} makes them")
        found += inside
    names = [path.name for path in found]
    for path in found:
        if not path.is_file():
            raise ConfigError(f"there is no recording {path}: a program with BARNABAS_ANATOMY={path.parent} makes one")
        if names.count(path.name) > 1:
            raise ConfigError(f"two recordings are called {path.name}; show one after the other")
    return tuple(found)


@contextlib.contextmanager
def _stage() -> Iterator[Path]:
    """Have a broker, a producer and a group at work in this process while they are recorded."""
    from barnabas.cli.anatomy_stage import Stage

    with tempfile.TemporaryDirectory(prefix="barnabas-anatomy-") as directory:
        path = Path(directory) / "stage.jsonl"
        with Stage(path):
            print("a broker, a producer and a group are at work and recorded; the page follows them")
            yield path


def _say_and_show(link: str) -> None:
    _say(link)
    browser.show(link)


def _say(link: str) -> None:
    print(f"anatomy at {link} (valid once, for five minutes)", flush=True)
