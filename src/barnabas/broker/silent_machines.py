"""Which machines are gone, by their silence: and that it is not this one that is cut off.

A process that has ended resets its connections, and its port refuses others. A machine that has lost its power, or its
way here, says nothing at all. A process that is only paused is another thing: its system goes on to acknowledge, and to
take connections. So a machine from which nothing has come for a while is asked for a connection. Two attempts in a row
that come to nothing, neither opened nor refused, tell that it is gone or cut off; any sign of life in between voids
them.

Who is cut off itself would see all the others gone. So at least half of all machines that are watched, the silent ones
among them, must have been heard between the last two attempts: they are asked for a connection, too. Where they were
not, the silence proves nothing, and the session decides.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from math import inf
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

_ATTEMPTS = 2
#: How long the others have to answer before the next attempt begins, in seconds: twice as long each time, at most.
_FOR_OTHERS, _ROUNDS, _MOST_FOR_OTHERS = 0.05, 5, 1.0
#: Of the session: for how long a machine may be silent. Of that: how long a connection may take.
_OF_SESSION, _OF_SILENCE = 0.25, 0.25
_LEAST_PATIENCE, _MOST_PATIENCE = 0.1, 1.0


class Silence(NamedTuple):
    """How long a machine may be silent before it is asked for a connection, and how long that may take, in seconds."""

    longest: float
    patience: float

    @classmethod
    def of(cls, configured_ms: int, session: float) -> Silence | None:
        """Return what `broker.silence.timeout.ms` says: 0 is None, -1 a quarter of the session."""
        if configured_ms == 0:
            return None
        longest = session * _OF_SESSION if configured_ms < 0 else configured_ms / 1000
        return cls(longest, min(max(_LEAST_PATIENCE, longest * _OF_SILENCE), _MOST_PATIENCE))

    @staticmethod
    def patience_of(silence: Silence | None) -> float:
        """How long a connection may take, in seconds; where machines may be silent, as long as ever."""
        return _MOST_PATIENCE if silence is None else silence.patience


class _Silent:
    """A row of attempts that came to nothing: how many, when the last one did, and whether the others were heard then.

    `is_backed` is how that was when another attempt began.
    """

    __slots__ = ("attempts", "is_backed", "last")

    def __init__(self) -> None:
        self.attempts = 0
        self.last = inf
        self.is_backed = False


class SilentMachines(Generic[Key]):
    """What attempts to connect have come to, by the life of a broker."""

    def __init__(self) -> None:
        self._silent: dict[Key, _Silent] = {}
        self._heard: dict[Key, float] = {}

    def heard(self, key: Key, now: float) -> None:
        """Take note of a sign of life: a connection, a refusal, a heartbeat."""
        self._silent.pop(key, None)
        self._heard[key] = now

    def asks(self, key: Key, others: Collection[Key]) -> None:
        """Take note that an attempt begins; `others` are all that are watched beside it, none of them on this machine.

        What comes later does not count: this machine may have been cut off until then.
        """
        silent = self._silent.get(key)
        if silent is not None:
            heard = sum(self._heard.get(other, -inf) >= silent.last for other in others)
            silent.is_backed = 2 * heard >= len(others) + 1

    def came_to_nothing(self, key: Key, now: float) -> float:
        """Take note of an attempt; how long the next one waits, in seconds, until the others may have answered."""
        self._heard.pop(key, None)
        silent = self._silent.setdefault(key, _Silent())
        silent.attempts += 1
        silent.last = now
        return float(min(_FOR_OTHERS * 2 ** min(silent.attempts - 1, _ROUNDS), _MOST_FOR_OTHERS))

    def forget(self, key: Key) -> None:
        """Take note that a life is not watched any more."""
        self._silent.pop(key, None)
        self._heard.pop(key, None)

    def is_silent(self, key: Key) -> bool:
        """Whether the last attempt came to nothing, and no sign of life since."""
        return key in self._silent

    def is_gone(self, key: Key) -> bool:
        """Whether a machine is gone, and not this one cut off."""
        silent = self._silent.get(key)
        return silent is not None and silent.attempts >= _ATTEMPTS and silent.is_backed
