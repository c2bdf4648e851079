"""The table of sessions against a plain list: who holds a secret is who it was given to, or a stranger.

Times are whole minutes on a clock that only the test moves, and the bounds are small, so that they are met.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.console import sessions
from barnabas.console.sessions import (
    IDLE_SECONDS,
    LINK_SECONDS,
    LOGIN_IDLE_SECONDS,
    LOGIN_SECONDS,
    STRANGER,
    Sessions,
    Who,
)

MOST, MOST_OF_ONE = 4, 2
#: No two uses are at the same time, so that it is decided which one was the earlier.
MOMENT = 2.0**-10
USERS = st.sampled_from(["alice", "bob", "carol"])
MINUTES = st.sampled_from([0, 1, 4, 5, 30, 59, 60, 240, 719, 720])


class Given(NamedTuple):
    """A session that was given out, and is not known to have ended."""

    who: Who
    since: float
    seen: float

    def ends_at(self) -> float:
        if self.who.user is None:
            return self.seen + IDLE_SECONDS
        return min(self.seen + LOGIN_IDLE_SECONDS, self.since + LOGIN_SECONDS)


class SessionTable(RuleBasedStateMachine):
    """One console: either its links let in, or people log in."""

    def __init__(self) -> None:
        super().__init__()
        self.bounds = pytest.MonkeyPatch()
        self.bounds.setattr(sessions, "MOST_SESSIONS", MOST)
        self.bounds.setattr(sessions, "MOST_LOGINS", MOST)
        self.bounds.setattr(sessions, "MOST_LOGINS_OF_ONE", MOST_OF_ONE)
        self.now = 1000.0
        self.numbers = count()
        self.ended: list[Who] = []
        self.table = Sessions(lambda: self.now, lambda: f"secret-{next(self.numbers)}", self.ended.append)
        self.given: dict[str, Given] = {}
        self.secrets: list[str] = []
        self.link: tuple[str, float] | None = None
        self.links: list[str] = []

    def teardown(self) -> None:
        self.bounds.undo()

    @initialize(by_login=st.booleans())
    def choose(self, by_login: bool) -> None:
        self.by_login = by_login

    @rule(minutes=MINUTES)
    def time_passes(self, minutes: int) -> None:
        self.now += minutes * 60

    @precondition(lambda self: not self.by_login)
    @rule()
    def a_link_is_made(self) -> None:
        token = self.table.new_link()
        self.link = token, self.now + LINK_SECONDS
        self.links.append(token)

    @precondition(lambda self: self.links)
    @rule(number=st.integers(0, 50))
    def a_link_is_opened(self, number: int) -> None:
        self.now += MOMENT
        token = self.links[number % len(self.links)]
        is_good = self.link is not None and self.link[0] == token and self.now < self.link[1]
        if self.link is not None and self.link[0] == token:
            self.link = None
        before = self.living()
        session = self.table.redeem(token)

        assert (session is not None) == is_good
        if session is not None:
            if len(before) == MOST:
                self.forget(min(before, key=lambda secret: self.given[secret].seen))
            self.take(session, None)

    @precondition(lambda self: self.by_login)
    @rule(user=USERS)
    def one_logs_in(self, user: str) -> None:
        self.now += MOMENT
        before = self.living()
        own = sorted((secret for secret in before if self.given[secret].who.user == user), key=self.last_use)
        session = self.table.log_in(user)

        left = len(before) - max(0, len(own) - MOST_OF_ONE + 1)
        assert (session is None) == (left >= MOST)
        for secret in own[: max(0, len(own) - MOST_OF_ONE + 1)]:
            self.forget(secret)
        if session is not None:
            self.take(session, user)

    @precondition(lambda self: self.secrets)
    @rule(number=st.integers(0, 50))
    def a_secret_is_used(self, number: int) -> None:
        self.now += MOMENT
        secret = self.secrets[number % len(self.secrets)]
        expected = self.given[secret].who if secret in self.living() else STRANGER

        assert self.table.who(secret) == expected
        if expected != STRANGER:
            self.given[secret] = self.given[secret]._replace(seen=self.now)

    @precondition(lambda self: self.secrets)
    @rule(number=st.integers(1, 12))
    def a_page_stays_open(self, number: int) -> None:
        self.now += MOMENT
        self.table.keep(number)
        for secret in self.living():
            if self.given[secret].who.number == number:
                self.given[secret] = self.given[secret]._replace(seen=self.now)

    @rule(number=st.integers(1, 12))
    def one_logs_out(self, number: int) -> None:
        self.table.end(number)
        for secret in [secret for secret, one in self.given.items() if one.who.number == number]:
            self.forget(secret)

    @rule()
    def houses_are_kept(self) -> None:
        self.table.expire()
        living = self.living()
        for secret in [secret for secret in self.given if secret not in living]:
            self.forget(secret)
        assert {who.number for who in self.ended} | {one.who.number for one in self.given.values()} == set(
            range(1, len(self.secrets) + 1)
        )

    @rule(guess=st.one_of(st.text(max_size=20), st.sampled_from(["", "secret", "\udcff"])))
    def what_is_guessed_is_a_stranger(self, guess: str) -> None:
        if guess not in self.given:
            assert self.table.who(guess) == STRANGER
            assert guess in self.links or self.table.redeem(guess) is None

    @invariant()
    def each_end_is_told_once_and_the_table_is_bounded(self) -> None:
        assert len(self.ended) == len(set(self.ended))
        assert len(self.living()) <= MOST
        # A secret itself is never kept.
        assert not any(secret in repr(vars(self.table)) for secret in self.secrets + self.links)

    def living(self) -> list[str]:
        return [secret for secret, one in self.given.items() if self.now < one.ends_at()]

    def last_use(self, secret: str) -> float:
        return self.given[secret].seen

    def take(self, secret: str, user: str | None) -> None:
        self.secrets.append(secret)
        self.given[secret] = Given(Who(len(self.secrets), user), self.now, self.now)

    def forget(self, secret: str) -> None:
        del self.given[secret]


SessionTable.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_table_of_sessions = SessionTable.TestCase
