"""What to do about a partition that has no valid position: `auto.offset.reset`."""

from __future__ import annotations

from typing import Final, NamedTuple

from barnabas.config.durations import parse_duration
from barnabas.errors import ConfigError

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1


class AutoOffsetResetStrategy(NamedTuple):
    """`earliest`, `latest`, `none`, or `by_duration` with how far back in time to go (KIP-1106)."""

    name: str
    duration_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> AutoOffsetResetStrategy:
        """Read the setting; raises `ConfigError` for anything but the four forms."""
        name, colon, duration = text.strip().partition(":")
        if name.lower() == "by_duration" and colon:
            return cls("by_duration", parse_duration(duration))
        if not colon and name.lower() in ("earliest", "latest", "none"):
            return cls(name.lower())
        raise ConfigError(
            f"auto.offset.reset is {text!r}; it must be earliest, latest, none, or by_duration:PnDTnHnMn.nS "
            "(for example by_duration:P1DT12H for one day and a half)"
        )

    def timestamp(self, now_ms: int) -> int:
        """Return what to ask ListOffsets for: -2 for the start, -1 for the end, or the time in epoch milliseconds."""
        if self.name == "earliest":
            return EARLIEST_TIMESTAMP
        if self.name == "latest":
            return LATEST_TIMESTAMP
        return now_ms - self.duration_ms


EARLIEST: Final = AutoOffsetResetStrategy("earliest")
LATEST: Final = AutoOffsetResetStrategy("latest")
NONE: Final = AutoOffsetResetStrategy("none")
