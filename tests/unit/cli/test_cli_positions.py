"""Places in a topic: offsets, distances from the ends, times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.output import time_text
from barnabas.client.position_syntax import (
    BEGINNING,
    END,
    OFFSET,
    TIME,
    Position,
    Range,
    parse_position,
    parse_time,
    resolve,
)
from barnabas.errors import IllegalArgumentError

NOW = 1_700_000_000_000
JUNE = 1_370_088_000_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", Position(BEGINNING)),
        ("earliest", Position(BEGINNING)),
        ("end", Position(END)),
        ("latest", Position(END)),
        ("120", Position(OFFSET, 120)),
        ("+10", Position(BEGINNING, 10)),
        ("-10", Position(END, -10)),
        ("end-3", Position(END, -3)),
        ("beginning+3", Position(BEGINNING, 3)),
        ("-5m", Position(TIME, NOW - 300_000)),
        ("-250ms", Position(TIME, NOW - 250)),
        ("-2w", Position(TIME, NOW - 1_209_600_000)),
        ("now", Position(TIME, NOW)),
        ("@17", Position(TIME, 17)),
        ("2013-06-01T12:00", Position(TIME, JUNE)),
        ("2013-06-01T12:00Z", Position(TIME, JUNE)),
        ("2013-06-01T14:00:00.5+02:00", Position(TIME, JUNE + 500)),
        ("2013-06-01", Position(TIME, JUNE - 43_200_000)),
    ],
)
def test_a_place_is_an_offset_an_end_or_a_time(text: str, place: Position) -> None:
    assert parse_position(text, NOW) == place


@pytest.mark.parametrize("text", ["", "yesterday", "5m", "-5y", "-", "@x", "1e3", "2013-13-01", "9" * 30])
def test_anything_else_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(IllegalArgumentError, match="is no place in a topic; write an offset"):
        parse_position(text, NOW)


def test_a_time_before_1970_is_the_beginning_of_time() -> None:
    assert parse_time("-9999999w", NOW) == 0


@pytest.mark.parametrize(
    ("place", "at_time", "offset"),
    [
        (Position(BEGINNING), None, 100),
        (Position(BEGINNING, 5), None, 105),
        (Position(BEGINNING, 5000), None, 200),
        (Position(END), None, 200),
        (Position(END, -1), None, 199),
        (Position(END, -5000), None, 100),
        (Position(OFFSET, 150), None, 150),
        (Position(OFFSET, 0), None, 100),
        (Position(TIME, NOW), 160, 160),
        (Position(TIME, NOW), None, 200),
    ],
)
def test_a_place_becomes_an_offset_that_the_partition_has(place: Position, at_time: int | None, offset: int) -> None:
    assert resolve(place, Range(100, 200), at_time) == offset


@given(st.integers(min_value=0, max_value=253_402_300_799_999))
def test_a_time_that_is_shown_can_be_given_back(timestamp_ms: int) -> None:
    assert parse_time(time_text(timestamp_ms), NOW) == timestamp_ms
