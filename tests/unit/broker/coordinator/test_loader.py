"""Loader: partitions are elected, loaded a piece at a time, and resigned, by leader epoch."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from barnabas import errors
from barnabas.broker.coordinator.loader import READS, RETRY_SECONDS, Loader
from barnabas.broker.coordinator.partition_storage import StoredRecord
from tests.unit.broker.groups.harness import MemoryStorage

BAD = b"bad"
NOW = 10.0


class Counted:
    """A coordinator's state that is the number of records of each partition."""

    def __init__(self, **records: int) -> None:
        self.storage = MemoryStorage(partition_count=4)
        self.storage.ensure(0)
        for name, count in records.items():
            for _ in range(count):
                self.storage.append(int(name[1:]), [(b"k", b"v")], 0)
        self.counts: dict[int, int] = {}
        self.warnings: list[str] = []
        self.loader = Loader(self.storage, self.replay, self.forget, self.warnings.append)

    def replay(self, partition: int, record: StoredRecord) -> None:
        if record.value == BAD:
            raise errors.CorruptRecordError("bad")
        self.counts[partition] = self.counts.get(partition, 0) + 1

    def forget(self, partition: int) -> None:
        self.counts.pop(partition, None)

    def answers(self, partition: int) -> str:
        try:
            self.loader.check(partition)
        except errors.KafkaError as error:
            return errors.name_of(error.code)
        return "NONE"


def test_a_partition_answers_once_all_of_it_is_read() -> None:
    state = Counted(p0=20, p1=3)
    state.loader.elect_all(0)
    assert [state.answers(index) for index in range(4)] == [
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NONE",
        "NONE",
    ]

    assert state.loader.step(10, NOW) == []
    assert state.loader.step(100, NOW) == [0, 1]

    assert [state.answers(index) for index in range(4)] == ["NONE"] * 4
    assert state.counts == {0: 20, 1: 3}
    assert not state.loader.loading


def test_a_partition_of_another_broker_is_not_served() -> None:
    state = Counted(p0=1, p1=1)
    state.loader.elect(0, 7)
    state.loader.step(100, NOW)

    assert [state.answers(0), state.answers(1)] == ["NONE", "NOT_COORDINATOR"]
    assert (state.loader.epoch(0), state.loader.epoch(1)) == (7, -1)
    assert state.counts == {0: 1}


def test_a_resignation_forgets_the_partition_also_in_the_middle_of_loading() -> None:
    state = Counted(p0=20, p1=20)
    state.loader.elect_all(0)
    state.loader.step(5, NOW)
    assert state.counts[0] > 0

    assert state.loader.resign(0, 1)
    assert state.loader.step(100, NOW) == [1]

    assert state.counts == {1: 20}, "partition 1 is read from its beginning"
    assert state.answers(0) == "NOT_COORDINATOR"


def test_a_partition_that_waits_for_its_turn_can_be_resigned() -> None:
    state = Counted(p0=20, p1=20)
    state.loader.elect_all(0)
    state.loader.step(5, NOW)
    state.loader.resign(1, 1)

    assert state.loader.step(100, NOW) == [0]
    assert state.counts == {0: 20}


def test_a_partition_that_comes_back_is_read_anew() -> None:
    state = Counted(p0=3)
    state.loader.elect(0, 0)
    state.loader.step(100, NOW)
    state.loader.resign(0, 1)
    state.storage.append(0, [(b"k", b"written by the other leader")], 0)

    state.loader.elect(0, 2)
    assert state.answers(0) == "COORDINATOR_LOAD_IN_PROGRESS"
    state.loader.step(100, NOW)

    assert (state.counts, state.loader.epoch(0)) == ({0: 4}, 2)


@pytest.mark.parametrize("epoch", [4, 5])
def test_an_election_that_is_not_newer_changes_nothing(epoch: int) -> None:
    state = Counted(p0=3)
    state.loader.elect(0, 5)
    state.loader.step(100, NOW)

    assert not state.loader.elect(0, epoch)
    assert not state.loader.resign(0, epoch)
    assert (state.answers(0), state.loader.epoch(0)) == ("NONE", 5)


def test_a_newer_epoch_of_the_same_leader_loads_nothing() -> None:
    state = Counted(p0=3)
    state.loader.elect(0, 5)
    state.loader.step(100, NOW)

    assert state.loader.elect(0, 6)
    assert (state.answers(0), state.loader.epoch(0), state.counts) == ("NONE", 6, {0: 3})


def test_a_damaged_partition_is_forgotten_whole_and_tried_again_in_the_next_epoch() -> None:
    state = Counted(p0=10, p1=2)
    bad = state.storage.logs[0][8]
    state.storage.logs[0][8] = bad._replace(value=BAD)
    state.loader.elect_all(0)
    assert state.loader.step(100, NOW) == [1]

    assert (state.answers(0), state.counts) == ("NOT_COORDINATOR", {1: 2})
    assert "__consumer_offsets-0 failed at offset" in state.warnings[0]

    state.storage.logs[0][8] = bad
    state.loader.elect(0, 1)
    state.loader.step(100, NOW)
    assert (state.answers(0), state.counts) == ("NONE", {1: 2, 0: 10})


def test_a_deleted_partition_is_given_up_whatever_the_epoch() -> None:
    state = Counted(p0=3)
    state.loader.elect(0, 9)

    assert state.loader.resign(0)
    assert not state.loader.resign(0), "there is nothing to give up"
    assert state.answers(0) == "NOT_COORDINATOR"


def test_a_partition_whose_log_was_offline_is_read_again() -> None:
    state = Counted(p0=3, p1=5)
    state.loader.elect_all(4)
    state.loader.step(100, NOW)
    state.storage.append(1, [(b"k", b"not confirmed")], 0)

    state.loader.reload(1)

    assert (state.answers(0), state.answers(1)) == ("NONE", "COORDINATOR_LOAD_IN_PROGRESS")
    assert state.loader.step(100, NOW) == [1]
    assert (state.answers(1), state.counts[1], state.loader.epoch(1)) == ("NONE", 6, 4)


def test_a_log_that_is_opened_anew_by_reading_it_is_read_from_its_start() -> None:
    state = Counted(p1=20)
    state.loader.elect(1, 0)
    state.loader.step(5, NOW)
    read = state.storage.read

    def reopening(partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        state.storage.read = read  # type: ignore[method-assign]
        found = read(partition, offset)
        state.loader.reload(partition)
        return found

    state.storage.read = reopening  # type: ignore[method-assign]
    assert state.loader.step(100, NOW) == [1]
    assert state.counts[1] == 20


def test_a_partition_that_the_disk_kept_from_being_loaded_is_tried_again() -> None:
    state = Counted(p1=3)
    read = state.storage.read

    def failing(partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        raise errors.KafkaStorageError("the disk fails")

    state.storage.read = failing  # type: ignore[method-assign]
    state.loader.elect(1, 0)
    for attempt in range(3):
        assert state.loader.step(100, NOW + attempt * RETRY_SECONDS) == []
        assert state.answers(1) == "NOT_COORDINATOR"
        assert state.loader.next_deadline() == NOW + (attempt + 1) * RETRY_SECONDS
    assert len(state.warnings) == 1

    state.storage.read = read  # type: ignore[method-assign]
    assert state.loader.step(100, NOW + 3 * RETRY_SECONDS) == [1]
    assert state.answers(1) == "NONE"


def test_a_partition_that_cannot_be_understood_is_not_tried_again() -> None:
    state = Counted(p1=1)
    state.storage.append(1, [(b"k", BAD)], 0)
    state.loader.elect(1, 0)
    state.loader.step(100, NOW)
    assert state.answers(1) == "NOT_COORDINATOR"
    assert state.loader.next_deadline() == inf


def test_what_the_cache_lacks_is_read_beside_the_loop() -> None:
    state = Counted(p0=3, p1=20)
    waiting: list[Callable[[], None]] = []

    def bring_in(partition: int, offset: int, done: Callable[[], None]) -> bool:
        if partition == 0:
            return False
        waiting.append(done)
        return True

    state.storage.bring_in = bring_in  # type: ignore[method-assign]
    state.loader.elect_all(0)
    assert state.loader.step(100, NOW) == [0]
    assert state.loader.next_deadline() == inf
    assert state.loader.step(100, NOW) == []
    assert state.answers(1) == "COORDINATOR_LOAD_IN_PROGRESS"

    rounds = 0
    while waiting:
        waiting.pop()()
        assert state.loader.next_deadline() == -inf
        state.loader.step(100, NOW)
        rounds += 1
    assert (state.answers(1), state.counts[1]) == ("NONE", 20)
    assert rounds == 4 * READS, "three pieces of seven records, and the end"


def test_reading_that_is_done_at_once_needs_no_other_step() -> None:
    state = Counted(p1=20)

    def bring_in(partition: int, offset: int, done: Callable[[], None]) -> bool:
        done()
        return True

    state.storage.bring_in = bring_in  # type: ignore[method-assign]
    state.loader.elect(1, 0)
    assert state.loader.step(100, NOW) == [1]
