"""What importing costs: barnabas and its public names against the standard library's dataclasses."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks._options import options

STATEMENTS = [
    "pass",
    "import dataclasses",
    "import barnabas",
    "from barnabas import Producer",
    "from barnabas import Consumer",
    "from barnabas import AdminClient",
    "from barnabas import Broker",
]
TIMED = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def seconds(statement: str) -> float:
    """How long a statement takes in a fresh interpreter, without the interpreter's own start."""
    done = subprocess.run([sys.executable, "-c", TIMED.format(statement)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(rounds: int = 15) -> None:
    """Run all statements in turn, so that a slow moment of the machine hits them alike; print medians."""
    times: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement in STATEMENTS:
            times[statement].append(seconds(statement))
    base = statistics.median(times["import dataclasses"])
    for statement, found in times.items():
        median = statistics.median(found)
        print(f"{statement:34} {median * 1000:7.2f} ms   {median / base:5.2f} x import dataclasses")


if __name__ == "__main__":
    options(__doc__)
    main()
