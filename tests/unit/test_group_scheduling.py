"""Tests that share what is dear run one after the other in one process (`tests/support/group_scheduling.py`)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.group_scheduling import _FILES, group_of

ROOT = Path(__file__).parents[2]
LIGHT = ("tests/unit/console/test_attempts.py", "tests/unit/console/test_sessions.py")


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/unit/test_types.py::test_a[apache-kafka]", "tests/unit/test_types.py"),
        ("tests/contract/test_cli.py::test_a[barnabas]", "tests/contract/test_cli.py"),
        ("tests/contract/test_cli.py::test_a[apache-kafka]", "apache-kafka"),
        ("tests/contract/test_cli.py::test_a[apache-kafka-/api/acls]", "apache-kafka"),
        ("tests/contract/test_admin_controllers.py::test_a", "apache-kafka"),
        ("tests/contract/test_local_zookeeper.py::test_a", "zookeeper"),
        ("tests/spark/test_source.py::test_a", "spark"),
        ("tests/interop/test_franz_go.py::test_a", "interop"),
    ],
)
def test_a_test_goes_with_those_that_share_what_it_needs(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_files_that_are_named_are_there() -> None:
    assert [file for file in _FILES if not (ROOT / file).exists()] == []


def test_each_file_runs_in_one_process() -> None:
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadgroup", *LIGHT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.findall(r"^\[(gw\d)\] .* PASSED (\S+?)::", done.stdout, re.MULTILINE)
    assert len(found) > 10
    assert len({*found}) == len(LIGHT)
