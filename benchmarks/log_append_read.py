"""What the log costs: appending, reading, recovering and opening.

Run: ./run bench log_append_read [--seconds S]; each measurement of appending and reading takes S seconds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable

from barnabas.broker.log.log_manager import LogManager
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from benchmarks._options import options
from tests.support.sole_replica import append

NAME = TopicPartition("t", 0)
NOW = 1_700_000_000_000
PARTITIONS = 2000


def batch(records: int, size: int = 100) -> bytes:
    """Return a batch of records with `size` bytes of value each."""
    builder = RecordBatchBuilder(1 << 30)
    for at in range(records):
        builder.try_append(NOW + at, None, bytes(size), [])
    return builder.close()


def rate(work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return the calls a second and the units a second of what `work` returns."""
    calls = units = 0
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(20):
            units += work()
        calls += 20
    return calls / elapsed, units / elapsed


def measure_append(directory: str, records: int, seconds: float) -> None:
    """Append batches to one log."""
    manager = LogManager(directory)
    manager.start()
    log = manager.get_log(NAME) or manager.create_log(NAME)
    data = batch(records)
    calls, size = rate(lambda: append(log, data, now_ms=NOW).size_in_bytes, seconds)
    print(
        f"append {records:4d} x 100 bytes: {calls:9,.0f} batches/s  {calls * records:12,.0f} records/s  "
        f"{size / 1e6:7,.0f} MB/s  {1e6 / calls:6.1f} us a batch"
    )
    manager.close()


def measure_read(directory: str, max_bytes: int, seconds: float) -> None:
    """Fetch the log in sequence, and at places where no fetch ended."""
    manager = LogManager(directory)
    manager.start()
    log = manager.logs[NAME]
    offset = 0

    def read_on() -> int:
        nonlocal offset
        records = log.read(offset, max_bytes).records
        whole = len(records) // size * size
        offset = (offset + whole // size * per_batch) % (log.log_end_offset - per_batch)
        return len(records)

    first = log.read(0, 1).records
    size, per_batch = len(first), int.from_bytes(first[57:61], "big")
    calls, speed = rate(read_on, seconds)
    print(f"read {max_bytes // 1024:5d} KB in sequence:  {calls:9,.0f} fetches/s {speed / 1e6:8,.0f} MB/s")
    step = log.log_end_offset // 7919

    def read_anywhere() -> int:
        nonlocal offset
        offset = (offset + 31 * step + 1) % log.log_end_offset
        return len(log.read(offset, max_bytes).records)

    calls, speed = rate(read_anywhere, seconds)
    print(f"read {max_bytes // 1024:5d} KB anywhere:     {calls:9,.0f} fetches/s {speed / 1e6:8,.0f} MB/s")
    manager.close()


def measure_recovery(directory: str) -> None:
    """Open the log after a crash: nothing says that it was closed, and nothing was flushed."""
    shutil.rmtree(directory)
    manager = LogManager(directory)
    manager.start()
    log = manager.create_log(NAME)
    data = batch(100)
    while log.size < 1 << 29:
        append(log, data, now_ms=NOW)
    manager.log_directory.release()
    manager = LogManager(directory)
    start = time.perf_counter()
    manager.start()
    elapsed = time.perf_counter() - start
    size = manager.logs[NAME].size
    print(f"recover {size / 1e6:,.0f} MB: {elapsed:.3f} s  {size / 1e6 / elapsed:,.0f} MB/s")
    manager.close()


def measure_opening(directory: str) -> None:
    """Start and stop with many partitions, empty ones and such with a batch each."""
    for kind, batches in (("empty", 0), ("one batch", 1)):
        shutil.rmtree(directory)
        manager = LogManager(directory)
        manager.start()
        start = time.perf_counter()
        for at in range(PARTITIONS):
            log = manager.create_log(TopicPartition("t", at), bytes(16))
            for _ in range(batches):
                append(log, batch(1), now_ms=NOW)
        made = time.perf_counter() - start
        manager.log_directory.release()
        manager = LogManager(directory)
        start = time.perf_counter()
        manager.start()
        recovered = time.perf_counter() - start
        for log in manager:
            log.local_log.recovery_point = log.log_end_offset
        manager.close()
        manager = LogManager(directory)
        start = time.perf_counter()
        manager.start()
        opened = time.perf_counter() - start
        manager.close()
        print(
            f"{PARTITIONS} partitions, {kind}: make {made * 1e3 / PARTITIONS:.3f} ms each, open after a crash "
            f"{recovered * 1e3 / PARTITIONS:.3f} ms each, open {opened * 1e3 / PARTITIONS:.3f} ms each ({opened:.2f} s)"
        )


def main() -> None:
    """Run all of it."""
    given = options(__doc__, seconds=1.0)
    directory = tempfile.mkdtemp(prefix="barnabas-log-")
    try:
        for records in (1, 100, 1000):
            measure_append(directory, records, given.seconds)
        for max_bytes in (64 << 10, 1 << 20):
            shutil.rmtree(directory)
            measure_append(directory, 100, given.seconds)
            measure_read(directory, max_bytes, given.seconds)
        measure_recovery(directory)
        measure_opening(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
