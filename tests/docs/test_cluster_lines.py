"""The page of what a cluster does names code and tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_findings import names_in

PAGE = ROOT / "docs" / "internals" / "cluster-lines.md"
HEADS = ("| what the cluster does |", "| what is proved |")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(HEADS)
]
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
