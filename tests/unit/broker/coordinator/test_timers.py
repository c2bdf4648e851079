"""TimerQueue: one timer per key, whatever is done to it."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.instant import Instant


def fire_due(timers: TimerQueue, now: float) -> None:
    while (due := timers.pop_due(now)) is not None:
        due[1](Instant(now, 0))


def test_timers_go_off_in_the_order_of_their_deadlines() -> None:
    timers = TimerQueue()
    fired: list[str] = []
    for key, deadline in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("never", 9.0)):
        timers.schedule(key, deadline, lambda at, key=key: fired.append(key))

    fire_due(timers, 3.0)

    assert fired == ["a", "b", "c"]
    assert timers.next_deadline() == 9.0


def test_a_timer_that_is_pushed_back_goes_off_once_and_late() -> None:
    timers = TimerQueue()
    fired: list[float] = []
    for deadline in (1.0, 2.0, 3.0):
        timers.schedule("session", deadline, lambda at: fired.append(at.now))

    for now in (1.0, 2.0, 3.0, 4.0):
        fire_due(timers, now)

    assert fired == [3.0]
    assert timers.next_deadline() == inf


def test_pushing_back_many_times_does_not_grow_the_heap() -> None:
    timers = TimerQueue()
    for beat in range(10_000):
        timers.schedule("session", beat + 10.0, lambda at: None)

    assert len(timers._heap) == 1


def test_setting_and_cancelling_many_timers_does_not_grow_the_heap() -> None:
    timers = TimerQueue()
    for key in range(10_000):
        timers.schedule(key, 1000.0 + key, lambda at: None)
        timers.cancel(key)

    assert len(timers) == 0
    assert len(timers._heap) < 100


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("schedule"), st.integers(0, 4), st.integers(0, 20)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("advance"), st.just(0), st.integers(0, 5)),
    ),
    max_size=60,
)


@given(OPERATIONS)
def test_timers_behave_like_a_table_of_deadlines(operations: list[tuple[str, int, int]]) -> None:
    timers = TimerQueue()
    table: dict[int, float] = {}
    fired: list[int] = []
    expected: list[int] = []
    now = 0.0
    for what, key, number in operations:
        if what == "schedule":
            timers.schedule(key, now + number, lambda at, key=key: fired.append(key))
            table[key] = now + number
        elif what == "cancel":
            timers.cancel(key)
            table.pop(key, None)
        else:
            now += number
            due = sorted((deadline, key) for key, deadline in table.items() if deadline <= now)
            fire_due(timers, now)
            expected += [key for _, key in due]
            for _, key in due:
                del table[key]
        assert timers.next_deadline() == min(table.values(), default=inf)
        assert sorted(fired) == sorted(expected)
