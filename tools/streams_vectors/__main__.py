"""The command `python -m tools.streams_vectors FILE`."""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from tools.streams_vectors.comparing import first_difference
from tools.streams_vectors.running import run


def main(arguments: list[str] | None = None) -> int:
    """Run the cases of a file; print the first difference of each and `N of M equal` last."""
    parser = argparse.ArgumentParser(prog="python -m tools.streams_vectors", description=__doc__)
    parser.add_argument("file", type=Path, help="cases, one JSON object a line, gzipped or not")
    parser.add_argument("names", nargs="*", help="only the cases of these names or categories")
    options = parser.parse_args(arguments)
    logger = logging.getLogger("barnabas")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what cases do on purpose is not to be read between their differences
    try:
        return _run(options.file, options.names)
    finally:
        logger.setLevel(level)


def _run(file: Path, names: list[str]) -> int:
    equal = total = 0
    for case in read(file):
        if names and case["name"] not in names and case["category"] not in names:
            continue
        total += 1
        difference = difference_of(case)
        if difference is None:
            equal += 1
        else:
            print(f"{case['name']}: {difference}")
    print(f"{equal} of {total} equal")
    return 0 if equal == total else 1


def read(file: Path) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def difference_of(case: dict[str, Any]) -> str | None:
    """Return the first difference of a case; a failure of the runner itself is one too."""
    try:
        return first_difference(case["expected"], run(case))
    except Exception:  # noqa: BLE001  # what fails is the result
        return f"the runner failed:\n{traceback.format_exc()}"


if __name__ == "__main__":
    sys.exit(main())
