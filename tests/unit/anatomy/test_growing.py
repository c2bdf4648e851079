"""A recording that is still written: read on, its film and its subjects go on, and are those of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import Event
from barnabas.anatomy.film import KEYFRAME_STEPS, Film, Subjects, subjects
from barnabas.anatomy.recording import GrowingRecording, Recording
from barnabas.errors import IllegalArgumentError

TOLD: list[tuple[float, Event]] = [
    (float(number), e.BatchOpened(f"p{number % 3}", number, "t", number % 5)) for number in range(3 * KEYFRAME_STEPS)
]


def begun(path: Path, title: str = "one", events: list[tuple[float, Event]] | None = None) -> Path:
    with path.open("w") as stream:
        recording.write(stream, Recording(title, events or []))
    return path


@pytest.mark.parametrize("piece", [1, 7, KEYFRAME_STEPS, len(TOLD)])
def test_a_film_that_grows_by_pieces_is_the_film_of_the_whole(piece: int) -> None:
    whole, growing, known = Film(TOLD, "producer", "p1"), Film((), "producer", "p1"), Subjects()
    for end in range(piece, len(TOLD) + piece, piece):
        growing.extend(TOLD[:end])
        known.extend(TOLD[:end])

    assert len(growing) == len(whole) == KEYFRAME_STEPS
    assert [growing.step(n) for n in (0, 100, len(whole) - 1)] == [whole.step(n) for n in (0, 100, len(whole) - 1)]
    assert known.by_scene() == subjects(TOLD)


def test_only_what_is_new_is_read_and_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    path = begun(tmp_path / "one.jsonl", "one", TOLD[:3])
    growing = GrowingRecording(path)
    assert not growing.read_on()
    lines = [*recording.lines(TOLD[3:5])]
    with path.open("a") as stream:
        stream.write(lines[0] + lines[1][:-5])
    assert not growing.read_on()
    assert growing.recording.events == TOLD[:4]
    with path.open("a") as stream:
        stream.write(lines[1][-5:])
    growing.read_on()
    assert growing.recording == Recording("one", TOLD[:5])


@pytest.mark.parametrize("title", ["another", "one"])
def test_another_recording_in_its_place_is_read_from_its_beginning(tmp_path: Path, title: str) -> None:
    path = begun(tmp_path / "one.jsonl", "one", TOLD[:9])
    growing = GrowingRecording(path)
    growing.read_on()
    begun(path, title, TOLD[20:23])

    assert growing.read_on()
    assert growing.recording == Recording(title, TOLD[20:23])


def test_what_is_no_event_is_named_by_its_line_also_later(tmp_path: Path) -> None:
    path = begun(tmp_path / "one.jsonl", "one", TOLD[:3])
    growing = GrowingRecording(path)
    growing.read_on()
    with path.open("a") as stream:
        stream.write("nonsense\n")
    with pytest.raises(IllegalArgumentError, match="line 5"):
        growing.read_on()
