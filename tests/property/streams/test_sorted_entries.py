"""Gathered entries come out in the order of their keys, each key with its last value, as a sorted dict has them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.streams.state.sorted_entries import SortedEntries

#: Keys that begin alike, that end in zeros or are the beginning of another, of one size or of many.
KEYS = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 500).map(lambda number: b"key-%010d" % number),
    st.tuples(st.sampled_from([b"", b"begins alike ", b"a" * 40]), st.integers(0, 40), st.binary(max_size=2)).map(
        lambda parts: parts[0] + b"\x00" * parts[1] + parts[2]
    ),
)
ENTRIES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=3))), max_size=300)


def gathered(found: SortedEntries, entries: list[tuple[bytes, bytes | None]]) -> None:
    for key, value in entries:
        if not found.add(key, value):
            found.grow(len(key) + len(value or b""))
            assert found.add(key, value), "there is room now"


@settings(deadline=None, max_examples=200)
@given(st.lists(ENTRIES, min_size=1, max_size=2), st.integers(1, 50))
def test_entries_come_out_as_of_a_sorted_dict(rounds, piece):
    found = SortedEntries()
    for entries in rounds:
        gathered(found, entries)
        found.sort()
        rows = []
        while not found.is_empty:
            rows += found.take(piece)
        wanted = sorted(dict(entries).items())
        assert rows == [(key, value) for key, value in wanted if value is not None]
        assert found.deleted == [key for key, value in wanted if value is None]
        found.deleted.clear()


@pytest.mark.parametrize("step", [1, 7919])
def test_many_keys_of_every_length_are_sorted(step):
    keys = [(b"%d" % (number * step % 20_000)) * (number % 3) for number in range(20_000)]
    found = SortedEntries()
    gathered(found, [(key, b"%d" % number) for number, key in enumerate(keys)])
    found.sort()
    last = {key: b"%d" % number for number, key in enumerate(keys)}
    assert found.take(len(keys)) == sorted(last.items())


def test_room_is_asked_for_where_there_is_none_and_what_it_takes_is_known():
    found = SortedEntries()
    assert not found.add(b"key", b"value")
    before, growth = found.memory, found.growth(1 << 20)
    found.grow(1 << 20)
    assert found.memory == before + growth
    assert found.add(b"key", bytearray(1 << 19))
    found.sort()
    assert found.take(1) == [(b"key", bytes(1 << 19))]
