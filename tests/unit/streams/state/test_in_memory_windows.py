"""Windows in memory whose iterators are read on while the store changes, as Kafka's skip lists let them be."""

from __future__ import annotations

import pytest

from barnabas.streams.state.in_memory_window import InMemoryWindows

KEY = b"a"


def windows(*starts: int, retention_ms: int = 1000) -> InMemoryWindows:
    store = InMemoryWindows(retention_ms, retain_duplicates=False)
    for start in starts:
        store.put(KEY, start, 0, b"%d" % start)
    return store


def test_a_window_that_a_cache_lets_go_of_while_others_are_read_is_seen() -> None:
    # Sliding windows behind a small cache: the window with the record before is evicted while those after are updated.
    store = windows(10, 30, 40)
    found = store.fetch(KEY, 0, 100, True)

    assert next(found) == (KEY, 40, b"40")
    store.put(KEY, 20, 0, b"evicted")
    assert [*found] == [(KEY, 30, b"30"), (KEY, 20, b"evicted"), (KEY, 10, b"10")]


@pytest.mark.parametrize("bounds", [(KEY, KEY), (None, None), (b"A", b"b")])
def test_the_next_window_is_given_although_another_came_before_it(bounds: tuple[bytes | None, bytes | None]) -> None:
    store = windows(10, 30)
    found = store.fetch_keys(*bounds, 0, 100, False)

    store.put(KEY, 20, 0, b"new")
    store.put(KEY, 30, 0, b"changed")
    assert [*found] == [(KEY, 10, b"10"), (KEY, 30, b"changed")]


def test_keys_of_one_start_are_seen_as_they_come_but_for_the_next_one() -> None:
    store = windows(10)
    for key in (b"c", b"e"):
        store.put(key, 10, 0, b"old")
    found = store.fetch_all(0, 100, False)

    assert next(found) == (KEY, 10, b"10")
    store.put(b"b", 10, 0, b"too early")
    store.put(b"c", 10, 0, b"too late")
    store.put(b"d", 10, 0, b"seen")
    store.put(b"e", 10, 0, None)
    assert [*found] == [(b"c", 10, b"old"), (b"d", 10, b"seen")]


def test_windows_do_not_expire_below_an_iterator_that_is_open() -> None:
    store = windows(10, 20, 30)
    found = store.fetch_all(0, 100, False)
    store.put(KEY, 5000, 0, b"now")
    store.put(KEY, 5001, 0, b"now")

    assert store.num_entries() == 5
    assert next(found) == (KEY, 10, b"10")
    assert [start for _, start, _ in found] == [20, 30]
    del found
    assert store.get(KEY, 5001, 0) == b"now"
    assert store.num_entries() == 2
