"""The log of the long proofs: one section a day and commit, a row a part, the newest first."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tools import nightly
from tools.nightly import Ended, judge_tests, written


def ended(name: str, result: str = "3 passed") -> Ended:
    return Ended(name, True, result, 90.0, "")


def outcome(test: str, result: str, reason: str = "") -> str:
    return json.dumps({"test": f"tests/x.py::{test}", "outcome": result, "reason": reason, "seconds": 1.0})


def test_a_new_day_stands_before_the_days_before() -> None:
    page = written("", "2026-01-01, a", [ended("x")])

    page = written(page, "2026-01-02, b", [ended("x"), ended("y")])

    assert page.startswith(nightly.HEAD)
    assert page.index("## 2026-01-02, b") < page.index("## 2026-01-01, a")
    assert page.count("| `x` | 3 passed | 1.5 |  |") == 2


def test_a_part_that_is_run_again_replaces_its_row_and_no_other() -> None:
    page = written("", "2026-01-01, a", [ended("x", "1 failed"), ended("y")])

    page = written(page, "2026-01-01, a", [ended("x", "1 passed")])

    assert "1 failed" not in page
    assert page.count("## ") == 1
    assert [line[:6] for line in page.splitlines() if line.startswith("| `")] == ["| `x` ", "| `y` "]


def test_a_page_is_written_the_same_way_again() -> None:
    page = written(written("", "2026-01-01, a", [ended("x")]), "2026-01-02, b", [ended("y")])

    assert written(page, "2026-01-02, b", []) == page


def test_failures_and_what_was_missing_are_named() -> None:
    lines = [
        outcome("test_a", "passed"),
        outcome("test_b", "failed in call", "AssertionError: 1 == 2"),
        outcome("test_c", "skipped", "Skipped: Go is missing"),
    ]

    found = judge_tests("tests/x.py", 1, "\n".join(lines), 10.0)

    assert not found.is_good
    assert found.result == "FAILED: 1 passed, 1 failed, 1 skipped"
    assert found.remark == "test_b: AssertionError: 1 == 2; Go is missing"


def test_a_file_of_which_nothing_ran_did_not_pass() -> None:
    assert not judge_tests("tests/x.py", 0, outcome("test_a", "skipped", "Skipped: no Java"), 1.0).is_good
    assert judge_tests("tests/x.py", 2, "", 1.0).result == "could not be run"


def test_a_program_says_what_it_found() -> None:
    lines = ["seed 5 found:", "VIOLATION: a record twice", "6 seeds, 180 virtual seconds in 3.0 s"]

    assert nightly.summary(lines) == "VIOLATION: a record twice"
    assert nightly.summary(["2000 seeds, 1 virtual second", "  5  crashes"]) == "2000 seeds, 1 virtual second"
    assert nightly.summary([]) == ""


def test_a_part_whose_time_is_over_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    part = nightly.Part("x", ["bash", "-c", f"sleep 60 & echo $! > {pid}; wait"])

    found = nightly.run(part, tmp_path, 0.01)

    assert not found.is_good
    assert found.result == "FAILED"
    assert "unfinished" in found.remark
    eventually_gone(int(pid.read_text()))


def eventually_gone(pid: int) -> None:
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there")


def test_tests_that_passed_before_their_time_was_over_do_not_make_the_part_pass() -> None:
    found = judge_tests("tests/x.py", None, outcome("test_a", "passed"), 120.0)

    assert not found.is_good
    assert found.result == "FAILED: 1 passed"
    assert found.remark == "ended after 2 minutes, unfinished"


def test_a_part_that_is_named_exactly_is_run_alone() -> None:
    found = [nightly.Part(name, []) for name in ("tests/a.py", "tests/a.py, more", "tests/b.py")]

    def names(*texts: str) -> list[str]:
        return [part.name for part in nightly.chosen_of(found, list(texts))]

    assert names("tests/a.py") == ["tests/a.py"]
    assert names("a.p") == ["tests/a.py", "tests/a.py, more"]
    assert names("b.py", "tests/a.py") == ["tests/a.py", "tests/b.py"]
    assert names() == [part.name for part in found]


def test_results_of_several_machines_become_one_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "LOG", tmp_path / "nightly.md")
    monkeypatch.setattr(nightly, "parts", lambda: [nightly.Part("x", ["true"]), nightly.Part("y", ["false"])])
    monkeypatch.setattr(nightly, "title_now", lambda: "2026-01-02, b")
    kept = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for file, part, status in zip(kept, ("x", "y"), (0, 1), strict=True):
        monkeypatch.setattr("sys.argv", ["nightly", part, "--keep", str(file), "--output", str(tmp_path / "out")])
        assert nightly.main() == status
    assert not nightly.LOG.exists()

    monkeypatch.setattr("sys.argv", ["nightly", "--collect", *map(str, kept)])
    assert nightly.main() == 0

    page = nightly.LOG.read_text()
    assert page.count("## ") == 1
    assert [line.partition("` |")[2][:8] for line in page.splitlines() if line.startswith("| `")] == [
        " passed ",
        " FAILED ",
    ]


yaml = pytest.importorskip("yaml")


def test_each_part_of_the_workflow_has_its_own_job_and_less_than_six_hours() -> None:
    workflow = yaml.safe_load((nightly.ROOT / ".github" / "workflows" / "nightly.yml").read_text())
    job = workflow["jobs"]["long-proof"]
    assert job["strategy"]["matrix"]["part"] == "${{ fromJSON(needs.parts.outputs.names) }}"
    assert nightly.MINUTES_PER_PART < job["timeout-minutes"] < 360
