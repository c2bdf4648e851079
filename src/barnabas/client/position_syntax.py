"""Places in a topic as people write them: offsets, distances from either end, and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.errors import IllegalArgumentError

BEGINNING, END, OFFSET, TIME = "beginning", "end", "offset", "time"

_EDGES = {"beginning": BEGINNING, "earliest": BEGINNING, "start": BEGINNING, "end": END, "latest": END}
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_RELATIVE = re.compile(r"-(\d+)(ms|[smhdw])")
_DISTANCE = re.compile(r"(beginning|earliest|start|end|latest)?([+-]\d+)")
_EXPECTED = (
    "an offset (120), beginning, end, +10 or -10 (from either end), a time (2013-06-01T12:00, UTC unless a zone "
    "follows), a time ago (-5m, -2h, -7d) or epoch milliseconds (@1370088000000)"
)


class Position(NamedTuple):
    """`kind` is BEGINNING or END (`value` records from it), OFFSET, or TIME (`value` in epoch ms)."""

    kind: str
    value: int = 0


class Range(NamedTuple):
    """The offsets that a partition has: from `first` to before `end`."""

    first: int
    end: int


def parse_time(text: str, now_ms: int) -> int | None:
    """Return a time in epoch milliseconds; None for what is no time."""
    relative = _RELATIVE.fullmatch(text)
    if relative:
        return max(0, now_ms - int(relative[1]) * _UNITS_MS[relative[2]])
    if text == "now":
        return now_ms
    if text.startswith("@") and text[1:].isdecimal():
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))


def parse_duration(text: str) -> float | None:
    """Return a time span such as `30s` in seconds; None for what is none."""
    found = _RELATIVE.fullmatch(f"-{text}")
    return int(found[1]) * _UNITS_MS[found[2]] / 1000 if found else None


def parse_position(text: str, now_ms: int) -> Position:
    """Return a place. Raises IllegalArgumentError that says what there is to choose from."""
    if text in _EDGES:
        return Position(_EDGES[text])
    if text.isdecimal() and len(text) < 19:
        return Position(OFFSET, int(text))
    distance = _DISTANCE.fullmatch(text)
    if distance:
        records = int(distance[2])
        edge = _EDGES[distance[1]] if distance[1] else (BEGINNING if records >= 0 else END)
        return Position(edge, records)
    moment = parse_time(text, now_ms)
    if moment is None:
        raise IllegalArgumentError(f"{text!r} is no place in a topic; write {_EXPECTED}")
    return Position(TIME, moment)


def resolve(position: Position, bounds: Range, at_time: int | None) -> int:
    """Return the offset of a place in a partition, within its bounds.

    `at_time` is the offset of the first record at the position's time or later; None when there is no such record.
    """
    if position.kind == TIME:
        return bounds.end if at_time is None else min(max(at_time, bounds.first), bounds.end)
    base = {BEGINNING: bounds.first, END: bounds.end, OFFSET: 0}[position.kind]
    return min(max(base + position.value, bounds.first), bounds.end)
