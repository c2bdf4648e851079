"""Partition directories that another broker wrote: put into the data directory, they are served, or left alone."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.core_broker import DATA, START_MS, CoreBroker, batch, create, fetch
from tests.support.sole_replica import append

FOREIGN_ID = bytes(range(16))
LONG_AGO = START_MS - 100 * 86_400_000


@pytest.fixture
def disk() -> MemoryFileSystem:
    """A data directory in which somebody has put `t-0` and `t-1`, with old records."""
    disk = MemoryFileSystem(Random(0))
    manager = LogManager(DATA, disk)
    manager.start()
    for partition in range(2):
        log = manager.create_log(TopicPartition("t", partition), FOREIGN_ID)
        for number in range(3):
            append(log, batch(b"%d" % number, now_ms=LONG_AGO), now_ms=START_MS)
    manager.close()
    return disk


def values(broker: CoreBroker, partition: int) -> list[bytes | None]:
    response = broker.connect().request(fetch("t", partition=partition), 12).responses[0].partitions[0]
    return [record.value for one in read_batches(response.records or b"") for record in one]


def test_a_directory_without_a_topic_is_named_and_no_retention_touches_it(disk: MemoryFileSystem) -> None:
    broker = CoreBroker(filesystem=disk)
    broker.advance(1)
    assert [warning.partition(";")[0] for warning in broker.warnings] == [
        f"{DATA}/t-{partition} belongs to no topic that is known here" for partition in range(2)
    ]
    broker.advance(1000)
    assert disk.list_directory(f"{DATA}/t-0")[2].size > 0


@pytest.mark.parametrize("seconds", [0, 1], ids=["before it was looked at", "after it was looked at"])
def test_a_topic_made_under_its_name_takes_it_over(disk: MemoryFileSystem, seconds: int) -> None:
    broker = CoreBroker(filesystem=disk)
    broker.advance(seconds)
    broker.connect().request(create("t", 3, retention_ms="-1"), 7)
    assert [values(broker, partition) for partition in range(3)] == [[b"0", b"1", b"2"]] * 2 + [[]]
    broker.stop()
    again = CoreBroker(broker.settings, disk, broker.store)
    again.advance(1)
    assert again.warnings == []
    assert values(again, 1) == [b"0", b"1", b"2"]


def test_one_of_another_topic_of_that_name_is_kept_beside(disk: MemoryFileSystem) -> None:
    first = CoreBroker()
    first.connect().request(create("t", 1), 7)
    broker = CoreBroker(filesystem=disk, store=first.store)
    broker.advance(1)
    other, beyond = sorted(broker.warnings)
    assert "t-0 was written for another topic of that name" in other
    assert "t-1 belongs to no topic" in beyond
    assert values(broker, 0) == []
    kept = [entry.name for entry in disk.list_directory(DATA) if entry.name.endswith("-stray")]
    assert len(kept) == 1
    assert f"{0:020d}.log" in [entry.name for entry in disk.list_directory(f"{DATA}/{kept[0]}") if entry.size]


def test_what_cannot_be_read_is_cut_and_said(disk: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    first = CoreBroker()
    first.connect().request(create("other"), 7)
    first.stop()
    # It was shut down cleanly, but what is put there comes from a broker that was not.
    for entry in disk.list_directory(f"{DATA}/t-0"):
        first.filesystem.make_directory(f"{DATA}/t-0")
        first.filesystem.replace(f"{DATA}/t-0/{entry.name}", disk.read(f"{DATA}/t-0/{entry.name}"), sync=True)
    log = f"{DATA}/t-0/{0:020d}.log"
    first.filesystem.replace(log, first.filesystem.read(log)[:-10], sync=True)
    broker = CoreBroker(first.settings, first.filesystem, first.store)
    broker.advance(1)
    (message,) = [record.message for record in caplog.records if "cutting" in record.message]
    assert log in message
    assert "the log ends at offset 2" in message
    broker.connect().request(create("t", retention_ms="-1"), 7)
    assert values(broker, 0) == [b"0", b"1"]
