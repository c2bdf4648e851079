"""The folders of nodes that tests start: removed when their cluster ends, or kept where a test has failed.

`BARNABAS_KEEP_NODES=folder` moves there what the nodes of a failed test had: logs, settings and data. A failure that
comes once in many runs is told by nothing else.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

KEEP = "BARNABAS_KEEP_NODES"
_made_at: dict[Path, float] = {}
#: When a test has failed last in this process, in monotonic seconds, and which one.
_failure: tuple[float, str] = (float("-inf"), "")


def make_folder(prefix: str) -> Path:
    """Make a folder for a node's files."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    _made_at[folder] = time.monotonic()
    return folder


def remove_folder(folder: Path, *, failed: bool = False) -> None:
    """Remove a node's folder; with `BARNABAS_KEEP_NODES`, keep it where a test has failed since it was made.

    `failed` tells so where the test's report is still to come.
    """
    made_at = _made_at.pop(folder, float("inf"))
    keep = os.environ.get(KEEP)
    if keep and folder.exists() and (failed or _failure[0] > made_at):
        name = _failure[1] if _failure[0] > made_at else "failed"
        place = Path(keep) / f"{name}-{os.getpid()}"
        place.mkdir(parents=True, exist_ok=True)
        shutil.move(str(folder), place / folder.name)
    else:
        shutil.rmtree(folder, ignore_errors=True)


class FailureWatch:
    """A pytest plugin that notes when a test has failed."""

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure before the fixtures of its test end."""
        global _failure
        if report.failed:
            _failure = time.monotonic(), "".join(c if c.isalnum() else "-" for c in report.nodeid.rpartition("::")[2])
