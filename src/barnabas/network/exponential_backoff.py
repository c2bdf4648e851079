"""How long to wait before the next attempt: Kafka's ExponentialBackoff (KIP-580)."""

from __future__ import annotations

from typing import Protocol


class RandomSource(Protocol):
    """What we need of `random.Random`, so that a simulator can give its own."""

    def random(self) -> float:
        """Return a number in [0, 1)."""


class ExponentialBackoff:
    """`initial * 2**attempts`, at most `maximum`, spread by a random factor of 1 ± `jitter`. All in seconds."""

    __slots__ = ("_initial", "_jitter", "_maximum", "_random")

    def __init__(self, initial: float, maximum: float, random: RandomSource, jitter: float = 0.2) -> None:
        self._initial = min(initial, maximum)
        self._maximum = maximum
        self._random = random
        self._jitter = jitter

    def backoff(self, attempts: int) -> float:
        """Return the wait after `attempts` failures; 0 attempts give the initial wait, which has jitter too."""
        # 2**64 times anything but zero exceeds every maximum, and the bound keeps the power cheap.
        wait = self._initial * 2.0 ** min(attempts, 64)
        if self._maximum > self._initial:
            wait = min(wait, self._maximum) * (1 - self._jitter + 2 * self._jitter * self._random.random())
        return min(wait, self._maximum)
