"""Lessons: five stops for each scene, found in their order, and a sentence for each in both languages."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from barnabas.anatomy import events as e
from barnabas.anatomy import recording
from barnabas.anatomy.events import EVENTS, Event
from barnabas.anatomy.film import Film, subjects
from barnabas.anatomy.lessons import LESSONS, STOPS, stops_of
from barnabas.anatomy.scenes import SCENES
from tests.unit.anatomy.test_scenes import run

__all__ = ["run"]


def test_every_scene_has_a_lesson_whose_stops_there_are() -> None:
    assert LESSONS.keys() == SCENES.keys()
    for stops in LESSONS.values():
        assert len(stops) == STOPS
        for stop in stops:
            assert {*stop.fields, *stop.same} <= {*EVENTS[stop.event]._fields}


@pytest.mark.parametrize("language", ["en", "ko"])
def test_every_stop_has_a_sentence(language: str) -> None:
    texts = json.loads((files("barnabas.console") / "static" / "texts" / f"{language}.json").read_text("utf-8"))
    assert all(texts[f"lesson.{scene}.{number}"] for scene in LESSONS for number in range(1, STOPS + 1))


def test_in_a_whole_run_lessons_are_found_in_their_order(run: recording.Recording) -> None:
    whole = 0
    for scene, found in subjects(run.events).items():
        for subject in found:
            film = Film(run.events, scene, subject)
            stops = [number for number in film.lesson() if number is not None]
            assert stops == sorted(set(stops))
            whole += len(stops) == STOPS
            for number, stop in zip(film.lesson(), LESSONS[scene], strict=True):
                assert number is None or type(film.step(number).event).__name__ == stop.event
    assert whole >= 4


def test_a_stop_follows_the_same_batch_and_a_missing_one_is_passed_over() -> None:
    told: list[Event] = [
        e.BatchOpened("p", 1, "t", 0), e.BatchDrained("p", 9, "t", 1, 5, 1, 1, 0.0, 0, 0),
        e.BatchDrained("p", 1, "t", 0, 6, 1, 1, 0.0, 0, 0), e.RequestInFlight("p", 1, 5, "PRODUCE", 1, 9),
        e.RequestInFlight("p", 1, 6, "METADATA", 2, 9), e.BatchEnded(1, "succeeded", 0, ""),
    ]  # fmt: skip
    # The Produce to node 5 is not that of the batch, which goes to 6.
    assert stops_of("producer", [(0.0, event) for event in told]) == [0, 2, None, None, 5]
    assert stops_of("producer", []) == [None] * STOPS
