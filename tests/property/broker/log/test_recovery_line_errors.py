"""A log that a crash has left, after an exception before any line of its recovery: it is recovered in the end."""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.message import Message
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce
from tests.support.line_errors import EVERY, LineErrors, check_places
from tests.support.slow_storage import SlowStorage

ROOMS = ("broker/log/",)
#: How many places are tried in the short form; the long one tries each line, when it first runs and when it last does.
PLACES = 12
SETTINGS = {"log.flush.interval.messages": 1, "log.cleaner.enable": False}
RECORDS = 12


def crashed(storage: SlowStorage) -> CoreBroker:
    """A broker that is started on what another had written, and acknowledged, when it was killed."""
    disk = MemoryFileSystem(random.Random(1))
    first = CoreBroker(SETTINGS, disk)
    client = first.connect()
    client.request(create("t", 2, index_interval_bytes="0"), 7)
    for number in range(RECORDS):
        records = batch(b"%d" % number, producer=(7, 0, number // 2))
        answer = client.request(produce("t", records, number % 2), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        if number in (3, 8):
            first.state.replica_manager.partition("t", 0).log.roll()
    damage(disk)
    first.node.metadata.close()
    disk.crash()
    disk.cold = set(disk._names)
    return CoreBroker(SETTINGS, disk, first.store, seed=2, storage=storage)


def damage(disk: MemoryFileSystem) -> None:
    """Leave the torn end of a write that was not acknowledged, and an index that is damaged."""
    log = disk.inode(max(name for name in disk._names if "/t-1/" in name and name.endswith(".log")))
    log.data += batch(b"torn")[:40]
    index = disk.inode(min(name for name in disk._names if "/t-0/" in name and name.endswith(".index")))
    index.data[:5] = b"xxxxx"


class Life:
    """What happens while the logs are recovered: time passes, the disk answers, a client asks."""

    def __init__(self, errors: LineErrors) -> None:
        self.errors = errors
        self.storage = SlowStorage()
        self.broker = crashed(self.storage)
        self.client = self.broker.connect()

    def turn(self) -> None:
        if self.storage.in_flight:
            self.storage.step()
        self.broker.node.core.settle(self.broker.instant)
        self.broker.advance(0.1)

    def live(self) -> None:
        with self.errors.watching():
            for number in range(60):
                self.turn()
                if number % 5 == 0 and not self.client.closed:
                    self.client.send(fetch("t", 0, number % 2), 12)

    def check(self) -> None:
        where = self.errors.place, self.broker.warnings
        for _ in range(200):
            self.turn()
            if not self.broker.node.logs.unopened and not self.storage.in_flight:
                break
        logs = self.broker.node.logs
        assert not logs.unopened, where
        assert not logs.unopened.failures, where
        found = [self.values(index) for index in range(2)]
        assert found == [[b"%d" % number for number in range(index, RECORDS, 2)] for index in range(2)], where
        for index in range(2):
            again = batch(b"again", producer=(7, 0, RECORDS // 2))
            part = self.request(produce("t", again, index), 9).responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (0, RECORDS // 2), where
        assert self.broker.state.purgatory.parked == 0, where

    def request(self, message: Message, version: int) -> Any:
        client = self.broker.connect()
        client.send(message, version)
        for _ in range(100):
            if client.responses:
                return client.responses[0]
            self.turn()
        raise AssertionError(f"no answer: {self.errors.place}, {self.broker.warnings}")

    def values(self, partition: int) -> list[bytes]:
        found: list[bytes] = []
        while True:
            [answer] = self.request(fetch("t", len(found), partition), 12).responses[0].partitions
            assert answer.error_code == 0, (self.errors.place, self.broker.warnings)
            if not answer.records:
                return found
            found += [record.value or b"" for one in read_batches(answer.records) for record in one]


def run(errors: LineErrors) -> list[str]:
    life = Life(errors)
    life.live()
    life.check()
    return life.broker.warnings


def test_whatever_is_raised_while_logs_are_recovered_they_are_there_in_the_end() -> None:
    check_places(run, ROOMS, PLACES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_same_at_every_line() -> None:
    check_places(run, ROOMS, EVERY)
