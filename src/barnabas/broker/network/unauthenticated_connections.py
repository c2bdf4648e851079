"""Connections that have not authenticated yet: there are only so many of them, and only for so long."""

from __future__ import annotations

from typing import Protocol

#: Handshake and login together may take so long, in seconds.
LOGIN_SECONDS = 60.0


class Login(Protocol):
    """A connection that is to authenticate."""

    @property
    def is_authenticated(self) -> bool:
        """Whether it has."""


class UnauthenticatedConnections:
    """Remembers them in the order of their coming; above `most` the oldest has to go, for the sake of the others."""

    __slots__ = ("_since", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._since: dict[Login, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def add(self, login: Login, now: float) -> Login | None:
        """Take note of one more; return the one that is to be closed for it, if there are too many."""
        self._since[login] = now
        if len(self._since) <= self.most:
            return None
        self._prune()
        if len(self._since) <= self.most:
            return None
        oldest = next(iter(self._since))
        del self._since[oldest]
        return oldest

    def discard(self, login: Login) -> None:
        """Note that a connection is over."""
        self._since.pop(login, None)

    def expired(self, now: float) -> list[Login]:
        """Return those that have taken too long, and forget them and all that have authenticated."""
        self._prune()
        found = [login for login, since in self._since.items() if now - since >= LOGIN_SECONDS]
        for login in found:
            del self._since[login]
        return found

    def _prune(self) -> None:
        self._since = {login: since for login, since in self._since.items() if not login.is_authenticated}
