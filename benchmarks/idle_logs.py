"""Background work of logs: what does a second cost, by the number of partitions in which nothing happens? No peer.

One data directory in memory, one log for each partition with one record in it; half of them have other replicas. Ten
minutes on a virtual clock, in steps of a second, as the broker's loop calls it; CPU of this process.
Run: ./run bench idle_logs [--largest N]
"""

from __future__ import annotations

import time
from random import Random

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.node import BACKGROUND_BUDGET
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.builder import RecordBatchBuilder
from benchmarks._options import options

START_MS = 1_700_000_000_000
SECONDS = 600


def directory(partitions: int) -> LogManager:
    """Return a started directory with logs of one record each."""
    filesystem = MemoryFileSystem(Random(7))
    filesystem.make_directory("/data")
    manager = LogManager("/data", filesystem)
    manager.note_replicated(lambda name: name.partition % 2 == 0)
    manager.start(now_ms=START_MS)
    builder = RecordBatchBuilder(1 << 10)
    builder.try_append(START_MS, None, b"value")
    batch = bytes(builder.close())
    for index in range(partitions):
        log = manager.create_log(TopicPartition("idle", index), bytes(15) + b"\x01")
        log.append(bytearray(batch), now_ms=START_MS, leader_epoch=0)
        log.update_high_watermark(1)
    return manager


def main() -> None:
    """Print one line for each number of partitions."""
    found = options(__doc__, largest=10_000, seconds=SECONDS)
    print("partitions   CPU of a second (us)   of the dearest second (us)")
    for partitions in (10, 1_000, 10_000):
        if partitions > found.largest:
            break
        manager, now_ms = directory(partitions), START_MS
        for _ in range(61):
            now_ms += 1000
            while manager.step(BACKGROUND_BUDGET, now_ms):
                pass
        costs = []
        for _ in range(found.seconds):
            now_ms += 1000
            begun = time.process_time()
            while manager.step(BACKGROUND_BUDGET, now_ms):
                pass
            costs.append(time.process_time() - begun)
        print(f"{partitions:10}   {sum(costs) / len(costs) * 1e6:20.1f}   {max(costs) * 1e6:26.0f}")


if __name__ == "__main__":
    main()
