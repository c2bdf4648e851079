"""Links that let in once, and the sessions that they become."""

from __future__ import annotations

from itertools import count

from barnabas.console.sessions import IDLE_SECONDS, LINK_SECONDS, MOST_SESSIONS, Sessions


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
    assert known.is_known(session)
    assert known.redeem(token) is None
    assert not known.is_known(token)


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
    assert known.is_known(session)
    clock.now += IDLE_SECONDS

    assert not known.is_known(session)
    assert not known.is_known(session)


def test_sessions_are_bounded_and_the_longest_unused_goes_first() -> None:
    known, clock = sessions()
    made = []
    for _ in range(MOST_SESSIONS):
        clock.now += 1
        made.append(known.redeem(known.new_link()) or "")
    clock.now += 1
    assert known.is_known(made[0])

    newest = known.redeem(known.new_link()) or ""

    assert known.is_known(newest)
    assert known.is_known(made[0])
    assert not known.is_known(made[1])


def test_real_secrets_are_long_and_differ() -> None:
    known = Sessions(lambda: 0.0)

    links = {known.new_link() for _ in range(100)}

    assert len(links) == 100
    assert min(map(len, links)) >= 40
