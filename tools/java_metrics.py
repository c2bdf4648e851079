"""Makes tests/vectors/data/sampled-statistics.jsonl and java-client-metrics.txt, by Apache Kafka's own classes.

`python -m tools.java_metrics` writes both: what Java's sampled statistics say of the same values at the same times, and
the metrics (client, group, tags, name) that Java's clients have. It needs a JDK; the tests that read them do not.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from barnabas import Broker
from tests.peers.java_tools import JavaTools

DATA = Path(__file__).parent.parent / "tests" / "vectors" / "data"
STATISTICS = DATA / "sampled-statistics.jsonl"
NAMES = DATA / "java-client-metrics.txt"
# Times are such that seconds in binary are exact.
_GRID_MS = 125


def main() -> None:
    """Write both files."""
    with Broker() as broker, JavaTools() as java:
        names = java.run("MetricNames", broker.bootstrap_servers, "names")
        NAMES.write_text("\n".join(sorted(set(names.out.splitlines()))) + "\n")
        cases = [_case(random.Random(seed)) for seed in range(150)]
        lines = [_line(case) for case in cases]
        answers = java.run("SampledStatistics", stdin="\n".join(lines)).out.splitlines()
    assert len(answers) == len(cases)
    with STATISTICS.open("w") as file:
        for case, answer in zip(cases, answers, strict=True):
            found = dict(part.split("=") for part in answer.split())
            file.write(json.dumps({**case, "java": {name: float(value) for name, value in found.items()}}) + "\n")


def _case(rng: random.Random) -> dict[str, object]:
    """Return times and values at a pace that changes, and when to ask: soon or long after."""
    window = rng.choice([1000, 5000, 30000])
    now = start = rng.randrange(10**6) * _GRID_MS
    values = []
    for _ in range(rng.randrange(60)):
        now += _GRID_MS * int(rng.choice([0, 1, 8, window / 500, window / 125, window / 40]) * rng.random())
        values.append((now, rng.choice([1, 0, round(rng.random(), 3), rng.randrange(10**6), -rng.randrange(100)])))
    asked = now + _GRID_MS * int(rng.choice([0, 1, window / 250, window / 60, window / 12]) * rng.random())
    return {"samples": rng.choice([1, 2, 2, 5]), "window_ms": window, "asked_ms": max(asked, start), "values": values}


def _line(case: dict[str, object]) -> str:
    values = case["values"]
    assert isinstance(values, list)
    numbers = [case["samples"], case["window_ms"], case["asked_ms"], *(number for pair in values for number in pair)]
    return " ".join(map(str, numbers))


if __name__ == "__main__":
    main()
