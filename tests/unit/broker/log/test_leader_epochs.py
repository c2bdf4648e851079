"""Which epoch ends where: the answers on which followers and consumers truncate (LeaderEpochFileCacheTest, retold)."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log.leader_epoch_file_cache import EpochEntry, LeaderEpochFileCache
from barnabas.broker.log.memory_filesystem import MemoryFileSystem

UNKNOWN = (-1, -1)


def cache_of(*entries: tuple[int, int]) -> LeaderEpochFileCache:
    disk = MemoryFileSystem(Random(0))
    disk.make_directory("/log")
    cache = LeaderEpochFileCache(disk, "/log/leader-epoch-checkpoint")
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


ANSWERS = {
    "no epoch is known": ((), 0, 0, UNKNOWN),
    "no epoch was asked for": (((2, 0),), 9, -1, UNKNOWN),
    "the latest epoch goes on to the end": (((2, 0), (3, 5)), 9, 3, (3, 9)),
    "an epoch ends where the next begins": (((2, 0), (3, 5)), 9, 2, (2, 5)),
    "an epoch of which nothing was written ends where the one below does": (((2, 0), (4, 5), (7, 8)), 9, 5, (4, 8)),
    "several of them": (((2, 0), (9, 8)), 9, 8, (2, 8)),
    "an epoch beyond the latest is not known": (((2, 0),), 9, 3, UNKNOWN),
    "an epoch before the first known ends where that begins": (((5, 7), (6, 8)), 9, 3, (3, 7)),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_where_an_epoch_ends(what: str) -> None:
    entries, end, epoch, answer = ANSWERS[what]

    assert cache_of(*entries).end_offset_for(epoch, end) == answer


def test_an_epoch_before_the_first_known_ends_at_the_start_after_records_were_deleted() -> None:
    cache = cache_of((1, 0), (2, 10), (4, 20))
    cache.truncate_from_start(15)

    assert cache.entries == (EpochEntry(2, 15), EpochEntry(4, 20))
    assert cache.end_offset_for(1, 30) == (1, 15)
    assert cache.end_offset_for(2, 30) == (2, 20)
    cache.truncate_from_start(25)
    assert cache.end_offset_for(2, 30) == (2, 25)


def test_an_entry_that_contradicts_earlier_ones_takes_their_place() -> None:
    assert cache_of((1, 0), (2, 10), (3, 20), (2, 15)).entries == ((1, 0), (2, 15))
    assert cache_of((1, 5), (2, 10), (3, 4)).entries == ((3, 4),)
    assert cache_of((1, 5), (1, 9)).entries == ((1, 5),)
    assert cache_of((1, 5), (1, 3)).entries == ((1, 3),)


def test_epochs_that_begin_at_the_new_end_or_behind_it_are_dropped() -> None:
    cache = cache_of((1, 0), (2, 10), (3, 20))
    cache.drop_beyond(20)
    assert (cache.entries, cache.latest_epoch) == (((1, 0), (2, 10)), 2)
    cache.drop_beyond(11)
    assert cache.entries == ((1, 0), (2, 10))
    cache.drop_beyond(10)
    assert cache.entries == ((1, 0),)
    cache.drop_beyond(0)
    assert (cache.entries, cache.latest_epoch) == ((), -1)
