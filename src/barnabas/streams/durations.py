"""Durations as users give them, a timedelta, milliseconds or keywords, and as the engine keeps them: milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta

_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = 2**63 - 1

Duration = timedelta | int


def as_ms(duration: Duration, name: str) -> int:
    """Return a duration in whole milliseconds; an int is taken for milliseconds.

    Raises TypeError, naming the argument, for anything else than a timedelta or an int, ValueError for too long a time.
    """
    if isinstance(duration, timedelta):
        return duration // _MILLISECOND
    if isinstance(duration, int) and not isinstance(duration, bool):
        if abs(duration) > _LONGEST:
            raise ValueError(f"{name} is at most {_LONGEST} milliseconds, as Kafka counts them, not {duration}")
        return duration
    raise TypeError(
        f"{name} must be a timedelta or milliseconds as an int, not {type(duration).__name__}: {duration!r}"
    )


def point_ms(time: datetime | int, name: str) -> int:
    """Return a point in time as milliseconds since the epoch; an int is taken for that.

    Raises TypeError, naming the argument, for anything else than a datetime or an int, ValueError beyond 64 bits.
    """
    if isinstance(time, datetime):
        return round(time.timestamp() * 1000)
    if isinstance(time, int) and not isinstance(time, bool):
        return as_ms(time, name)
    raise TypeError(f"{name} is a datetime or milliseconds as an int, not {type(time).__name__}: {time!r}")


def given_ms(duration: Duration | None, name: str, units: dict[str, float]) -> int:
    """Return a duration that was given by position or by keywords (`hours=1`, `minutes=30`), not by both.

    Raises TypeError when there is none, or both; ValueError when keywords make no finite time.
    """
    if duration is not None:
        if units:
            raise TypeError(f"{name} is given twice: as {duration!r} and as {units}")
        return as_ms(duration, name)
    if not units:
        raise TypeError(f"{name} is missing: give a timedelta, milliseconds, or keywords such as minutes=5")
    try:
        return timedelta(**units) // _MILLISECOND
    except (OverflowError, ValueError) as problem:
        raise ValueError(f"{name} is no duration: {units}: {problem}") from problem
    except TypeError as problem:
        raise TypeError(
            f"{name} takes days, hours, minutes, seconds, milliseconds as keywords, not {units}"
        ) from problem
