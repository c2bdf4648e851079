"""A count by key whose state grows to many keys on disk: memory, which is to be bounded, and CPU a record on the way.

`./run bench streams_large_state [--keys N] [--batch N]`
One task of the engine with its stores in LMDB, as an executor's process has it, without broker and Spark: first each
key once, then as many updates of keys drawn at random, in batches, kept on disk about once a second. Told for each
tenth: CPU a record, memory of the process that is its own (RssAnon; pages of the file are the system's to take back),
and the file's size. Kafka Streams keeps such state in RocksDB outside of its heap.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from barnabas.streams import Materialized, Serdes, StreamsBuilder, TaskId
from barnabas.streams.engine.record import InputRecord
from barnabas.streams.engine.task import Task, settings_of
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.topology.processor_topology import build_topology

CONFIG = {
    "application.id": "bench", "bootstrap.servers": "unused:9092", "statestore.cache.max.bytes": 0,
    "default.key.serde": Serdes.string(), "default.value.serde": Serdes.long(),
}  # fmt: skip
ONE = (1).to_bytes(8, "big")
#: Coprime to any number of keys that is asked for: each key once, in no order.
_STEP = 15_485_863
_MB = 1 << 20


def memory() -> tuple[int, int]:
    """Return the bytes of memory that are the process' own, and those of files that it has mapped."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Rss")}
    return int(found["RssAnon"]) * 1024, int(found["RssFile"]) * 1024


def keys(count: int) -> Iterator[int]:
    """Yield each number once, then as many at random."""
    yield from (number * _STEP % count for number in range(count))
    choose = random.Random(0)
    for _ in range(count):
        yield choose.randrange(count)


def measure(folder: Path, count: int, batch: int) -> None:
    """Count records, and tell after each tenth of each half."""
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(Materialized.as_("counts"))
    topology = builder.build()
    topology.builder.rewrite_topology(CONFIG)
    backend = DiskBackend(folder)
    settings = settings_of(CONFIG)._replace(backend=backend)
    task = Task(build_topology(topology.builder), TaskId(0, 0), settings)
    source, offset, kept = keys(count), 0, time.monotonic()
    print(f"{'keys':>12} {'records':>12} {'CPU us':>8} {'own MB':>8} {'of files':>8} {'on disk':>8} {'most MB':>8}")
    for tenth in range(20):
        cpu, wanted = time.process_time(), count // 10
        for start in range(0, wanted, batch):
            size = min(batch, wanted - start)
            task.process([
                InputRecord("in", 0, offset + at, 0, b"key-%010d" % next(source), ONE, []) for at in range(size)
            ], 0)  # fmt: skip
            offset += size
            if time.monotonic() - kept > 1:
                backend.commit(b"")
                kept = time.monotonic()
        backend.commit(b"")
        cpu = time.process_time() - cpu
        own, files = memory()
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        held = min(count, (tenth + 1) * wanted)
        print(f"{held:12,} {offset:12,} {cpu / wanted * 1e6:8.2f} {own / _MB:8.0f} {files / _MB:8.0f} "
              f"{backend.size() / _MB:8.0f} {most / _MB:8.0f}", flush=True)  # fmt: skip
    task.close()
    backend.close()


def main() -> None:
    """Parse, measure."""
    parser = argparse.ArgumentParser(prog="./run bench streams_large_state", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="where the state lies (default: a temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-state-", dir=arguments.folder) as folder:
        measure(Path(folder), arguments.keys, arguments.batch)


if __name__ == "__main__":
    main()
