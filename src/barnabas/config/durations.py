"""Durations as ISO-8601 writes them."""

from __future__ import annotations

import re
from typing import Final

from barnabas.errors import ConfigError

_MILLISECONDS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}
_DURATION = re.compile(
    r"P(?:(?P<days>[+-]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)


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
