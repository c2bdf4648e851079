"""What compaction costs: megabytes a second of the processor, memory, and how long a step holds requests up.

Run: ./run bench log_cleaner [--megabytes N] (of 100-byte values in batches of 100 records).
"""

from __future__ import annotations

import resource
import tempfile
import time
from random import Random

from barnabas.broker.log.log_manager import LogManager
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from benchmarks._options import options
from tests.support.sole_replica import append

NAME = TopicPartition("t", 0)
NOW = 1_700_000_000_000
BATCH = 100
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, "segment.bytes": 32 << 20}


def fill(manager: LogManager, megabytes: int, codec: str, keys: int) -> int:
    """Append records with keys drawn at random; how many."""
    log = manager.create_log(NAME)
    random = Random(1)
    count = 0
    uncompressed = 0
    while uncompressed < megabytes << 20:
        builder = RecordBatchBuilder(1 << 20, codec)
        for _ in range(BATCH):
            builder.try_append(NOW, b"key-%016d" % random.randrange(keys), random.randbytes(50).hex().encode())
        uncompressed += builder.uncompressed_size
        append(log, builder.close(), now_ms=NOW)
        count += BATCH
    log.roll()
    log.flush()
    return count


def clean(manager: LogManager) -> tuple[float, list[float]]:
    """Clean the log; the seconds of the processor, and what each step took by the clock."""
    steps = []
    used = time.process_time()
    while not manager.cleaner.cleanings:
        start = time.perf_counter()
        more = manager.step(64, NOW)
        steps.append(time.perf_counter() - start)
        if not more:
            time.sleep(0.01)
    return time.process_time() - used, sorted(steps)


def measure(megabytes: int, codec: str, keys: int) -> None:
    """Fill a log and clean it once."""
    with tempfile.TemporaryDirectory() as directory:
        manager = LogManager(directory, config=SETTINGS)
        manager.start()
        count = fill(manager, megabytes, codec, keys)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, steps = clean(manager)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        stats = manager.cleaner.last_stats
        assert stats is not None
        print(
            f"{codec:6} {keys:9,d} keys: {stats.bytes_before / 1e6:6.0f} MB -> {stats.bytes_after / 1e6:6.0f} MB  "
            f"{stats.bytes_before / seconds / 1e6:6.0f} MB/s  {count / seconds / 1e6:5.2f} M records/s  "
            f"step p50 {steps[len(steps) // 2] * 1e3:5.1f} ms, max {steps[-1] * 1e3:5.1f} ms  "
            f"table {stats.map_memory / 1e6:5.1f} MB, peak +{(after - before) / 1e3:5.1f} MB"
        )
        manager.close()


if __name__ == "__main__":
    given = options(__doc__, megabytes=100)
    for codec in ("none", "lz4", "zstd"):
        for keys in (1_000, 1_000_000):
            measure(given.megabytes, codec, keys)
