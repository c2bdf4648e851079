"""Who may look: a link that is valid once becomes a session."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

LINK_SECONDS = 300.0
IDLE_SECONDS = 12 * 3600.0
MOST_SESSIONS = 100


class Sessions:
    """Tokens of links, and the sessions that they became. Only hashes are kept.

    `now` gives seconds, `new_secret` a text that cannot be guessed.
    """

    def __init__(
        self, now: Callable[[], float], new_secret: Callable[[], str] = lambda: secrets.token_urlsafe(32)
    ) -> None:
        self._now = now
        self._new_secret = new_secret
        self._links: dict[bytes, float] = {}
        self._last_seen: dict[bytes, float] = {}
        self._numbers: dict[bytes, int] = {}
        self._logins = 0

    def new_link(self) -> str:
        """Return a token that `redeem` takes once, within five minutes; earlier ones become void."""
        token = self._new_secret()
        self._links = {_digest(token): self._now() + LINK_SECONDS}
        return token

    def redeem(self, token: str) -> str | None:
        """Return a new session for a link's token; None for one that is unknown, used or expired."""
        expires = self._links.pop(_digest(token), None)
        now = self._now()
        if expires is None or now >= expires:
            return None
        self._forget_idle(now)
        while len(self._last_seen) >= MOST_SESSIONS:
            del self._last_seen[min(self._last_seen, key=self._last_seen.__getitem__)]
        session = self._new_secret()
        digest = _digest(session)
        self._last_seen[digest] = now
        self._logins += 1
        self._numbers = {key: number for key, number in self._numbers.items() if key in self._last_seen}
        self._numbers[digest] = self._logins
        return session

    def number_of(self, session: str) -> int:
        """Return the how manieth login a session is; 0 for none."""
        return self._numbers.get(_digest(session), 0)

    def is_known(self, session: str) -> bool:
        """Whether a session exists and was used in the last twelve hours; counts as a use."""
        digest, now = _digest(session), self._now()
        seen = self._last_seen.get(digest)
        if seen is None or now - seen >= IDLE_SECONDS:
            self._last_seen.pop(digest, None)
            return False
        self._last_seen[digest] = now
        return True

    def _forget_idle(self, now: float) -> None:
        self._last_seen = {key: seen for key, seen in self._last_seen.items() if now - seen < IDLE_SECONDS}


def _digest(secret: str) -> bytes:
    # Looked up by hash, so the time that a look-up takes says nothing of the secret.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
