"""Sessions in memory against a plain list of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.streams.state.session_bytes import InMemorySessions, Session

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
    class Watched(dict[int, dict[bytes, dict[int, bytes]]]):
        looked = 0

        def get(self, *arguments: object) -> object:  # type: ignore[override]
            self.looked += 1
            return super().get(*arguments)  # type: ignore[call-overload]

    store = InMemorySessions(10_000)
    for number in range(1000):
        store.put(b"%d" % number, number, number, b"x")
    watched = store._ends = Watched(store._ends)

    assert [*store.find(b"7", b"7", 0, 1 << 62, False)] == [(b"7", 7, 7, b"x")]
    assert watched.looked == 1


def test_a_session_that_is_removed_while_others_are_read_is_left_out() -> None:
    store = InMemorySessions(1000)
    for start in (1, 2, 3):
        store.put(b"a", start, 5, b"x")
    found = store.find(b"a", b"a", 0, 100, False)

    assert next(found) == (b"a", 3, 5, b"x")
    store.remove(b"a", 2, 5)
    assert [*found] == [(b"a", 1, 5, b"x")]
