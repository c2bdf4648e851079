"""Sessions in memory against a plain list of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.streams.state.in_memory_session import InMemorySessions, Keys
from barnabas.streams.state.session_bytes import Session
from barnabas.streams.state.skip_list_map import SkipListMap

RETENTION = 50
KEYS = st.sampled_from([b"a", b"b", b"c"])
TIMES = st.integers(0, 120)


class Model:
    """What the store must hold: sessions by key, start and end, none of which has expired."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[bytes, int, int], bytes] = {}
        self.time = -1

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> bool:
        self.time = max(self.time, end)
        if end <= self.time - RETENTION:
            return False
        if value is None:
            self.sessions.pop((key, start, end), None)
        else:
            self.sessions[key, start, end] = value
        return True

    def find(self, first: bytes | None, last: bytes | None, earliest_end: int, latest_start: int) -> list[Session]:
        found = [
            (key, start, end, value)
            for (key, start, end), value in self.sessions.items()
            if (first is None or key >= first) and (last is None or key <= last)
            if earliest_end <= end > self.time - RETENTION and start <= latest_start
        ]
        return sorted(found, key=lambda session: (session[2], session[0], -session[1]))


STEPS = st.lists(st.tuples(KEYS, TIMES, st.integers(0, 20), st.sampled_from([b"x", b"y", None])), max_size=30)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.none() | KEYS, st.none() | KEYS, TIMES, TIMES)
def test_the_store_finds_what_a_list_of_all_sessions_has(
    steps: list[tuple[bytes, int, int, bytes | None]], first: bytes | None, last: bytes | None, end: int, start: int
) -> None:
    store, model = InMemorySessions(RETENTION), Model()
    for key, begin, length, value in steps:
        assert store.put(key, begin, begin + length, value) == model.put(key, begin, begin + length, value)

    for bounds in ((first, last), (first, first), (b"b", b"b")):
        wanted = model.find(*bounds, end, start)
        assert [*store.find(*bounds, end, start, False)] == wanted
        assert [*store.find(*bounds, end, start, True)] == wanted[::-1]
    assert [*store.find_ended(end, end + 30)] == [
        each for each in model.find(None, None, end, 1 << 62) if each[2] <= end + 30
    ]


def test_one_key_is_found_without_a_look_at_the_others() -> None:
    class Watched(SkipListMap[int, Keys]):
        looked = 0

        def get(self, key: int) -> Keys | None:
            self.looked += 1
            return super().get(key)

    store = InMemorySessions(10_000)
    watched = store._ends = Watched()
    for number in range(1000):
        store.put(b"%d" % number, number, number, b"x")
    watched.looked = 0

    assert [*store.find(b"7", b"7", 0, 1 << 62, False)] == [(b"7", 7, 7, b"x")]
    assert watched.looked < 5


def four_of_one_end() -> InMemorySessions:
    store = InMemorySessions(1000)
    for start in (1, 2, 3, 4):
        store.put(b"a", start, 5, b"x")
    return store


def test_a_session_that_is_removed_while_others_are_read_is_left_out_unless_it_is_next() -> None:
    store = four_of_one_end()
    found = store.find(b"a", b"a", 0, 100, False)

    assert next(found) == (b"a", 4, 5, b"x")
    store.remove(b"a", 3, 5)
    store.remove(b"a", 2, 5)
    assert [*found] == [(b"a", 3, 5, b"x"), (b"a", 1, 5, b"x")]


def test_a_session_that_is_put_while_others_are_read_is_seen() -> None:
    store = four_of_one_end()
    found = store.find(b"a", b"a", 0, 100, False)

    assert next(found) == (b"a", 4, 5, b"x")
    store.put(b"a", 0, 5, b"new")
    assert [*found] == [(b"a", 3, 5, b"x"), (b"a", 2, 5, b"x"), (b"a", 1, 5, b"x"), (b"a", 0, 5, b"new")]


def test_sessions_do_not_expire_below_an_iterator_that_is_open() -> None:
    store = four_of_one_end()
    found = store.find(b"a", b"a", 0, 100, False)

    store.put(b"b", 0, 5000, b"y")
    store.put(b"b", 0, 5001, b"y")
    assert next(found) == (b"a", 4, 5, b"x")
    assert len([*store.find(b"a", b"a", 0, 100, False)]) == 4
    del found
    assert [*store.find(b"a", b"a", 0, 100, False)] == []
