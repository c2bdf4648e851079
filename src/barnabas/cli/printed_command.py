"""Commands that are printed for the user to run: they do what they stand for, with all options given."""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def printed_command(*words: str) -> str:
    """Return `barnabas` with these words, each as a shell takes it."""
    return shlex.join(["barnabas", *words])


def connection_of(args: argparse.Namespace) -> list[str]:
    """Return the options that say which cluster a command was given, and how to connect to it."""
    found = []
    if args.bootstrap_servers is not None:
        found += ["-b", args.bootstrap_servers]
    if args.config is not None:
        found += ["--config", args.config]
    for setting in args.settings:
        found += ["-X", setting]
    return found
