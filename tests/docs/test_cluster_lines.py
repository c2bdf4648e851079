"""The page of what a cluster does names code and tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_findings import names_in

PAGE = ROOT / "docs" / "internals" / "cluster-lines.md"
RACE = "The race"


def _rows(is_race: bool) -> list[list[str]]:
    found = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        if section.startswith(RACE) is is_race:
            lines = [line for line in section.splitlines() if line.startswith("| ")]
            found += [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return found


ROWS, RACES = _rows(is_race=False), _rows(is_race=True)
BASES = (ROOT, ROOT / "src" / "barnabas" / "broker")


def test_the_page_has_rows_of_three_columns() -> None:
    assert len(ROWS) > 35
    assert {len(row) for row in ROWS} == {3}


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_line_names_its_code_and_a_test_that_is_there(row: list[str]) -> None:
    _, where, shown = row
    for place in re.findall(r"`([^`]+)`", where):
        assert any((base / place).exists() for base in BASES), place
    holders = re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", shown)
    assert holders or shown == "the bench"
    for path, name in holders:
        assert (ROOT / path).is_file(), path
        assert name in names_in(ROOT / path), f"{path}::{name}"


def test_every_figure_of_the_race_says_whether_it_is_reached_and_names_a_benchmark_that_is_there() -> None:
    assert len(RACES) == 12
    for asked, measured, by in RACES:
        assert re.match(r"(reached|\*\*not|\*\*nearly)", measured), asked
        names = re.findall(r"`\./run bench (\w+)`", by)
        assert names or (by == "none" and "not measured" in measured), asked
        assert all((ROOT / "benchmarks" / f"{name}.py").is_file() for name in names), by
