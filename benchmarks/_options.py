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
        made.add_argument(f"--{name}", type=type(default), default=default, help=f"default {default}")
    return made.parse_args()
