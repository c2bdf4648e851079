"""Closing many logs: the disk is given many flushes at once, but not all of them, and an error costs one log."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.slow_storage import SlowStorage

_LOGS = 150
_AT_ONCE = 64
_NOW = 1_700_000_000_000


class _CountedStorage(SlowStorage):
    """Notes how much work there was when it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_for: list[int] = []

    def drain(self) -> None:
        if self.in_flight:
            self.waited_for.append(len(self.in_flight))
        super().drain()


def _batch() -> bytes:
    builder = RecordBatchBuilder(1000)
    builder.try_append(_NOW, None, b"value", [])
    return builder.close()


def _manager(filesystem: MemoryFileSystem, storage: SlowStorage) -> LogManager:
    manager = LogManager("/data", filesystem, storage=storage)
    manager.start()
    return manager


def test_logs_are_flushed_side_by_side_and_some_at_a_time() -> None:
    filesystem, storage = MemoryFileSystem(Random(0)), _CountedStorage()
    manager = _manager(filesystem, storage)
    for number in range(_LOGS):
        manager.create_log(TopicPartition("flights", number)).append(_batch(), now_ms=_NOW, leader_epoch=3)
    manager.close()
    assert storage.waited_for == [_AT_ONCE, _AT_ONCE, _LOGS - 2 * _AT_ONCE]
    filesystem.crash()
    again = _manager(filesystem, SlowStorage())
    assert again.had_clean_shutdown
    assert {log.log_end_offset for log in again} == {1}
    assert {log.leader_epochs.entries for log in again} == {((3, 0),)}


def test_a_log_that_cannot_be_flushed_keeps_the_others_from_nothing(caplog: pytest.LogCaptureFixture) -> None:
    filesystem, storage = MemoryFileSystem(Random(0)), SlowStorage()
    manager = _manager(filesystem, storage)
    for number in range(3):
        manager.create_log(TopicPartition("flights", number)).append(_batch(), now_ms=_NOW)

    def refuse(operation: str, path: str) -> OSError | None:
        return OSError(5, "the disk is gone") if operation == "sync" and "flights-1/" in path else None

    filesystem.fail = refuse
    manager.close()
    assert ["flights-1" in line for line in caplog.messages if "was not closed" in line] == [True]
    filesystem.fail = None
    again = _manager(filesystem, SlowStorage())
    assert not again.had_clean_shutdown, "the next start recovers"
    assert {log.log_end_offset for log in again} == {1}
