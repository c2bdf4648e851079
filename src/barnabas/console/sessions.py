"""Who may look: a link that is valid once becomes a session, and so does a login with a password."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import NamedTuple

LINK_SECONDS = 300.0
IDLE_SECONDS = 12 * 3600.0
MOST_SESSIONS = 100
#: A login ends when it was not used for an hour, and in any case after twelve.
LOGIN_IDLE_SECONDS = 3600.0
LOGIN_SECONDS = 12 * 3600.0
MOST_LOGINS = 64
MOST_LOGINS_OF_ONE = 8


class Who(NamedTuple):
    """Whose session it is: the how manieth (0: of none), and who logged in with a password (None: by a link)."""

    number: int
    user: str | None = None


STRANGER = Who(0)


class _Session(NamedTuple):
    who: Who
    since: float
    seen: float

    def ends_at(self) -> float:
        if self.who.user is None:
            return self.seen + IDLE_SECONDS
        return min(self.seen + LOGIN_IDLE_SECONDS, self.since + LOGIN_SECONDS)


class Sessions:
    """Tokens of links, and the sessions that these and logins became. Only hashes are kept.

    `now` gives seconds, `new_secret` a text that cannot be guessed. `on_end` is called once for each session that ends,
    in whichever way.
    """

    def __init__(
        self,
        now: Callable[[], float],
        new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32),
        on_end: Callable[[Who], None] = lambda _: None,
    ) -> None:
        self._now = now
        self._new_secret = new_secret
        self._on_end = on_end
        self._links: dict[bytes, float] = {}
        self._sessions: dict[bytes, _Session] = {}
        self._made = 0

    def new_link(self) -> str:
        """Return a token that `redeem` takes once, within five minutes; earlier ones become void."""
        token = self._new_secret()
        self._links = {_digest(token): self._now() + LINK_SECONDS}
        return token

    def redeem(self, token: str) -> str | None:
        """Return a new session for a link's token; None for one that is unknown, used or expired."""
        expires = self._links.pop(_digest(token), None)
        if expires is None or self._now() >= expires:
            return None
        self.expire()
        while len(self._sessions) >= MOST_SESSIONS:
            self._end(min(self._sessions, key=lambda digest: self._sessions[digest].seen))
        return self._new(None)

    def log_in(self, user: str) -> str | None:
        """Return a new session of one who has shown who he is; None where there are too many of others.

        Too many of one user end that user's longest unused, and never another's.
        """
        self.expire()
        own = sorted((one.seen, digest) for digest, one in self._sessions.items() if one.who.user == user)
        for _, digest in own[: max(0, len(own) - MOST_LOGINS_OF_ONE + 1)]:
            self._end(digest)
        return None if len(self._sessions) >= MOST_LOGINS else self._new(user)

    def who(self, session: str) -> Who:
        """Return whose session it is, and count that as a use; `STRANGER` for one that there is not, or no more."""
        digest = _digest(session)
        found = self._sessions.get(digest)
        if found is None:
            return STRANGER
        if self._now() >= found.ends_at():
            self._end(digest)
            return STRANGER
        self._sessions[digest] = found._replace(seen=self._now())
        return found.who

    def keep(self, number: int) -> None:
        """Count as a use that a page of a session is open, which asks for nothing."""
        for digest, one in self._sessions.items():
            if one.who.number == number and self._now() < one.ends_at():
                self._sessions[digest] = one._replace(seen=self._now())

    def end(self, number: int) -> None:
        """End a session, where it is still there."""
        for digest in [digest for digest, one in self._sessions.items() if one.who.number == number]:
            self._end(digest)

    def expire(self) -> None:
        """End the sessions whose time is over."""
        now = self._now()
        for digest in [digest for digest, one in self._sessions.items() if now >= one.ends_at()]:
            self._end(digest)

    def _new(self, user: str | None) -> str:
        session, now = self._new_secret(), self._now()
        self._made += 1
        self._sessions[_digest(session)] = _Session(Who(self._made, user), now, now)
        return session

    def _end(self, digest: bytes) -> None:
        self._on_end(self._sessions.pop(digest).who)


def _digest(secret: str) -> bytes:
    # Looked up by hash, so the time that a look-up takes says nothing of the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
