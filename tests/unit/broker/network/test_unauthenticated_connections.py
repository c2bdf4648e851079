from __future__ import annotations

from barnabas.broker.network.unauthenticated_connections import LOGIN_SECONDS, UnauthenticatedConnections


class Login:
    def __init__(self) -> None:
        self.is_authenticated = False


def test_above_the_limit_the_oldest_has_to_go() -> None:
    pending = UnauthenticatedConnections(2)
    first, second, third, fourth = (Login() for _ in range(4))
    assert [pending.add(login, 0.0) for login in (first, second)] == [None, None]
    assert pending.add(third, 1.0) is first
    pending.discard(second)
    assert pending.add(fourth, 2.0) is None


def test_those_that_have_authenticated_need_no_room() -> None:
    pending = UnauthenticatedConnections(1)
    first, second = Login(), Login()
    pending.add(first, 0.0)
    first.is_authenticated = True
    assert pending.add(second, 0.0) is None
    assert len(pending) == 1


def test_those_that_take_too_long_are_found_once() -> None:
    pending = UnauthenticatedConnections(9)
    slow, late = Login(), Login()
    pending.add(slow, 0.0)
    pending.add(late, 1.0)
    assert pending.expired(LOGIN_SECONDS - 0.1) == []
    assert pending.expired(LOGIN_SECONDS) == [slow]
    assert pending.expired(LOGIN_SECONDS) == []
    late.is_authenticated = True
    assert pending.expired(LOGIN_SECONDS * 2) == []
