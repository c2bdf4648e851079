"""Make the vectors of the controller: what Apache Kafka's writes when it is asked the same (`--seeds 11,12`).

Each seed is a new cluster, with eligible leader replicas where the seed is odd. It takes a minute and a half each.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from tests.peers.java_controller import JavaController
from tests.support.controller_scenarios import Step, record

PATH = Path(__file__).parents[1] / "tests" / "vectors" / "data" / "controller-vectors.jsonl.gz"
CONFIG = {"min.insync.replicas": "2"}
_LEVELS = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}


def levels(seed: int) -> dict[str, int]:
    """Return the features' levels of a seed's cluster."""
    return {**_LEVELS, **({"eligible.leader.replicas.version": 1} if seed % 2 else {})}


def recorded(seed: int, count: int = 250) -> list[Step]:
    """Ask Apache Kafka's controller, and return what it answered and wrote."""
    with JavaController(levels(seed), CONFIG) as java:
        return record(java, seed, count)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="11,12")
    seeds = [int(seed) for seed in parser.parse_args().seeds.split(",")]
    lines = [json.dumps({"seed": seed, "levels": levels(seed), "steps": recorded(seed)}) for seed in seeds]
    PATH.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


if __name__ == "__main__":
    main()
