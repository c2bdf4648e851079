"""What the benchmarks take on their command line; `--help` prints what each one measures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser whose `--help` shows `./run bench NAME` and the benchmark's own docstring."""
    return argparse.ArgumentParser(
        prog=f"./run bench {Path(sys.argv[0]).stem}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def options(doc: str | None, **defaults: float) -> argparse.Namespace:
    """Return a number per option, of its default's type."""
    made = parser(doc)
    for name, default in defaults.items():
        made.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=f"default {default}")
    return made.parse_args()


def quorum_options(doc: str | None, rounds: int) -> tuple[int, dict[str, str]]:
    """Return how many rounds are wanted, and the settings of a quorum of controllers: Kafka's unless given."""
    given = options(doc, rounds=rounds, fetch_timeout_ms=2000, election_timeout_ms=1000)
    settings = {
        "controller.quorum.fetch.timeout.ms": str(given.fetch_timeout_ms),
        "controller.quorum.election.timeout.ms": str(given.election_timeout_ms),
    }
    return given.rounds, settings
