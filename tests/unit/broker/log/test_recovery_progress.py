"""A start that takes long says how far it is."""

from __future__ import annotations

from random import Random

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.unopened_logs import LoadProgress
from barnabas.broker.runner import ProgressReport
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import batch
from tests.support.sole_replica import append


def test_recovery_tells_what_it_reads() -> None:
    disk = MemoryFileSystem(Random(0))
    manager = LogManager("/data", disk)
    manager.start()
    size = 0
    for partition in range(3):
        log = manager.create_log(TopicPartition("t", partition))
        for _ in range(10):
            size += append(log, batch(bytes(600_000)), now_ms=1_700_000_000_000).size_in_bytes
    disk.crash()

    seen = []
    manager = LogManager("/data", disk)
    manager.unopened.on_progress = lambda progress: seen.append(
        (progress.opened, progress.bytes_read, progress.current)
    )
    manager.start()

    assert [opened for opened, _, _ in seen] == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert size <= seen[-1][1] < 1.3 * size
    assert [current for _, _, current in seen] == ["t-0"] * 3 + ["t-1"] * 3 + ["t-2"] * 3


def test_it_is_said_after_two_seconds_and_then_now_and_again() -> None:
    said: list[str] = []
    now = 100.0
    report = ProgressReport(said.append, lambda: now)
    progress = LoadProgress(2000)
    progress.current, progress.bytes_read = "flights-0", 700 << 20
    for moment in (100.1, 101.9, 102.1, 104.0, 106.9, 107.2):
        now = moment
        progress.opened += 1
        report.opened(progress)
    assert len(said) == 2
    assert said[0].startswith("opening the logs since 2 s: 3 of 2000 are open, 700 MB were read")
    assert "flights-0" in said[0]
