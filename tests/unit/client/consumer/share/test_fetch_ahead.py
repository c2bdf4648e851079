"""How far ahead a share consumer fetches: by the application's pace, more with each poll that comes soon."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.consumer.share.fetch_ahead import MOST_AT_ONCE, MOST_POLLS, SOON, FetchAhead

MOST = 100


def asked(pauses: Sequence[float], handed_out: int = MOST, waiting: int = 0, *, is_strict: bool = False) -> list[int]:
    """For how many polls each poll fetches, after so many seconds in the application."""
    ahead, now, found = FetchAhead(MOST, is_strict=is_strict), 0.0, []
    for pause in pauses:
        now += pause
        ahead.came(now)
        found.append(ahead.polls(handed_out, waiting))
        ahead.went(now)
    return found


def test_it_doubles_with_each_poll_that_comes_soon_and_ends_with_one_that_does_not() -> None:
    assert asked([1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.6, 0.01]) == [0, 1, 2, 4, 8, 8, 0, 1]


@pytest.mark.parametrize(("pause", "polls"), [(0.5, 1), (0.3, 1), (0.25, 2), (0.125, 4), (0.0, MOST_POLLS)])
def test_no_more_is_fetched_than_the_application_will_take_soon(pause: float, polls: int) -> None:
    assert asked([1, *[pause] * 9])[-1] == polls


@pytest.mark.parametrize("handed_out", [0, MOST // 2 - 1, 2 * MOST + 1])
def test_nothing_is_fetched_ahead_of_few_records_or_of_large_batches(handed_out: int) -> None:
    assert asked([1, *[0.01] * 9], handed_out) == [0] * 10


def test_nothing_is_fetched_ahead_under_a_limit() -> None:
    assert asked([1, *[0.01] * 9], is_strict=True) == [0] * 10


def test_what_waits_here_is_enough_until_a_poll_has_taken_of_it() -> None:
    assert asked([1, *[0.01] * 9], waiting=MOST_POLLS * MOST - MOST)[-1] == MOST_POLLS
    assert asked([1, *[0.01] * 9], waiting=MOST_POLLS * MOST)[-1] == 0


def of_a_hungry_application(pauses: Sequence[float], wait: float) -> list[int]:
    """For how many polls each poll fetches, where each but the first had to wait so many seconds for records."""
    ahead, now, found = FetchAhead(MOST, is_strict=False), 0.0, []
    for pause in pauses:
        now += pause
        ahead.came(now)
        if found:
            ahead.waited(wait)
        found.append(ahead.polls(MOST, 0))
        now += wait
        ahead.went(now)
    return found


def test_more_is_fetched_where_the_broker_is_slower_than_the_application() -> None:
    assert of_a_hungry_application([1, *[0.0002] * 9], wait=0.005) == [0, 1, 2, 4, 8, 16, 32, 32, 32, 32]
    assert of_a_hungry_application([1, *[0.0002] * 9], wait=0.0001)[-1] == MOST_POLLS, "it waits less than it works"
    assert of_a_hungry_application([1, *[0.01] * 9], wait=0.1)[-1] == MOST_POLLS, "records are locked for long"
    assert of_a_hungry_application([1, *[0.0002] * 9, 0.01], wait=0.005)[-2:] == [MOST_AT_ONCE, MOST_POLLS]


@pytest.mark.parametrize(("pause", "is_hurried"), [(0.0005, True), (0.001, False)])
def test_only_who_comes_back_at_once_has_its_acknowledgements_wait(pause: float, is_hurried: bool) -> None:
    ahead = FetchAhead(MOST, is_strict=False)
    ahead.went(1.0)
    ahead.came(1.0 + pause)
    assert ahead.is_hurried == is_hurried


@settings(max_examples=60, deadline=None)
@given(pauses=st.lists(st.floats(0, 2), min_size=1), handed_out=st.integers(0, 300), waiting=st.integers(0, 3000))
def test_what_is_fetched_is_taken_soon_at_that_pace(pauses: list[float], handed_out: int, waiting: int) -> None:
    for pause, polls in zip(pauses, asked(pauses, handed_out, waiting), strict=True):
        assert 0 <= polls <= MOST_POLLS
        assert polls * pause <= SOON + 1e-6
