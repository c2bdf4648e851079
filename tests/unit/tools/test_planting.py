"""What a verification plants: functions that raise, that answer otherwise, and that do nothing."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.append(str(Path(__file__).parents[2] / "hooks"))

import planting


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Pair(NamedTuple):
    first: int
    second: str


class Thing:
    __slots__ = ("name", "parts")

    def __init__(self, name: str, parts: list[int]) -> None:
        self.name = name
        self.parts = parts


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        (True, False),
        (3, 4),
        (1.5, 2.5),
        ("abc", "bc"),
        ("", "wrong"),
        (b"abc", b"bc"),
        ([1, 2], [2]),
        ({"a": 1, "b": 2}, {"b": 2}),
        (Colour.RED, Colour.BLUE),
        (Pair(1, "ab"), Pair(2, "b")),
        ((1, None), (2, None)),
    ],
)
def test_a_wrong_answer_is_another_one_of_the_same_type(answer: Any, other: Any) -> None:
    assert planting.other_than(answer) == other
    assert type(planting.other_than(answer)) is type(answer)


def test_of_an_object_each_attribute_becomes_another_one_in_a_copy() -> None:
    thing = Thing("ab", [1, 2])

    other = planting.other_than(thing)

    assert (other.name, other.parts) == ("b", [2])
    assert (thing.name, thing.parts) == ("ab", [1, 2])


@pytest.mark.parametrize("answer", [None, [], {}, (), len, object()])
def test_what_has_no_other_value_is_told(answer: Any) -> None:
    with pytest.raises(planting.NoOtherAnswer):
        planting.other_than(answer)


class Asked:
    def __init__(self) -> None:
        self.done: list[str] = []

    def count(self) -> int:
        self.done.append("count")
        return 1

    def act(self) -> None:
        self.done.append("act")

    @staticmethod
    def names() -> list[str]:
        return ["a", "b"]

    @property
    def ready(self) -> bool:
        return True

    @functools.cached_property
    def size(self) -> int:
        return 7

    def each(self) -> Iterator[int]:
        yield 1
        yield 2

    async def later(self) -> int:
        return 5


def broken(name: str, how: str) -> Any:
    class Copy(Asked):
        pass

    setattr(Copy, name, vars(Asked)[name])
    if isinstance(vars(Asked)[name], functools.cached_property):
        fresh = functools.cached_property(vars(Asked)[name].func)
        fresh.__set_name__(Copy, name)
        setattr(Copy, name, fresh)
    planting.plant(Copy, name, f"x:{name}", how)
    return Copy()


def test_a_function_that_answers_wrongly_has_done_its_work() -> None:
    asked = broken("count", "wrong")

    assert asked.count() == 2
    assert asked.done == ["count"]


def test_a_function_that_answers_nothing_does_nothing() -> None:
    asked = broken("act", "wrong")

    assert asked.act() is None
    assert asked.done == []


def test_static_methods_properties_generators_and_coroutines_answer_wrongly() -> None:
    assert broken("names", "wrong").names() == ["b"]
    assert broken("ready", "wrong").ready is False
    assert broken("size", "wrong").size == 8
    assert list(broken("each", "wrong").each()) == [2]
    with pytest.raises(StopIteration) as ended:
        broken("later", "wrong").later().send(None)
    assert ended.value.value == 6


def test_a_function_that_does_nothing_answers_with_the_empty_value_of_its_type() -> None:
    asked = broken("count", "empty")

    assert asked.count() == 0
    assert asked.done == []
    assert broken("names", "empty").names() == []
    assert list(broken("each", "empty").each()) == []


def test_a_call_of_a_planted_function_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("BARNABAS_BREAK_LOG", str(log))
    asked = broken("count", "raise")

    with pytest.raises(planting.BrokenOnPurposeError, match="x:count was broken on purpose"):
        asked.count()

    assert log.read_text() == "altered\n"
