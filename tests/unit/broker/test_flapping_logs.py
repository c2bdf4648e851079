"""A disk that refuses for ever what an append needs, while everything can be read: a log does not come and go.

What brings a log back into service has done what an append will do. Where that is not enough, it waits longer each
time; a failure that comes and goes is told of once. When the disk works again, so does the log, without a restart.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.errors import KafkaStorageError
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import START_MS, CoreBroker, batch, create, fetch, produce

SETTINGS = {"log.flush.offset.checkpoint.interval.ms": 5_000, "log.retention.check.interval.ms": 10_000}
#: What may fail in a partition's directory, alone or together: a file system that has become read-only, or one without
#: descriptors, refuses several at once.
OPERATIONS = (
    ("open",),
    ("write",),
    ("truncate",),
    ("sync",),
    ("create",),
    ("rename",),
    ("remove",),
    ("write", "truncate"),
    ("open", "create", "rename", "remove", "write", "truncate"),
)
#: Whose path ends so: all files of the partition, its records, its indexes, its leader epochs.
FILES = ("", ".log", "index", "leader-epoch-checkpoint.tmp", "leader-epoch-checkpoint")
#: How a topic is flushed, and how often it rolls.
TOPICS: dict[str, dict[str, str]] = {
    "written": {},
    "flushed": {"flush_messages": "1"},
    "rolled": {"segment_index_bytes": "24", "index_interval_bytes": "0"},
    "flushed by time": {"flush_ms": "1000"},
}
#: Without a rule a log came and went every five seconds.
MINUTES = pytest.mark.parametrize("minutes", [1, pytest.param(10, marks=pytest.mark.slow)])
#: One line when it begins and one when it is over, for each of writing, flushing and being out of service.
MOST_LINES = 8


class Fault:
    """Fails each so-manieth operation on files of partition 0; a write may leave a part behind before it fails."""

    def __init__(
        self, broker: CoreBroker, operations: tuple[str, ...], ending: str = "", *, is_torn: bool, every: int = 1
    ) -> None:
        self.disk, self.operations, self.ending = broker.filesystem, operations, ending
        self.is_torn, self.every = is_torn, every
        self.count = 0

    def __call__(self, operation: str, path: str) -> OSError | None:
        if operation not in self.operations or "/t-0" not in path or not path.endswith(self.ending):
            return None
        self.count += 1
        if self.count % self.every:
            return None
        if operation == "write" and self.is_torn:
            self.disk.inode(path).data.extend(b"part")
        return OSError(errno.EIO, "the disk refuses it", path)


def send(broker: CoreBroker) -> int:
    client = broker.connect()
    response = client.request(produce("t", batch(b"more")), 9)
    if response is None:
        broker.advance(0.1)
        response = client.responses[-1]
    code: int = response.responses[0].partition_responses[0].error_code
    return code


def lines(caplog: pytest.LogCaptureFixture, broker: CoreBroker) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] + broker.warnings


class Watched:
    """A broker to which a record is sent each second; how often the partition went out of service and came back."""

    def __init__(self, topic: str, *, is_new: bool) -> None:
        self.broker = CoreBroker(SETTINGS)
        client = self.broker.connect()
        client.request(create("t", **TOPICS[topic]), 7)
        self.acknowledged = 0
        if not is_new:
            for _ in range(3):
                assert send(self.broker) == 0
                self.acknowledged += 1
            self.broker.advance(10)
        self.turns = 0
        self._was_offline = False

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            if send(self.broker) == 0:
                self.acknowledged += 1
            self.broker.advance(1)
            is_offline = bool(self.broker.node.logs.offline)
            self.turns += is_offline is not self._was_offline
            self._was_offline = is_offline

    def is_lost(self) -> bool:
        """Whether a flush has failed, after which only a restart may trust the files."""
        return any(log.is_offline and not log.health.can_be_reopened for log in self.broker.node.logs)

    def count(self) -> int:
        got = self.broker.connect().request(fetch("t"), 11).responses[0].partitions[0]
        assert got.error_code == 0
        return int(got.high_watermark)


CASES = [*product(TOPICS, OPERATIONS, FILES, (False, True), (False, True))]


@MINUTES
@pytest.mark.parametrize("operations", OPERATIONS, ids=" and ".join)
def test_what_fails_for_ever_is_told_of_once_and_comes_back_by_itself(
    operations: tuple[str, ...], minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    for topic, _, ending, is_new, is_torn in (case for case in CASES if case[1] == operations):
        if is_torn and "write" not in operations:
            continue
        case = f"{topic} topic, files {ending!r}, new {is_new}, torn {is_torn}"
        caplog.clear()
        watched = Watched(topic, is_new=is_new)
        broker = watched.broker
        broker.filesystem.fail = Fault(broker, operations, ending, is_torn=is_torn)

        watched.run(minutes * 60)

        said = lines(caplog, broker)
        assert len(said) <= MOST_LINES, f"{case}: {len(said)} lines, {Counter(said).most_common(4)}"
        assert watched.turns <= 1, f"{case}: it came and went {watched.turns} times"
        broker.filesystem.fail = None
        broker.advance(90)
        if watched.is_lost():
            assert "sync" in operations, f"{case}: a restart is needed"
            watched.broker = broker.crashed()
            watched.broker.advance(10)
        assert send(watched.broker) == 0, case
        assert watched.count() > watched.acknowledged, f"{case}: a record is missing"


@MINUTES
@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize("operations", [("open",), ("write",), ("write", "truncate"), ("create",)], ids=" and ".join)
def test_what_fails_now_and_then_is_not_told_of_each_time(
    operations: tuple[str, ...], every: int, minutes: int, caplog: pytest.LogCaptureFixture
) -> None:
    for topic, is_torn in product(("written", "rolled"), (False, True)):
        caplog.clear()
        watched = Watched(topic, is_new=False)
        broker = watched.broker
        broker.filesystem.fail = Fault(broker, operations, is_torn=is_torn, every=every)

        watched.run(minutes * 60)

        said = lines(caplog, broker)
        assert len(said) <= 2 * minutes + MOST_LINES, f"{len(said)} lines, {Counter(said).most_common(4)}"
        broker.filesystem.fail = None
        broker.advance(90)
        assert send(broker) == 0
        assert watched.count() > watched.acknowledged


def test_a_fault_of_the_broker_that_comes_again_each_time_waits_longer_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched("written", is_new=False)
    logs = watched.broker.node.logs
    for _ in range(900):
        for log in logs:
            if not log.is_offline:
                log.doubt(ValueError("a fault"))
        watched.broker.advance(1)

    said = lines(caplog, watched.broker)
    assert len(said) <= 2 * 15 + MOST_LINES, Counter(said).most_common(4)
    watched.broker.advance(90)
    assert send(watched.broker) == 0


def test_without_descriptors_an_append_fails_and_the_log_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogManager(str(tmp_path))
    logs.start()
    log = logs.create_log(TopicPartition("t", 0))
    with monkeypatch.context() as patched:

        def no_descriptor(path: str, *_: object) -> int:
            raise OSError(errno.EMFILE, "too many open files", path)

        patched.setattr(os, "open", no_descriptor)
        for _ in range(3):
            with pytest.raises(KafkaStorageError, match="too many open files"):
                log.append(batch(b"refused"), now_ms=START_MS)
        assert not log.is_offline
        assert list(log.troubles) == ["writing"]

    assert log.append(batch(b"taken"), now_ms=START_MS).first_offset == 0
    assert not log.troubles
    logs.close()
