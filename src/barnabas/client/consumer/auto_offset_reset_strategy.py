"""What to do about a partition that has no valid position: `auto.offset.reset`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from barnabas.errors import ConfigError

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1

_MILLISECONDS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_DURATION = re.compile(
    r"P(?:(?P<days>[+-]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


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


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO-8601 duration such as `PT30M`, as Java's Duration reads it; negative ones are refused."""
    match = _DURATION.fullmatch(text)
    parts = {} if match is None else {unit: match[unit] for unit in _MILLISECONDS if match[unit]}
    if match is None or not parts or (match["time"] or "").upper() == "T":
        raise ConfigError(f"{text!r} is no ISO-8601 duration of the form PnDTnHnMn.nS, such as P3D or PT1H30M")
    milliseconds = sum(float(value.replace(",", ".")) * _MILLISECONDS[unit] for unit, value in parts.items())
    if milliseconds < 0:
        raise ConfigError(f"The duration {text!r} is negative; it says how far back to go, so it must not be")
    return int(milliseconds)
