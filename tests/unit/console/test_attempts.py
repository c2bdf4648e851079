"""How often one may try to log in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.console.attempts import MOST_REMEMBERED, OF_ADDRESS, OF_USER, Attempts


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_a_user_is_guessed_a_few_times_and_then_slowly() -> None:
    attempts = Attempts(clock := Clock())
    tries = [attempts.take(f"10.0.0.{number}", "alice") for number in range(OF_USER.at_once + 1)]

    assert tries == [0.0] * OF_USER.at_once + [OF_USER.seconds]
    assert attempts.take("10.0.0.99", "bob") == 0.0
    clock.now += OF_USER.seconds
    assert attempts.take("10.0.0.98", "alice") == 0.0
    assert attempts.take("10.0.0.97", "alice") == OF_USER.seconds


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("?", "?", True),
    ],
)
def test_an_address_tries_many_users_a_few_times_and_then_slowly(first: str, second: str, is_one: bool) -> None:
    attempts = Attempts(Clock())
    for number in range(OF_ADDRESS.at_once):
        assert attempts.take(first, f"user-{number}") == 0.0

    assert attempts.take(second, "another") == (OF_ADDRESS.seconds if is_one else 0.0)


def test_who_logs_in_has_used_up_nothing() -> None:
    attempts = Attempts(Clock())
    for _ in range(1000):
        assert attempts.take("10.0.0.1", "alice") == 0.0
        attempts.give_back("10.0.0.1", "alice")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 100), st.booleans()), max_size=200))
def test_no_way_of_trying_gives_more_attempts_than_the_allowance(tries: list[tuple[int, int, float, bool]]) -> None:
    attempts = Attempts(clock := Clock())
    began = clock.now
    failed: dict[str, int] = {}
    for address, user, wait, succeeds in tries:
        clock.now += wait
        if attempts.take(f"10.0.0.{address}", f"user-{user}") == 0.0:
            if succeeds:
                attempts.give_back(f"10.0.0.{address}", f"user-{user}")
            else:
                failed[f"user-{user}"] = failed.get(f"user-{user}", 0) + 1
                failed[f"10.0.0.{address}"] = failed.get(f"10.0.0.{address}", 0) + 1
        passed = clock.now - began
        for name, number in failed.items():
            allowance = OF_USER if name.startswith("user") else OF_ADDRESS
            assert number <= allowance.at_once + passed / allowance.seconds + 1e-6


def test_a_crowd_of_strangers_fills_no_memory() -> None:
    attempts = Attempts(Clock())
    for number in range(MOST_REMEMBERED * 2):
        attempts.take(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"user-{number}")

    assert len(attempts._whole_at) <= MOST_REMEMBERED
