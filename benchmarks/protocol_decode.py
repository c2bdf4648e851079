"""Decodes and encodes a Metadata response of 1,000 topics x 6 partitions and a Fetch response, beside kafka-python.

Run: `./run bench protocol_decode`. The rounds alternate between the competitors; medians and ratios count.
The uncompiled codec runs in a process of its own (`--uncompiled` is that process).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import conftest  # noqa: F401  # installs the source-only finder when BARNABAS_UNCOMPILED is set

from barnabas.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from benchmarks import _options

METADATA_VERSION = 12
FETCH_VERSION = 12
ROUNDS = 15


def metadata_response() -> MetadataResponse:
    """1,000 topics of 6 partitions, 3 replicas each."""
    brokers = [MetadataResponseBroker(node, f"broker{node}.example", 9092) for node in range(3)]
    topics = []
    for number in range(1000):
        partitions = [MetadataResponsePartition(0, index, index % 3, 5, [0, 1, 2], [0, 1, 2], []) for index in range(6)]
        topics.append(MetadataResponseTopic(0, f"topic-{number:04d}", bytes(16), False, partitions))
    return MetadataResponse(0, brokers, "cluster", 1, topics)


def fetch_response() -> FetchResponse:
    """20 topics of 6 partitions with 8 KB of records each."""
    topics = []
    for number in range(20):
        partitions = [PartitionData(index, 0, 1000, 1000, 0, records=bytes(8192)) for index in range(6)]
        topics.append(FetchableTopicResponse(f"topic-{number:04d}", partitions=partitions))
    return FetchResponse(0, 0, 0, topics)


def ours() -> dict[str, Callable[[], object]]:
    """Return what is measured of barnabas."""
    metadata, fetch = metadata_response(), fetch_response()
    metadata_bytes, fetch_bytes = metadata.encode(METADATA_VERSION), fetch.encode(FETCH_VERSION)
    return {
        "metadata decode": lambda: MetadataResponse.decode(metadata_bytes, METADATA_VERSION),
        "metadata encode": lambda: metadata.encode(METADATA_VERSION),
        "fetch decode": lambda: FetchResponse.decode(fetch_bytes, FETCH_VERSION),
        "fetch encode": lambda: fetch.encode(FETCH_VERSION),
    }


def theirs() -> dict[str, Callable[[], object]]:
    """Return the same bytes through kafka-python's decoder."""
    from kafka.protocol.consumer import FetchResponse as TheirFetch
    from kafka.protocol.metadata import MetadataResponse as TheirMetadata

    metadata_bytes = metadata_response().encode(METADATA_VERSION)
    fetch_bytes = fetch_response().encode(FETCH_VERSION)
    return {
        "metadata decode": lambda: TheirMetadata.decode(metadata_bytes, version=METADATA_VERSION),
        "fetch decode": lambda: TheirFetch.decode(fetch_bytes, version=FETCH_VERSION),
    }


def milliseconds(action: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def uncompiled(rounds: int) -> dict[str, float]:
    """Return the medians of the same work in a process that runs the sources."""
    command = [sys.executable, __file__, "--uncompiled", "--rounds", str(rounds)]
    environment = {**os.environ, "BARNABAS_UNCOMPILED": "1"}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    medians: dict[str, float] = json.loads(output)
    return medians


def main() -> None:
    """Measure, and print one line per kind of work."""
    parser = _options.parser(__doc__)
    parser.add_argument("--uncompiled", action="store_true", help="print the medians of this process as JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    if arguments.uncompiled:
        work = ours()
        times = {name: [milliseconds(action) for _ in range(arguments.rounds)] for name, action in work.items()}
        print(json.dumps({name: statistics.median(taken) for name, taken in times.items()}))
        return
    mine, peer = ours(), theirs()
    samples: dict[tuple[str, str], list[float]] = {}
    for _ in range(arguments.rounds):
        for who, work in (("barnabas", mine), ("kafka-python", peer)):
            for name, action in work.items():
                samples.setdefault((who, name), []).append(milliseconds(action))
    slow = uncompiled(max(3, arguments.rounds // 3))
    print(f"{'':18}{'compiled':>12}{'uncompiled':>12}{'ratio':>8}{'kafka-python':>14}{'ratio':>8}")
    for name in mine:
        fast = statistics.median(samples["barnabas", name])
        line = f"{name:18}{fast:9.3f} ms{slow[name]:9.3f} ms{slow[name] / fast:7.1f}x"
        if ("kafka-python", name) in samples:
            other = statistics.median(samples["kafka-python", name])
            line += f"{other:11.3f} ms{other / fast:7.1f}x"
        print(line)


if __name__ == "__main__":
    main()
