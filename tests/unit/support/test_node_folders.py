"""What a failed test's nodes had is kept where that is asked for, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import node_folders
from tests.support.node_folders import FailureWatch, make_folder, remove_folder


@pytest.fixture(autouse=True)
def keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(node_folders.KEEP, str(tmp_path))
    monkeypatch.setattr(node_folders, "_failure", (float("-inf"), ""))
    return tmp_path


def note(failed: bool) -> None:
    report: Any = SimpleNamespace(failed=failed, nodeid="tests/contract/test_x.py::test_of[kill]")
    FailureWatch().pytest_runtest_logreport(report)


def kept(keep: Path) -> list[str]:
    return sorted(path.parent.name.rpartition("-")[0] for path in keep.glob("*/*"))


def test_a_failure_keeps_the_folders_of_the_nodes_that_were_there(keep: Path) -> None:
    folder = make_folder("node-")
    (folder / "node.log").write_text("what happened")
    note(failed=True)
    remove_folder(folder)
    assert kept(keep) == ["test-of-kill-"]
    assert next(keep.glob("*/*/node.log")).read_text() == "what happened"


def test_nodes_of_other_tests_leave_nothing(keep: Path) -> None:
    note(failed=True)
    later = make_folder("node-")
    note(failed=False)
    remove_folder(later)
    assert not later.exists()
    assert kept(keep) == []


def test_a_cluster_that_ends_before_the_report_is_kept_too(keep: Path) -> None:
    remove_folder(make_folder("node-"), failed=True)
    assert kept(keep) == ["failed"]


def test_without_the_setting_nothing_is_kept(keep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(node_folders.KEEP)
    folder = make_folder("node-")
    note(failed=True)
    remove_folder(folder)
    assert not folder.exists()
    assert kept(keep) == []
