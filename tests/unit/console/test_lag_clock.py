"""How long a group is behind, from when partitions ended where."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.console.lag_clock import MOST_REMEMBERED, Delay, LagClock
from barnabas.protocol.topic_partition import TopicPartition

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)


def clock(*looks: tuple[int, int]) -> LagClock:
    made = LagClock()
    for at_ms, end in looks:
        made.saw(at_ms, {P: end}, [P])
    return made


def test_who_has_read_all_is_not_behind() -> None:
    assert clock((1000, 5), (2000, 10)).delay(P, 10, 9000) == Delay(0, is_at_least=False)


def test_a_record_was_written_between_the_looks_around_it() -> None:
    looks = clock((10_000, 100), (20_000, 200))
    # A hundred records came in ten seconds, so the fiftieth came in the middle.
    assert looks.delay(P, 149, 30_000) == Delay(15_000, is_at_least=False)
    assert looks.delay(P, 199, 30_000) == Delay(10_000, is_at_least=False)


def test_what_was_there_before_the_first_look_is_at_least_that_old() -> None:
    assert clock((10_000, 100), (20_000, 200)).delay(P, 40, 30_000) == Delay(20_000, is_at_least=True)


def test_a_partition_that_nobody_looked_at_tells_nothing() -> None:
    assert clock((10_000, 100)).delay(Q, 40, 30_000) is None
    assert LagClock().longest({P: 1}, 5) is None


def test_what_is_wanted_no_more_is_forgotten() -> None:
    looks = clock((10_000, 100))
    looks.saw(11_000, {P: 101, Q: 7}, [Q])
    assert looks.delay(P, 40, 30_000) is None
    assert looks.delay(Q, 40, 30_000) == Delay(0, is_at_least=False)


def test_a_topic_that_was_made_anew_begins_anew() -> None:
    assert clock((10_000, 100), (20_000, 3)).delay(P, 2, 30_000) == Delay(10_000, is_at_least=True)


def test_the_partition_that_waits_longest_counts() -> None:
    looks = LagClock()
    for at_ms in (0, 10_000, 20_000):
        looks.saw(at_ms, {P: at_ms // 100, Q: at_ms // 100}, [P, Q])
    assert looks.longest({P: 199, Q: 99}, 20_000) == Delay(10_000, is_at_least=False)


def test_an_idle_partition_takes_two_looks_however_long_it_is_looked_at() -> None:
    looks = clock((0, 10), *((at, 20) for at in range(1000, 1_000_000, 1000)))
    assert looks.delay(P, 19, 1_000_000) == Delay(999_000, is_at_least=False)
    assert [len(part) for part in looks._looks[P]] == [3, 3]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=1000), st.data())
def test_a_delay_is_bounded_by_the_looks_around_it(grown: list[int], data: st.DataObject) -> None:
    looks, end, at, ends = LagClock(), 0, 0, []
    for more in grown:
        at, end = at + 5000, end + more
        ends.append((at, end))
        looks.saw(at, {P: end}, [P])
    offset = data.draw(st.integers(0, end))
    now = at + 1000
    found = looks.delay(P, offset, now)
    assert found is not None
    assert all(len(part) <= MOST_REMEMBERED for part in looks._looks[P])
    after = next((time for time, one in ends if one > offset), None)
    if after is None:
        assert found == Delay(0, is_at_least=False)
    elif ends[0][1] > offset:
        assert found == Delay(now - ends[0][0], is_at_least=True)
    elif len(ends) <= MOST_REMEMBERED:
        assert now - after <= found.ms <= now - after + 5000 * len(ends)
