"""A map on disk does what a map in memory does, and a batch of changes is kept whole or not at all."""

import random
from itertools import count, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.streams.errors import ProcessorStateError
from barnabas.streams.state.memory import MemoryMap
from barnabas.streams.state.versioned import VersionedBytes

pytest.importorskip("lmdb")

from barnabas.streams.state import disk, disk_map, snapshot
from barnabas.streams.state.disk import DiskBackend
from barnabas.streams.state.disk_map import LONG

KEYS = st.one_of(
    st.binary(max_size=3),
    st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff"]), max_size=3).map(b"".join),
    st.binary(min_size=0, max_size=2).map(lambda end: b"k" * (LONG - 1) + end),
    st.binary(min_size=0, max_size=2).map(lambda end: b"k" * (LONG + 5) + end),
)
BOUND = st.one_of(st.none(), KEYS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.binary(max_size=4)),
        st.tuples(st.just("load"), KEYS, st.one_of(st.none(), st.binary(max_size=4))),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("get"), KEYS),
        st.tuples(st.just("range"), BOUND, BOUND, st.booleans(), st.booleans()),
        st.tuples(st.just("entries"), KEYS, KEYS),
        st.tuples(st.just("commit")),
    ),
    max_size=60,
)


#: How much may wait in memory: nothing, a few entries, all.
WAITING = st.sampled_from([0, 500, disk_map.MOST_WAITING])

#: The same of what is loaded: each entry is written, a few hundred make room, all wait.
LOADED = st.sampled_from([0, 3 << 16, disk.MOST_LOADED])


@settings(deadline=None, max_examples=100)
@given(steps=STEPS, waiting=WAITING, loaded=LOADED, ordered=st.sampled_from([1, 3, disk_map.MOST_ORDERED]))
def test_a_map_on_disk_is_a_map_in_memory(tmp_path_factory, steps, waiting, loaded, ordered):
    backend = DiskBackend(tmp_path_factory.mktemp("state"), size_limit=1 << 24)
    found_map, memory = backend.open("map"), MemoryMap()
    limit = pytest.MonkeyPatch()
    limit.setattr(disk_map, "MOST_WAITING", waiting)
    limit.setattr(disk, "MOST_LOADED", loaded)
    limit.setattr(disk_map, "MOST_ORDERED", ordered)
    try:
        for name, *arguments in steps:
            if name == "commit":
                backend.commit(b"")
                continue
            found, expected = (getattr(each, name)(*arguments) for each in (found_map, memory))
            if name == "range":
                found, expected = list(found), list(expected)
            assert found == expected
        assert len(found_map) == len({_place(key) for key, _ in memory.range(None, None)})
        backend.commit(b"")
        assert list(found_map.range(None, None)) == list(memory.range(None, None))
    finally:
        backend.close()
        limit.undo()


def _place(key: bytes) -> bytes:
    """Keys that are long share a bucket with those that begin as they do."""
    stored = key if key and key[0] else b"\x00" + key
    return stored[:LONG]


@pytest.mark.parametrize("reverse", [False, True])
def test_ranges_over_many_pieces(tmp_path, reverse):
    backend = DiskBackend(tmp_path, size_limit=1 << 26)
    disk, memory = backend.open("map"), MemoryMap()
    chosen = random.Random(1)
    for number in range(3000):
        key = b"%06d" % chosen.randrange(10**6)
        disk.put(key, b"%d" % number)
        memory.put(key, b"%d" % number)
    assert list(disk.range(b"2", b"8", reverse)) == list(memory.range(b"2", b"8", reverse))
    assert list(disk.range(None, None, reverse)) == list(memory.range(None, None, reverse))
    backend.close()


KEYS_OF_MANY_PIECES = [b"%03d" % number for number in range(0, 100, 2)]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "load"]),
        st.one_of(st.none(), KEYS, st.integers(0, 99).map(lambda number: b"%03d" % number)),
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=60)
@given(
    changes=st.lists(CHANGES, max_size=8), gap=st.integers(1, 12), reverse=st.booleans(),
    bounds=st.tuples(BOUND, BOUND), waiting=WAITING,
)  # fmt: skip
def test_an_iterator_sees_the_map_as_it_was_when_it_was_made(tmp_path_factory, changes, gap, reverse, bounds, waiting):
    """What is put, changed and deleted later, ahead of it and behind it, does not matter, nor do commits."""
    first, last = bounds
    with_small_pieces = pytest.MonkeyPatch()
    with_small_pieces.setattr(disk_map, "MOST_WAITING", waiting)
    with_small_pieces.setattr(snapshot, "FIRST_PIECE", 2)
    with_small_pieces.setattr(snapshot, "PIECE", 4)
    backend = DiskBackend(tmp_path_factory.mktemp("state"), size_limit=1 << 24)
    disk = backend.open("map")
    for key in (*KEYS_OF_MANY_PIECES, b"k" * (LONG + 2), b"k" * (LONG + 5)):
        disk.load(key, b"old")
    try:
        expected = list(disk.range(first, last, reverse))
        iterators = [disk.range(first, last, reverse), disk.range(None, None, reverse)]
        everything, seen = list(disk.range(None, None, reverse)), [[], []]
        for round_of_changes in changes:
            for name, drawn in round_of_changes:
                key = drawn if drawn is not None else seen[1][-1][0] if seen[1] else b""  # None: where it stands
                arguments = {"put": (key, b"new"), "delete": (key,), "load": (key, b"newer")}[name]
                getattr(disk, name)(*arguments)
            for iterator, found in zip(iterators, seen, strict=True):
                found += islice(iterator, gap)
            backend.commit(b"")
        assert [found + list(iterator) for found, iterator in zip(seen, iterators, strict=True)] == [
            expected,
            everything,
        ]
    finally:
        backend.close()
        with_small_pieces.undo()


@pytest.mark.parametrize(("wanted", "most"), [(2, 4), (30, 100), (10_000, 10_300)])
def test_a_range_reads_little_more_than_what_is_wanted_of_it(wanted, most):
    """A join looks for one or two partners of each record: 256 entries for each were most of its time."""
    numbers = count()

    def read(at: bytes | None, size: int) -> list[snapshot.Entry]:
        return [(b"%09d" % next(numbers), b"") for _ in range(size)]

    assert len(list(islice(snapshot.Snapshot(read, b"", reverse=False), wanted))) == wanted
    assert next(numbers) <= most


def test_iterators_that_are_done_cost_writers_nothing(tmp_path):
    backend = DiskBackend(tmp_path, size_limit=1 << 24)
    disk = backend.open("map")
    disk.put(b"a", b"1")
    for _ in range(100):
        assert next(disk.range(None, None)) == (b"a", b"1")
        disk.range(None, None)
    assert disk._snapshots == []
    backend.close()


def test_entries_may_be_deleted_while_they_are_read(tmp_path):
    backend = DiskBackend(tmp_path, size_limit=1 << 26)
    disk = backend.open("map")
    for number in range(1000):
        disk.put(b"%04d" % number, b"x")
    seen = []
    for key, _ in disk.range(None, None):
        seen.append(key)
        disk.delete(key)
    assert len(seen) == 1000
    assert list(disk.range(None, None)) == []
    backend.close()


def test_a_batch_is_kept_whole_or_not_at_all(tmp_path):
    backend = DiskBackend(tmp_path)
    backend.open("kept").put(b"a", b"1")
    backend.commit(b"first")
    backend.open("kept").put(b"a", b"2")
    backend.open("new").put(b"b", b"3")
    backend.abort()
    assert backend.open("kept").get(b"a") == b"1"
    assert backend.names("") == ["kept"]
    backend.open("kept").put(b"a", b"4")
    backend.close()

    again = DiskBackend(tmp_path)
    assert (again.metadata(), again.open("kept").get(b"a")) == (b"first", b"1")
    again.drop("kept")
    again.commit(b"second")
    assert again.names("") == []
    again.close()


def test_a_full_file_is_an_error_that_names_it(tmp_path):
    backend = DiskBackend(tmp_path, size_limit=1 << 16)
    disk = backend.open("map")

    def fill():
        for number in range(10_000):
            disk.put(b"%05d" % number, b"x" * 100)
        backend.commit(b"")

    with pytest.raises(ProcessorStateError, match=r"cannot be written: .*MDB_MAP_FULL"):
        fill()


def test_what_changes_again_and_again_is_written_once(tmp_path):
    """A count updates the same keys for a whole batch."""
    backend = DiskBackend(tmp_path, size_limit=1 << 24)
    disk = backend.open("map")
    before = backend.txn.stat(disk._handle)["entries"]
    for number in range(10_000):
        disk.put(b"%d" % (number % 10), b"%d" % number)
    assert backend.txn.stat(disk._handle)["entries"] == before
    backend.commit(b"")
    assert backend.txn.stat(disk._handle)["entries"] == before + 10
    backend.close()


def test_what_waits_in_memory_is_bounded(tmp_path):
    backend = DiskBackend(tmp_path, size_limit=1 << 28)
    disk = backend.open("map")
    for number in range(64):
        disk.put(b"%d" % number, bytes(1 << 20))
        assert disk._waiting_bytes <= disk_map.MOST_WAITING
    backend.close()


def test_what_is_gathered_takes_bounded_memory_before_and_while_it_is_put(tmp_path, monkeypatch):
    backend = DiskBackend(tmp_path, size_limit=1 << 30)
    store = VersionedBytes("s", 1_000_000, 100_000, backend)
    gathered, settled, settles = 0, 0, 0
    settle = DiskBackend.settle

    def watched(self, entries, taken):
        nonlocal gathered, settles
        gathered, settles = max(gathered, entries.memory), settles + 1

        def take(rows):
            nonlocal settled
            taken(rows)
            settled = max(settled, self.loaded_bytes)

        settle(self, entries, take)

    monkeypatch.setattr(DiskBackend, "settle", watched)
    monkeypatch.setattr(disk, "MOST_LOADED", 4 << 20)
    monkeypatch.setattr(disk, "MOST_SETTLED", 1 << 20)
    keys, versions = 50_000, 200_000
    for number in range(versions):
        store.load(b"%07d" % (number * 15_485_863 % keys), b"%d" % number, number)
        assert number % 1000 or backend.loaded_bytes <= disk.MOST_LOADED
    assert backend.entries()["s-latest"] == keys
    assert settles > 2
    assert disk.MOST_LOADED // 4 < gathered <= disk.MOST_LOADED
    assert disk.MOST_SETTLED // 4 < settled < 3 * disk.MOST_SETTLED
    assert store.get(b"0000000") == (b"%d" % (3 * keys), 3 * keys)
    backend.close()


def test_what_is_loaded_takes_bounded_memory_in_whichever_maps_and_is_all_there(tmp_path):
    backend = DiskBackend(tmp_path, size_limit=1 << 30)
    maps, most = [backend.open(name) for name in ("one", "other")], 0
    keys = [b"%07d" % (number * 15_485_863 % 600_000) for number in range(600_000)]
    for number, key in enumerate(keys):
        maps[number % 2].load(key, key)
        if number % 1000 == 0:
            most = max(most, sum(each.loaded_bytes for each in maps))
    assert disk.MOST_LOADED // 4 < most <= disk.MOST_LOADED
    assert backend.entries() == {"one": 300_000, "other": 300_000}
    for number, found in enumerate(maps):
        assert list(found.range(None, None)) == [(key, key) for key in sorted(keys[number::2])]
    backend.close()
