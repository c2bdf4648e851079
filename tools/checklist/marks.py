"""What the tests say that they show: the `shows` marks of the collected suite, and the lines of the checklist."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CHECKLIST = ROOT / "docs" / "internals" / "CHECKLIST.md"
STATES = ROOT / "docs" / "internals" / "checklist-states.json"
LINE = re.compile(r"^(S\d)\.(\d+) (.*)")


class Show(NamedTuple):
    """One test that shows one line, and the function whose breaking must make it fail."""

    line: str
    test: str
    breaks: str


class ShowsCollector:
    """A pytest plugin that gathers the `shows` marks of the collected tests, and the cases that carry each."""

    def __init__(self) -> None:
        self.cases: defaultdict[Show, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Read every mark; a parametrised test counts once."""
        for item in items:
            test = item.nodeid.partition("[")[0]
            for marker in item.iter_markers("shows"):
                for line in marker.args:
                    self.cases[Show(line, test, marker.kwargs.get("breaks", ""))].append(item.nodeid)


def read_lines() -> dict[str, str]:
    """Every line of the checklist: its number and its text."""
    found = (LINE.match(line) for line in CHECKLIST.read_text(encoding="utf-8").splitlines())
    return {f"{match[1]}.{match[2]}": match[3] for match in found if match}


@contextmanager
def quiet() -> Iterator[None]:
    """Let pytest print nothing."""
    saved = sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as sink:
        sys.stdout = sink
        try:
            yield
        finally:
            sys.stdout = saved


def collect_shows() -> dict[Show, list[str]]:
    """Collect the suite without running it: each mark, and the ids of its cases.

    Ends the program when the collection fails.
    """
    collector = ShowsCollector()
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "--no-header", str(ROOT / "tests")]
    with quiet():
        status = pytest.main(arguments, plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(
            f"checklist: the suite could not be collected (pytest ended with {status!r}); run ./run test to see why"
        )
    return dict(collector.cases)
