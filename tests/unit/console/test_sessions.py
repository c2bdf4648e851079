"""Links that let in once, and the sessions that they become."""

from __future__ import annotations

from itertools import count

from barnabas.console.sessions import (
    IDLE_SECONDS,
    LINK_SECONDS,
    LOGIN_IDLE_SECONDS,
    LOGIN_SECONDS,
    MOST_LOGINS,
    MOST_LOGINS_OF_ONE,
    MOST_SESSIONS,
    STRANGER,
    Sessions,
    Who,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def sessions() -> tuple[Sessions, Clock]:
    clock, numbers = Clock(), count()
    return Sessions(clock, lambda: f"secret-{next(numbers)}"), clock


def test_a_link_lets_in_once() -> None:
    known, _ = sessions()
    token = known.new_link()

    session = known.redeem(token)

    assert session is not None
    assert known.who(session) == Who(1)
    assert known.redeem(token) is None
    assert known.who(token) == STRANGER


def test_a_link_expires() -> None:
    known, clock = sessions()
    token = known.new_link()
    clock.now += LINK_SECONDS

    assert known.redeem(token) is None


def test_a_new_link_makes_the_earlier_one_void() -> None:
    known, _ = sessions()
    first, second = known.new_link(), known.new_link()

    assert known.redeem(first) is None
    assert known.redeem(second) is not None


def test_a_session_ends_when_it_is_not_used_for_half_a_day() -> None:
    known, clock = sessions()
    session = known.redeem(known.new_link()) or ""
    clock.now += IDLE_SECONDS - 1
    assert known.who(session) != STRANGER
    clock.now += IDLE_SECONDS

    assert known.who(session) == STRANGER
    assert known.who(session) == STRANGER


def test_sessions_are_bounded_and_the_longest_unused_goes_first() -> None:
    known, clock = sessions()
    made = []
    for _ in range(MOST_SESSIONS):
        clock.now += 1
        made.append(known.redeem(known.new_link()) or "")
    clock.now += 1
    assert known.who(made[0]) != STRANGER

    newest = known.redeem(known.new_link()) or ""

    assert known.who(newest) != STRANGER
    assert known.who(made[0]) != STRANGER
    assert known.who(made[1]) == STRANGER


def test_real_secrets_are_long_and_differ() -> None:
    known = Sessions(lambda: 0.0)

    links = {known.new_link() for _ in range(100)}

    assert len(links) == 100
    assert min(map(len, links)) >= 40


def test_a_login_ends_after_an_hour_without_use_and_after_twelve_in_any_case() -> None:
    known, clock = sessions()
    used, unused = known.log_in("alice") or "", known.log_in("bob") or ""
    for _ in range(int(LOGIN_SECONDS / LOGIN_IDLE_SECONDS) * 2 - 1):
        clock.now += LOGIN_IDLE_SECONDS / 2
        assert known.who(used) == Who(1, "alice")
    assert known.who(unused) == STRANGER
    clock.now += LOGIN_IDLE_SECONDS / 2

    assert known.who(used) == STRANGER


def test_an_open_page_keeps_its_session_and_no_other() -> None:
    known, clock = sessions()
    first, second = known.log_in("alice") or "", known.log_in("alice") or ""
    for _ in range(4):
        clock.now += LOGIN_IDLE_SECONDS / 2
        known.keep(1)

    assert (known.who(first), known.who(second)) == (Who(1, "alice"), STRANGER)
    known.end(1)
    known.keep(1)
    assert known.who(first) == STRANGER


def test_one_user_cannot_push_another_out_nor_fill_the_table() -> None:
    known, clock = sessions()
    other = known.log_in("bob") or ""
    for _ in range(MOST_LOGINS * 2):
        clock.now += 1
        assert known.log_in("alice") is not None
    assert known.who(other) == Who(1, "bob")
    for number in range(MOST_LOGINS - MOST_LOGINS_OF_ONE - 1):
        assert known.log_in(f"user-{number}") is not None

    assert known.log_in("late") is None
    assert known.who(other) == Who(1, "bob")
    assert known.log_in("alice") is not None
