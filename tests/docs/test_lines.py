"""The pages that say line by line what a part does name code and tests that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_findings import names_in

SOURCES = ROOT / "src" / "barnabas"


class Lines(NamedTuple):
    """A page; `base` is where its second column looks, `figures` the section of what was asked in numbers."""

    page: Path
    base: Path
    figures: str
    asked: int

    def rows(self, *, of_figures: bool) -> list[list[str]]:
        """Return the cells of its tables' rows."""
        found = []
        for section in self.page.read_text(encoding="utf-8").split("\n## ")[1:]:
            if section.startswith(self.figures) is of_figures:
                lines = [line for line in section.splitlines() if line.startswith("| ")]
                found += [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
        return found


PAGES = {
    "cluster": Lines(ROOT / "docs/internals/cluster-lines.md", SOURCES / "broker", "The race", asked=12),
    "streams": Lines(ROOT / "docs/internals/streams-lines.md", SOURCES, "Figures", asked=10),
}
ROWS = [(lines, row) for lines in PAGES.values() for row in lines.rows(of_figures=False)]


@pytest.mark.parametrize("lines", PAGES.values(), ids=PAGES.keys())
def test_a_page_has_rows_of_three_columns(lines: Lines) -> None:
    rows = lines.rows(of_figures=False)
    assert len(rows) > 30
    assert {len(row) for row in rows} == {3}


@pytest.mark.parametrize(("lines", "row"), ROWS, ids=[row[0][:60] for _, row in ROWS])
def test_a_line_names_its_code_and_a_test_that_is_there(lines: Lines, row: list[str]) -> None:
    _, where, shown = row
    for place in re.findall(r"`([^`]+)`", where):
        assert any((base / place).exists() for base in (ROOT, lines.base)), place
    holders = re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", shown)
    assert holders or shown == "the bench"
    for path, name in holders:
        assert (ROOT / path).is_file(), path
        assert name in names_in(ROOT / path), f"{path}::{name}"


@pytest.mark.parametrize("lines", PAGES.values(), ids=PAGES.keys())
def test_every_figure_says_whether_it_is_reached_and_names_a_benchmark_that_is_there(lines: Lines) -> None:
    figures = lines.rows(of_figures=True)
    assert len(figures) == lines.asked
    for asked, measured, by in figures:
        assert re.match(r"(reached|\*\*not|\*\*nearly)", measured), asked
        names = re.findall(r"`\./run bench (\w+)`", by)
        assert names or (by == "none" and "not measured" in measured), asked
        assert all((ROOT / "benchmarks" / f"{name}.py").is_file() for name in names), by
