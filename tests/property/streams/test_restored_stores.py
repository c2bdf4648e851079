"""A store has the same in it whether its changelog is restored or each change is put, in memory and on disk.

Changelogs have a key several times, deletions before and after what they delete, and what has expired; restoring goes
in pieces, on top of what is there, and with reads and commits in between.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.streams.serdes.window_keys import session_key, split_session_key, split_window_key, window_key
from barnabas.streams.state.changelog_record import ChangelogRecord
from barnabas.streams.state.memory import MemoryBackend
from barnabas.streams.state.session import SessionStore
from barnabas.streams.state.session_bytes import SessionSegments, TimeOrderedSessionSegments
from barnabas.streams.state.versioned import VersionedKeyValueStore
from barnabas.streams.state.window import TimestampedWindowStore, WindowStore
from barnabas.streams.state.window_bytes import TimeOrderedWindowSegments, WindowSegments

pytest.importorskip("lmdb")

from barnabas.streams.state import disk, disk_map
from barnabas.streams.state.disk import DiskBackend

RETENTION_MS, SEGMENT_MS = 40, 10
SEGMENTED = ("s", RETENTION_MS, SEGMENT_MS)

KEYS = st.one_of(st.sampled_from([b"", b"a", b"\x00", b"a\x00"]), st.just(b"k" * disk_map.LONG))
TIMES = st.integers(0, 120)
VALUES = st.one_of(st.none(), st.binary(max_size=3))


class Store(NamedTuple):
    """A store, and how one change is put into what keeps its bytes."""

    made: Any
    kept: Any

    def put(self, record: ChangelogRecord) -> None:
        """Put one change, as a processor's would be."""
        value = self.made._format.restored(record) if hasattr(self.made, "_format") else record.value
        if isinstance(self.made, VersionedKeyValueStore):
            self.kept.put(record.key, value, record.timestamp)
        elif isinstance(self.made, SessionStore):
            self.kept.put(*split_session_key(record.key), value)
        else:
            self.kept.put(*split_window_key(record.key), value)


def window(kind, keep, **settings):
    def make(backend):
        kept = keep(*SEGMENTED, backend, **settings)
        return Store(kind("s", None, None, kept, 5, persistent=backend.persistent), kept)

    return make


def session(keep):
    def make(backend):
        kept = keep(*SEGMENTED, backend)
        return Store(SessionStore("s", None, None, kept, persistent=backend.persistent), kept)

    return make


def versioned(backend, segment_ms=SEGMENT_MS):
    made = VersionedKeyValueStore("s", None, None, RETENTION_MS, segment_ms, backend)
    return Store(made, made._versions)


STORES = {
    "window": window(WindowStore, WindowSegments),
    "timestamped window": window(TimestampedWindowStore, WindowSegments),
    "window by time": window(WindowStore, TimeOrderedWindowSegments, indexed=False),
    "window by time and key": window(WindowStore, TimeOrderedWindowSegments, indexed=True),
    "session": session(SessionSegments),
    "session by time": session(TimeOrderedSessionSegments),
    "versioned": versioned,
}


@st.composite
def changes(draw, kind):
    """A record of the changelog."""
    key, now = draw(KEYS), draw(TIMES)
    if "window" in kind:
        key = window_key(key, now, draw(st.integers(0, 2)))
    elif "session" in kind:
        key = session_key(key, max(0, now - draw(st.integers(0, 2))), now)
    return ChangelogRecord(key, draw(VALUES), now, None)


def content(store: Store, backend: Any) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the entries of each map, and the times of the store."""
    return {name: list(backend.open(name).range(None, None)) for name in backend.names("s")}, store.made.times()


def smaller(data: st.DataObject) -> pytest.MonkeyPatch:
    """Draw how much is gathered, loaded and taken at once."""
    small = pytest.MonkeyPatch()
    small.setattr(disk, "MOST_LOADED", data.draw(st.sampled_from([0, 3 << 16, disk.MOST_LOADED])))
    small.setattr(disk, "MOST_SETTLED", data.draw(st.sampled_from([0, disk.MOST_SETTLED])))
    small.setattr(disk, "_PIECE", data.draw(st.sampled_from([1, 3, disk._PIECE])))
    return small


@pytest.mark.parametrize("kind", STORES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_is_restored_is_what_was_put(tmp_path_factory, kind, data):
    pieces = data.draw(st.lists(st.lists(changes(kind), max_size=12), max_size=5))
    before = data.draw(st.lists(changes(kind), max_size=5))
    between = data.draw(st.lists(st.sampled_from(["nothing", "commit", "read"]), min_size=5, max_size=5))
    small = smaller(data)
    on_disk = DiskBackend(tmp_path_factory.mktemp("state"), size_limit=1 << 24)
    expected_in, in_memory = MemoryBackend(), MemoryBackend()
    expected, restored = STORES[kind](expected_in), [(STORES[kind](each), each) for each in (in_memory, on_disk)]
    try:
        for record in before:
            for store in (expected, *(store for store, _ in restored)):
                store.put(record)
        for piece, then in zip(pieces, between, strict=False):
            for record in piece:
                expected.put(record)
            for store, backend in restored:
                store.made.restore(iter(piece))
                if then == "read":
                    assert content(store, backend)[0] == content(expected, expected_in)[0]
            if then == "commit":
                on_disk.commit(b"")
        sequences = [split_window_key(each.key)[2] for piece in pieces for each in piece if "window" in kind]
        entries, times = content(expected, expected_in)
        times |= {"sequence": max(sequences, default=0)} if "window" in kind else {}
        on_disk.commit(b"")
        for store, backend in restored:
            assert content(store, backend) == (entries, times)
    finally:
        on_disk.close()
        small.undo()


HISTORIES = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(-45, 15), st.sampled_from([None, b"x", b"y"])),
    max_size=60,
)


@settings(deadline=None, max_examples=100)
@given(data=st.data(), history=HISTORIES, commits=st.sets(st.integers(0, 60), max_size=3))
def test_histories_are_gathered_key_by_key_though_segments_expire_and_versions_come_late(
    tmp_path_factory, data, history, commits
):
    small = smaller(data)
    on_disk, in_memory = DiskBackend(tmp_path_factory.mktemp("state"), size_limit=1 << 24), MemoryBackend()
    interval = data.draw(st.sampled_from([SEGMENT_MS, RETENTION_MS]))
    restored, expected = versioned(on_disk, interval), versioned(in_memory, interval)
    try:
        for number, (key, later, value) in enumerate(history):
            now = max(0, expected.kept.observed_stream_time + later)
            expected.put(ChangelogRecord(key, value, now, None))
            restored.made.restore([ChangelogRecord(key, value, now, None)])
            if number in commits:
                on_disk.commit(b"")
        assert content(restored, on_disk) == content(expected, in_memory)
        for key in (b"a", b"b", b"c"):
            times = range(max(0, expected.kept.observed_stream_time - RETENTION_MS), 200)
            assert [restored.kept.get_as_of(key, time) for time in times] == [
                expected.kept.get_as_of(key, time) for time in times
            ]
    finally:
        on_disk.close()
        small.undo()


@pytest.mark.parametrize("kind", STORES)
def test_a_process_that_dies_while_it_restores_has_what_was_committed_and_no_more(tmp_path, kind):
    records = [
        ChangelogRecord(
            window_key(key, now, 0) if "window" in kind else session_key(key, 0, now) if "session" in kind else key,
            b"%d" % now, now, None,
        ) for now in range(30) for key in (b"a", b"b")
    ]  # fmt: skip
    backend = DiskBackend(tmp_path)
    store = STORES[kind](backend)
    store.made.restore(records[:20])
    backend.commit(b"20")
    store.made.restore(records[20:40])
    backend.close()

    backend, in_memory = DiskBackend(tmp_path), MemoryBackend()
    store, expected = STORES[kind](backend), STORES[kind](in_memory)
    expected.made.restore(records[:20])
    assert backend.metadata() == b"20"
    assert content(store, backend)[0] == content(expected, in_memory)[0]
    store.made.restore(records[20:])
    expected.made.restore(records[20:])
    assert content(store, backend)[0] == content(expected, in_memory)[0]
    backend.close()


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "versioned"])
def test_what_is_restored_to_disk_is_gathered_and_does_not_wait_key_by_key(tmp_path, kind):
    """Sorted as packed bytes it takes half of the CPU that a dict and LMDB's own order take."""
    backend = DiskBackend(tmp_path)
    store = STORES[kind](backend)
    key = session_key(b"a", 1, 2) if "session" in kind else window_key(b"a", 2, 0)
    store.made.restore([ChangelogRecord(key, b"1", 2, None)])
    found = backend.open("s.0")
    assert found.loaded_bytes > 0
    assert found._waiting_bytes == 0
    backend.close()


@pytest.mark.parametrize("kind", [kind for kind in STORES if kind != "versioned"])
def test_a_key_of_the_changelog_that_is_too_short_is_an_error(kind):
    store = STORES[kind](MemoryBackend())
    with pytest.raises(struct.error, match="not enough data"):
        store.made.restore([ChangelogRecord(b"short", b"1", 2, None)])


def test_versions_may_be_what_only_has_the_bytes_of_a_value():
    """A user's serializer returns a bytearray."""
    store = versioned(MemoryBackend())
    store.kept.put(b"a", bytearray(b"first"), 1)
    store.kept.put(b"a", bytearray(b"second"), 2)
    assert [store.kept.get_as_of(b"a", time) for time in (1, 2)] == [(b"first", 1, 2), (b"second", 2, None)]
