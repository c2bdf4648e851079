"""The page of what surveys have found names, for each finding, a test that is there, or why there is none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "internals" / "findings.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| finding |", "| class |"))
]
#: How the second column of a row begins that has no test.
LEFT = "left: "


def names_in(path: Path) -> set[str]:
    """The names of a file's tests, those of classes included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in found if node.name.startswith("test_")}


def test_the_page_has_rows() -> None:
    assert len(ROWS) > 70
    assert {len(row) for row in ROWS} == {2}


@pytest.mark.parametrize(("finding", "holders"), ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_finding_is_held_by_a_test_that_is_there_or_says_why_not(finding: str, holders: str) -> None:
    if holders.startswith(LEFT):
        assert len(holders) > len(LEFT) + 20, "a row without a test says why"
        return
    for holder in holders.split(", "):
        named = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)", holder)
        assert named, f"{holder!r} is no test"
        assert (ROOT / named[1]).is_file(), holder
        assert named[2] in names_in(ROOT / named[1]), holder
