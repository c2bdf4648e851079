"""Recordings go through a file unchanged, and a file that is none is refused with its line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import anatomy
from barnabas.anatomy.events import EVENTS, BatchEnded, Event, NodeConnected
from barnabas.anatomy.recorder import Recorder
from barnabas.anatomy.recording import Recording, merged, read, write
from barnabas.errors import IllegalArgumentError

_VALUES = {str: st.text(max_size=20), int: st.integers(-(2**63), 2**63 - 1), float: st.floats(-1e9, 1e9)}


def any_event() -> st.SearchStrategy[Event]:
    return st.sampled_from(list(EVENTS.values())).flatmap(
        lambda kind: st.tuples(*(_VALUES[hint] for hint in kind.__annotations__.values())).map(kind._make)
    )


def written(recording: Recording) -> str:
    stream = io.StringIO()
    write(stream, recording)
    return stream.getvalue()


@given(st.lists(st.tuples(st.floats(0, 1e6).map(lambda at: round(at, 6)), any_event()), max_size=8), st.text())
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[float, Event]], title: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "recording.jsonl"
    path.write_text(written(Recording(title, events, 3)), encoding="utf-8")

    assert read(path) == Recording(title, events, 3)


GOOD = written(Recording("t", [(1.0, NodeConnected("c", 1, 2))]))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (1, "[]"),
        (1, '{"barnabas-anatomy": 99}'),
        (1, "no JSON"),
        (2, "no JSON"),
        (2, '{"a": 1}'),
        (2, '[1.0, "NoSuchEvent", 1]'),
        (2, '[1.0, "NodeConnected", "c", 1]'),
        (2, '[1.0, "NodeConnected", "c", 1, true]'),
        (2, '[1.0, "NodeConnected", "c", 1, "2"]'),
        (2, '["1", "NodeConnected", "c", 1, 2]'),
        (2, "[" * 100_000),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: int, text: str) -> None:
    lines = GOOD.splitlines()
    lines[line - 1] = text
    path = tmp_path / "broken.jsonl"
    path.write_text("\n".join(lines) + "\n")

    with pytest.raises(IllegalArgumentError, match=f"line {line}"):
        read(path)


def test_a_last_line_that_is_being_written_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "growing.jsonl"
    path.write_text(GOOD + '[2.0, "NodeConn')

    assert read(path).events == [(1.0, NodeConnected("c", 1, 2))]


def test_a_recorder_keeps_the_newest_events_and_counts_the_others() -> None:
    clock = iter(range(10))
    recorder = Recorder(lambda: float(next(clock)), capacity=2)
    for number in range(5):
        recorder.record(BatchEnded(number, "succeeded", 0, ""))

    assert recorder.lost == 3
    assert [(at, event.batch) for at, event in recorder.events() if isinstance(event, BatchEnded)] == [
        (3.0, 3),
        (4.0, 4),
    ]
    assert len(recorder.drain()) == 2
    assert (recorder.events(), recorder.lost) == ([], 3)


def test_an_objects_number_is_its_own_until_it_is_forgotten() -> None:
    recorder = Recorder()
    one, two = object(), object()

    assert (recorder.number_of(one), recorder.number_of(two), recorder.number_of(one)) == (1, 2, 1)
    assert recorder.forget(one) == 1
    assert recorder.number_of(one) == 3


def test_nothing_is_told_while_nothing_listens() -> None:
    assert anatomy.active is None
    recorder = Recorder()
    anatomy.start(recorder)
    try:
        assert anatomy.active is recorder
    finally:
        anatomy.stop()
    assert anatomy.active is None


def test_recordings_of_several_processes_are_one_whose_numbers_do_not_meet() -> None:
    one = Recording("a", [(1.0, BatchEnded(7, "succeeded", 0, "")), (4.0, NodeConnected("a", 3, 9))], 2)
    other = Recording("b", [(2.0, BatchEnded(7, "failed", 0, "")), (3.0, NodeConnected("b", 3, 9))], 1)
    found = merged([one, other])
    assert [at for at, _ in found.events] == [1.0, 2.0, 3.0, 4.0]
    assert found.lost == 3
    batches = [event.batch for _, event in found.events if isinstance(event, BatchEnded)]
    cores = {event.core for _, event in found.events if isinstance(event, NodeConnected)}
    assert (len(set(batches)), len(cores), batches[0]) == (2, 2, 7)
