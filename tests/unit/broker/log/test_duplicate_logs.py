"""Two directories that each have a log of one partition: one was away while the topic was created again, or moved."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from itertools import product

import pytest

from barnabas import errors
from barnabas.broker.log.log_directories import LogDirectories
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.core_broker import START_MS, batch, create, fetch, produce
from tests.unit.broker.log.test_log_directories import DIRECTORIES, start
from tests.unit.broker.log.test_moving_logs import move

NAME = TopicPartition("t", 0)
OLD, NEW, OTHER = (bytes(15) + bytes([number]) for number in (1, 2, 3))
Epochs = dict[int, int]


class Played:
    """A broker with two directories, of which one may be away, and what it has acknowledged of the topic of now."""

    def __init__(self) -> None:
        self.filesystem, self.store = MemoryFileSystem(random.Random(1)), MemoryStore()
        self.broker = start(self.filesystem, self.store)
        self.acknowledged: list[int] = []
        self._written = 0
        self.create()

    def create(self) -> None:
        self.broker.connect().request(create("t", flush_messages="1"), 7)

    def write(self) -> None:
        self._written += 1
        answer = self.broker.connect().request(produce("t", batch(b"%d" % self._written)), 9)
        code = answer.responses[0].partition_responses[0].error_code
        assert code in (errors.NONE, errors.KafkaStorageError.code)
        if not code:
            self.acknowledged.append(self._written)

    def recreate(self) -> None:
        """Delete the topic, and make another one of its name."""
        self.broker.connect().request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
        self.acknowledged = []
        self.create()

    def lose(self, directory: str) -> None:
        """Have a disk fail while it is used."""
        broken = OSError(errno.EIO, "broken")
        self.filesystem.fail = lambda _, path: broken if path.startswith(directory) else None
        self.write()
        self.broker.advance(20)

    def restart(self, away: str | None = None) -> None:
        """Crash, and start without a directory or with both."""
        self.broker.node.metadata.close()
        self.filesystem.crash()
        self.filesystem.fail = None
        if away is not None:
            broken = OSError(errno.EIO, "broken")
            self.filesystem.fail = lambda _, path: broken if path.startswith(away) else None
        self.broker = start(self.filesystem, self.store)
        self.broker.advance(20)

    def step(self, what: str) -> None:
        kind, _, number = what.partition(" ")
        directory = DIRECTORIES[int(number or 1) - 1]
        if kind == "away":
            self.restart(directory)
        elif kind == "fails":
            self.lose(directory)
        elif kind == "back":
            self.restart()
        elif kind == "move":
            move(self.broker, directory)
            self.broker.advance(20)
        else:
            {"write": self.write, "recreate": self.recreate}[kind]()

    def check(self) -> None:
        """Demand that all that was acknowledged is there, and nothing of an earlier topic, in one directory."""
        found = self.broker.connect().request(fetch("t", 0), 12).responses[0].partitions[0]
        assert found.error_code == 0
        assert [int(record.value) for one in read_batches(found.records) for record in one] == self.acknowledged
        self.broker.advance(120)
        names = self.filesystem._names
        assert len({name for name in names if name.endswith("/t-0")}) <= 1
        assert not [name for name in names if "-delete" in name or "-stray" in name]


_MEANWHILE = ("write", "recreate", "move 1", "move 2", "back")
_ALONE = [[], *([one] for one in _MEANWHILE)]
_PAIRS = list(map(list, product(_MEANWHILE, repeat=2)))
ORDERS = [
    ["write", *before, f"{how} {which}", *meanwhile, "back", "write"]
    for before in ([], ["move 2"])
    for which in (1, 2)
    for how, several in (("away", [*_ALONE, *_PAIRS]), ("fails", _ALONE))
    for meanwhile in several
]


@pytest.mark.parametrize("order", ORDERS, ids=",".join)
def test_a_directory_that_comes_back_brings_nothing_back_that_is_gone(order: list[str]) -> None:
    played = Played()
    for step in order:
        played.step(step)
    played.check()


def test_the_longer_log_of_the_topic_before_is_not_taken_for_that_of_now() -> None:
    played = Played()
    for step in ["write"] * 5 + ["away 1", "recreate", "write", "back"]:
        played.step(step)
    played.check()


# -- logs of one partition that were written one after the other -----------------------------------------------------


def lay(
    filesystem: MemoryFileSystem, directory: str, topic_id: bytes | None, epochs: Epochs, *, flushed: int = 0
) -> None:
    """Have a directory hold a log with so many records of each leader epoch; `flushed` of them are checkpointed."""
    manager = LogManager(directory, filesystem)
    manager.start()
    log = manager.create_log(NAME, topic_id)
    for epoch, count in epochs.items():
        for number in range(count):
            log.append(batch(b"%d" % number), now_ms=START_MS, leader_epoch=epoch)
            if log.log_end_offset == flushed:
                log.flush()
    manager._write_checkpoints(sync=True)
    manager.log_directory.release()
    filesystem.crash()


def found(filesystem: MemoryFileSystem, topics: dict[str, bytes], deleted: Sequence[bytes] = ()) -> LogDirectories:
    logs = LogDirectories([LogManager(directory, filesystem) for directory in DIRECTORIES])
    logs.start(open_logs=False)
    logs.note_topics(topics, deleted)
    return logs


def used(logs: LogDirectories) -> list[str]:
    return [state.manager.directory for state in logs.directories if state.manager.holds(NAME)]


FIRST, SECOND = DIRECTORIES


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize("old_flushed", [0, 9])
@pytest.mark.parametrize(
    ("kept", "dropped"),
    [
        pytest.param((NEW, {0: 2}), (OLD, {0: 9}), id="that of the topic that is there"),
        pytest.param((None, {0: 2}), (OLD, {0: 9}), id="that which may be of the topic"),
        pytest.param((NEW, {0: 2}), (None, {0: 9}), id="that which is of the topic for certain"),
        pytest.param((NEW, {0: 3, 1: 1}), (NEW, {0: 9}), id="that with the later leader epoch"),
        pytest.param((NEW, {0: 3, 1: 8}), (NEW, {0: 3, 1: 6}), id="that which goes on, in the same epoch"),
        pytest.param((OTHER, {1: 3}), (OLD, {0: 9}), id="of two of topics that are gone the later one"),
    ],
)
def test_of_two_logs_one_is_used(
    kept: tuple[bytes | None, Epochs], dropped: tuple[bytes | None, Epochs], old_flushed: int, *, is_swapped: bool
) -> None:
    """Whatever the disk is known to have of each: the recovery point of a log that is in use may be minutes old."""
    filesystem = MemoryFileSystem(random.Random(1))
    first, second = (SECOND, FIRST) if is_swapped else (FIRST, SECOND)
    lay(filesystem, first, *kept)
    lay(filesystem, second, *dropped, flushed=old_flushed)
    logs = found(filesystem, {"t": NEW})
    assert used(logs) == [first]
    assert any(path.startswith(second) and path.endswith("-stray") for path in filesystem._names)
    log = logs.get_log(NAME)
    assert log is not None
    assert log.log_end_offset == sum(kept[1].values())


def test_a_log_of_a_deleted_topic_goes() -> None:
    """It was to be deleted while its directory was away."""
    filesystem = MemoryFileSystem(random.Random(1))
    lay(filesystem, FIRST, OLD, {0: 9})
    lay(filesystem, SECOND, NEW, {0: 2})
    logs = found(filesystem, {"t": NEW}, [OLD])
    assert used(logs) == [SECOND]
    assert not [path for path in filesystem._names if "-stray" in path]
    assert [path for path in filesystem._names if path.startswith(FIRST) and path.endswith("-delete")]


def test_a_log_that_cannot_be_put_aside_keeps_no_other_from_use() -> None:
    """It is tried again; until then that directory makes no log of this name."""
    filesystem = MemoryFileSystem(random.Random(1))
    lay(filesystem, FIRST, OLD, {0: 9})
    lay(filesystem, SECOND, NEW, {0: 2})
    filesystem.fail = lambda what, path: OSError(errno.EIO, "broken") if what == "rename" and FIRST in path else None
    logs = found(filesystem, {"t": NEW})
    assert used(logs) == [SECOND]
    filesystem.fail = None
    for second in range(30):
        logs.step(100, second * 1000)
    assert [path for path in filesystem._names if path.startswith(FIRST) and path.endswith("-stray")]


def test_a_log_that_cannot_be_read_is_not_used_where_another_one_can() -> None:
    filesystem = MemoryFileSystem(random.Random(1))
    lay(filesystem, FIRST, NEW, {0: 9})
    lay(filesystem, SECOND, NEW, {0: 2})
    filesystem.fail = lambda what, path: OSError(errno.EIO, "broken") if FIRST in path and "t-0/" in path else None
    assert used(found(filesystem, {"t": NEW})) == [SECOND]
