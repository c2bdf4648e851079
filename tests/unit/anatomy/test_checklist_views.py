"""Which view shows each line of the checklist that a picture of the documents is about; or why no view does.

A row: the lines, the scene, and the events by which one sees it (`:API` of a request); or `-` and what the lines are
about instead. `record` is what happens once for each record, and is never told; `error` what only the caller gets.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.anatomy import recording
from barnabas.anatomy.events import EVENTS, RequestInFlight, RequestReceived, RequestUnsent
from barnabas.anatomy.film import subjects
from barnabas.anatomy.scenes import SCENES
from tests.unit.anatomy.test_scenes import run

__all__ = ["run"]

CHECKLIST = Path("docs/internals/CHECKLIST.md")
#: The sections of the producer's, the consumer's and the group's pictures.
RANGES = (("S1", 8, 83), ("S2", 15, 33), ("S2", 39, 47), ("S3", 35, 53), ("S4", 1, 42))
NOT_SHOWN = {"record", "setting", "error", "history", "slip", "application", "construction", "advice", "picture"}

VIEWS = """
S1.8                group     RequestInFlight:JOIN_GROUP GroupMemberJoined
S1.9                group     RequestInFlight:JOIN_GROUP
S1.10 S1.12-14      group     GroupMemberJoined
S1.11               group     RequestInFlight:HEARTBEAT MemberState
S1.15 S1.17         -         setting
S1.16               group     GroupState
S1.18               group     MemberAssigned
S1.19               -         slip
S1.20               -         history
S1.21 S1.23         -         setting
S1.22 S1.24 S1.30   group     GroupMemberJoined
S1.25               group     GroupMemberJoined GroupMemberLeft GroupState
S1.26               group     MemberState MemberAssigned
S1.27               -         advice
S1.28               group     RequestInFlight:LEAVE_GROUP
S1.29               group     GroupMemberLeft
S1.31               group     GroupMemberLeft GroupMemberJoined
S1.32               group     MemberAssigned
S1.33 S1.35         -         setting
S1.34               -         application
S1.36               -         slip
S1.37               -         history
S1.38               -         record
S1.39               group     GroupState
S1.40               consumer  RequestInFlight:HEARTBEAT MemberAssigned
S1.41 S1.52         consumer  RequestUnsent:FETCH RequestInFlight:FETCH
S1.42 S1.47         exchange  RequestInFlight:METADATA RequestReceived:METADATA
S1.43 S1.57         consumer  FetchCompleted
S1.44               consumer  PositionMoved OffsetCommitted MemberAssigned
S1.45               -         construction
S1.46               consumer  RequestUnsent:FIND_COORDINATOR RequestUnsent:FETCH RequestUnsent:OFFSET_COMMIT
S1.48               group     RequestInFlight:FIND_COORDINATOR
S1.49               consumer  OffsetCommitted
S1.50 S1.59-60      consumer  RequestUnsent
S1.51 S1.56         consumer  RequestCompleted
S1.53               consumer  FetchCompleted PositionMoved
S1.54               consumer  RequestInFlight:FETCH
S1.55               -         construction
S1.58               consumer  FetchDrained PollLeft
S1.61 S1.74         consumer  RequestAnswered
S1.62               consumer  RequestAnswered RequestCompleted
S1.63               exchange  ResponseSent
S1.64               consumer  PollEntered RequestUnsent:FETCH PollLeft
S1.65 S1.67-68      consumer  RequestInFlight
S1.66               consumer  RequestInFlight RequestAnswered RequestCompleted
S1.69 S1.72-73      consumer  RequestInFlight RequestAnswered
S1.70               exchange  RequestInFlight RequestReceived ResponseSent RequestAnswered
S1.71               producer  RequestAnswered
S1.75               consumer  RequestUnsent RequestInFlight
S1.76-77            consumer  RequestCompleted
S1.78               consumer  PollEntered RequestCompleted
S1.79               consumer  FetchDrained PositionMoved
S1.80               consumer  PollLeft
S1.81               consumer  RequestCompleted FetchCompleted PollLeft
S1.82               exchange  RequestReceived
S1.83               -         picture
S2.15               group     RequestInFlight:FIND_COORDINATOR
S2.16               group     RequestInFlight:JOIN_GROUP
S2.17               group     GroupState
S2.18               group     RequestInFlight:SYNC_GROUP
S2.19               group     RequestInFlight:SYNC_GROUP MemberAssigned
S2.20 S2.22         consumer  FetchCompleted PositionMoved
S2.21               group     RequestInFlight:OFFSET_FETCH
S2.23               consumer  RequestUnsent:LIST_OFFSETS
S2.24-25            consumer  FetchCompleted
S2.26               -         error
S2.27-28            group     RequestInFlight:HEARTBEAT
S2.29 S2.31 S2.33   -         setting
S2.30               group     GroupMemberLeft
S2.32               consumer  PollEntered MemberState
S2.39               consumer  MemberAssigned PositionMoved
S2.40               consumer  FetchDrained PollLeft
S2.41 S2.43         consumer  RequestUnsent:FETCH
S2.42               consumer  FetchCompleted PollLeft
S2.44-45            exchange  RequestParked ResponseSent
S2.46               exchange  ResponseSent
S2.47               consumer  FetchCompleted
S3.35 S3.53         -         application
S3.36               -         slip
S3.37               producer  BatchOpened
S3.38               producer  BatchDrained RequestInFlight:PRODUCE
S3.39 S3.43         producer  BatchFilled BatchDrained
S3.40               producer  BatchDrained BatchEnded
S3.41               -         error
S3.42 S3.46         producer  StickyPartition
S3.44 S3.49         -         history
S3.45               -         record
S3.47-48            producer  BatchDrained
S3.50               producer  StickyPartition BatchDrained
S3.51-52            producer  BatchEnded
S4.1                producer  StickyPartition BatchOpened BatchDrained RequestInFlight:PRODUCE
S4.2 S4.18          producer  BatchDrained
S4.3                -         construction
S4.4                exchange  RequestInFlight:METADATA
S4.5 S4.8-9 S4.17   -         record
S4.6-7 S4.11        -         setting
S4.10 S4.12 S4.14   producer  StickyPartition
S4.13 S4.15         -         history
S4.16               producer  StickyPartition BatchDrained
S4.19-20            -         record
S4.21               producer  MemoryUsed
S4.22               -         error
S4.23-24 S4.26      producer  BatchOpened
S4.25 S4.27         producer  BatchFilled
S4.28 S4.32         producer  BatchOpened BatchDrained
S4.29-31            producer  BatchOpened
S4.33-41            producer  BatchDrained
S4.42               producer  BatchDrained RequestInFlight:PRODUCE
"""


def rows() -> list[tuple[list[str], str, list[str]]]:
    """Lines, scene and events of each row."""
    found = []
    for row in VIEWS.strip().splitlines():
        words = row.split()
        start = next(n for n, word in enumerate(words) if not re.fullmatch(r"S\d\.\d+(-\d+)?", word))
        lines = [line for word in words[:start] for line in spread(word)]
        found.append((lines, words[start], words[start + 1 :]))
    return found


def spread(word: str) -> list[str]:
    """The lines of `S1.12-14`."""
    section, _, numbers = word.partition(".")
    first, _, last = numbers.partition("-")
    return [f"{section}.{number}" for number in range(int(first), int(last or first) + 1)]


def test_every_line_of_the_pictures_has_a_view_or_a_reason() -> None:
    there = set(re.findall(r"^(S\d\.\d+) ", CHECKLIST.read_text(encoding="utf-8"), re.MULTILINE))
    wanted = {f"{section}.{n}" for section, first, last in RANGES for n in range(first, last + 1)} & there
    named = [line for lines, *_ in rows() for line in lines]

    assert len(wanted) == 165
    assert sorted(named) == sorted(wanted), "each line once"
    for _, scene, words in rows():
        assert scene in SCENES or (scene == "-" and set(words) <= NOT_SHOWN)
        assert scene == "-" or {word.partition(":")[0] for word in words} <= EVENTS.keys()


@pytest.mark.parametrize("scene", sorted({scene for _, scene, _ in rows()} - {"-"}))
def test_what_a_view_shows_a_line_by_is_told_and_taken_by_it(run: recording.Recording, scene: str) -> None:
    taken: set[str] = set()
    for subject in subjects(run.events)[scene]:
        playing = SCENES[scene](subject)
        for _, event in run.events:
            if playing.apply(event):
                taken.add(type(event).__name__)
                if isinstance(event, RequestUnsent | RequestInFlight | RequestReceived):
                    taken.add(f"{type(event).__name__}:{event.api}")

    assert {word for _, of, words in rows() if of == scene for word in words} - taken == set()
