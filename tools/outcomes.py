"""A pytest plugin: write down how each test ended, in the file that BARNABAS_OUTCOMES names, a JSON object a line.

An exit status says only that something failed; what failed, where, and why is what a verification has to know.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

TIMED_OUT = "Timeout ("


def write_outcome(report: pytest.TestReport, path: str) -> None:
    """Write a line for each phase of a test that says something: a failure, a skip, a test that was carried out."""
    if report.when != "call" and report.passed:
        return
    reason = ""
    outcome: str = report.outcome
    if report.skipped:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    elif report.failed:
        text = str(report.longrepr)
        reason = text.strip().splitlines()[-1][:200] if text.strip() else ""
        outcome = "timed out" if TIMED_OUT in text else f"failed in {report.when}"
    line = {"test": report.nodeid, "outcome": outcome, "reason": reason, "seconds": round(report.duration, 1)}
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def read_outcomes(path: str) -> list[dict[str, Any]]:
    """Return what was written there; nothing, if nothing was."""
    file = Path(path)
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """See pytest."""
    write_outcome(report, os.environ["BARNABAS_OUTCOMES"])
