"""Marks name functions that are there: whoever renames one learns it from the quick tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tools.checklist import names


def test_every_function_that_a_mark_breaks_is_there() -> None:
    assert names.dangling() == []


def test_most_marks_are_seen() -> None:
    found = [named for path in names.TESTS.rglob("*.py") for named in names.named_in(path)]

    assert len(found) > 300
    assert {named.place.split("/")[1] for named in found} >= {"unit", "contract", "spark"}


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("nowhere:x", "there is no module barnabas.nowhere"),
        ("network.selector:Selectro", "barnabas.network.selector defines no Selectro"),
        ("network.selector:Selector.pol", "Selector defines no pol"),
        ("network.selector:Selector.poll.x", "poll defines no x"),
        ("network.selector:Selector.poll", None),
    ],
)
def test_a_name_that_is_not_there_is_told(target: str, problem: str | None) -> None:
    assert names.complaint(f"barnabas.{target}") == problem


def test_names_are_found_however_they_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ROOT", tmp_path)
    test = tmp_path / "test_x.py"
    test.write_text(
        textwrap.dedent(
            """
            WHERE = "barnabas.a:B"
            NAMED = f"{WHERE}.c"

            @shows("S1.1", breaks=WHERE + ".d")
            @shows("S1.2", breaks=f"{NAMED}.e")
            @shows("S1.3", breaks="barnabas.f:g")
            def test(): ...
            """
        )
    )

    found = [named.target.removeprefix("barnabas.") for named in names.named_in(test)]

    assert sorted(found) == ["a:B", "a:B.c", "a:B.c.e", "a:B.d", "f:g"]
