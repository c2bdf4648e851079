"""Warnings that clients can cause as often as they like, without filling the log."""

from __future__ import annotations

from collections.abc import Callable

#: Of warnings of one kind there is at most one in so many seconds.
SAY_AGAIN = 1.0
#: So many kinds are told apart; beyond that the oldest is forgotten.
_KINDS = 1000


class RepeatedWarnings:
    """Says the first warning of each kind, and then one a second with the number of those it swallowed."""

    __slots__ = ("_said", "_warn")

    def __init__(self, warn: Callable[[str], None]):
        self._warn = warn
        self._said: dict[str, tuple[float, int]] = {}

    def say(self, kind: str, text: str, now: float, warn: Callable[[str], None] | None = None) -> None:
        """Warn of something; `kind` is what it has in common with others like it, `warn` where it goes if elsewhere."""
        said_at, unsaid = self._said.pop(kind, (-SAY_AGAIN, 0))
        if now - said_at < SAY_AGAIN:
            self._said[kind] = said_at, unsaid + 1
            return
        if len(self._said) >= _KINDS:
            del self._said[next(iter(self._said))]
        self._said[kind] = now, 0
        (warn or self._warn)(text + (f" ({unsaid} more since the last time)" if unsaid else ""))
