"""What the benchmarks of record batches share: the records, the peers, taking turns, the printed table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from barnabas.records import RecordBatchBuilder

KEY, VALUE, NOW = b"k" * 10, b"v" * 90, 1_700_000_000_000
BATCH_SIZE = 1 << 20
UNCOMPILED = "BARNABAS_UNCOMPILED"

_AS_SOURCE = """
import runpy, sys
sys.path.insert(0, "tests")
import conftest
runpy.run_module({!r}, run_name="__main__")
"""


def fetched(count: int, codec: str = "none") -> bytes:
    """Batches of `count` records with a key of 10 and a value of 90 bytes."""
    parts = []
    offset = 0
    while offset < count:
        builder = RecordBatchBuilder(BATCH_SIZE, codec)
        start = offset
        while offset < count and builder.try_append(NOW + offset, KEY, VALUE) >= 0:
            offset += 1
        parts.append(builder.close(start))
    return b"".join(parts)


def kafka_python() -> Any:
    """Return the modules of kafka-python that read and write batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from kafka.record import default_records, memory_records
    return default_records, memory_records


def compare(title: str, candidates: dict[str, tuple[int, Callable[[int], None]]], rounds: int = 7) -> None:
    """Run the candidates in turn, each on its number of records, and print CPU time per record and ratios to ours."""
    figures: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, (count, run) in candidates.items():
            start = time.process_time()
            run(count)
            figures[name].append((time.process_time() - start) / count)
    ours = statistics.median(next(iter(figures.values())))
    print(f"{title} (CPU per record of 100 bytes, median of {rounds} rounds in turn)")
    for name, seconds in figures.items():
        median = statistics.median(seconds)
        print(f"  {name:<44} {median * 1e9:9.0f} ns {1e-6 / median:9.2f} M/s {median / ours:9.1f} x ours", flush=True)


def repeat_uncompiled(module: str) -> None:
    """Run the benchmark once more with barnabas loaded from its sources; there only our own part is measured."""
    if UNCOMPILED not in os.environ:
        environment = {**os.environ, UNCOMPILED: "1"}
        subprocess.run([sys.executable, "-c", _AS_SOURCE.format(module)], env=environment, check=True)


def is_uncompiled() -> bool:
    """Whether this process runs barnabas from its sources."""
    return UNCOMPILED in os.environ
