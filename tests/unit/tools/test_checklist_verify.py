"""Only a failure of the very test that carries a mark counts as having seen that its function is broken."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tools.checklist import names, verify
from tools.checklist.marks import Show
from tools.checklist.verify import Ended, Verdict, judge

SHOW = Show("S1.1", "test_x.py::test_one", ":".join(["barnabas.x", "f"]))


def ended(noted: str = "altered\n", **outcomes: list[str]) -> Ended:
    return Ended(outcomes, dict.fromkeys(outcomes, noted))


@pytest.mark.parametrize(
    ("run", "result"),
    [
        (ended(one=["failed in call"]), verify.CAUGHT),
        (ended(one=["failed in setup"]), verify.CAUGHT),
        (ended(one=["failed in call"], noted=""), verify.NOT_REACHED),
        (ended(one=["passed"]), verify.PASSES),
        (ended(one=["passed"], noted="called\n"), verify.UNALTERED),
        (ended(one=["timed out"]), verify.TIMED_OUT),
        (ended(one=["skipped"]), verify.NOT_RUN),
        (ended(other=["failed in call"]), verify.NOT_RUN),
        (ended(), verify.NOT_RUN),
    ],
)
def test_a_run_is_judged_by_how_the_marked_test_itself_ended(run: Ended, result: str) -> None:
    assert judge(run, ["one"]) == result


def test_of_a_parametrised_test_one_case_has_to_fail() -> None:
    assert judge(ended(a=["passed"], b=["failed in call"]), ["a", "b"]) == verify.CAUGHT


def test_a_complaint_names_line_test_function_and_way() -> None:
    found = verify.sentence(Verdict(SHOW, "wrong", verify.PASSES))

    assert found == f"S1.1: test_x.py::test_one passes when {SHOW.breaks} answers wrongly"


PROGRAM = """
import time

def double(x: int) -> int:
    return 2 * x

def is_over() -> bool:
    time.sleep(0.5)
    return True
"""
TESTS = """
import pytest
from program_under_test import double

@pytest.mark.shows("S1.1", breaks="program_under_test:double")
def test_good() -> None:
    assert double(2) == 4

@pytest.mark.shows("S1.2", breaks="program_under_test:double")
def test_that_only_calls() -> None:
    double(2)

@pytest.mark.shows("S1.3", breaks="program_under_test:double")
def test_that_never_calls() -> None:
    pass

@pytest.mark.shows("S1.4", breaks="program_under_test:double")
def test_that_fails_anyway() -> None:
    raise AssertionError
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with a program and its marked tests."""
    (tmp_path / "program_under_test.py").write_text(PROGRAM)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_program.py").write_text(TESTS)
    return tmp_path


def verified(suite: Path, *results: Path) -> list[str]:
    """Verifies the suite's marks in a process of its own, and gives the complaints."""
    run = subprocess.run(
        [sys.executable, "-c", RUNNER, str(suite), *map(str, results)],
        cwd=names.ROOT,
        env={**os.environ, "PYTHONPATH": str(suite)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    said = run.stdout.replace("program_under_test:double", "TARGET").replace(f"{suite}/", "")
    # Where the suite's root is depends on where the two folders are.
    said = re.sub(r"[\w./-]*test_program\.py", "test_program.py", said)
    return sorted(line for line in said.splitlines() if "test_" in line)


def test_a_suite_is_verified_by_breaking_what_its_marks_name(suite: Path) -> None:
    found = verified(suite)

    no_call = "fails, but the function was never called when TARGET"
    assert found == [
        "S1.2: test_program.py::test_that_only_calls passes when TARGET answers wrongly, or does nothing",
        "S1.3: test_program.py::test_that_never_calls passes when TARGET answers wrongly, or does nothing",
        "S1.3: test_program.py::test_that_never_calls passes when TARGET raises",
        f"S1.4: test_program.py::test_that_fails_anyway {no_call} answers wrongly",
        f"S1.4: test_program.py::test_that_fails_anyway {no_call} raises",
        "test_program.py::test_that_fails_anyway fails with nothing broken: failed in call",
    ]


RUNNER = """
import sys
import tools.checklist.verify
tools.checklist.verify.SECONDS_BROKEN = tools.checklist.verify.PATIENCE_SECONDS = 1
from pathlib import Path
from tools.checklist import names, verify
verify.ROOT = Path(sys.argv[1])
print("\\n".join(verify.verify(verify.Chosen(), 2, *map(Path, sys.argv[2:]), slow=False).complaints))
"""


def test_a_run_goes_on_where_one_with_the_same_results_was_ended(suite: Path) -> None:
    results = suite / "build" / "results.jsonl"
    whole = verified(suite, results)
    # Two runs at a time end in any order.
    kept = sorted(results.read_text().splitlines(keepends=True), key=lambda line: str(json.loads(line)["broken"]))
    assert [json.loads(line)["broken"] for line in kept] == ["", "as it is", "raise", "wrong"]

    # Ended while it wrote what became of the wrong answers: that run is made again, and no other.
    results.write_text("".join(kept[:3]) + kept[3][:20])
    assert set(verified(suite, results)) == set(whole)
    assert results.read_text().count('"raise"') == 1
    assert set(verified(suite, results)) == set(whole)

    results.write_text("".join(kept))
    (suite / "tests" / "test_program.py").write_text(TESTS.replace("double(2) == 4", "True"))
    assert verified(suite, results) == whole


def test_lines_are_chosen_by_name_or_by_section() -> None:
    chosen = verify.Chosen(("S2.1", "S4."))

    assert [line for line in ("S2.1", "S2.10", "S4.3", "S40.1") if chosen.has_line(line)] == ["S2.1", "S4.3"]
    assert verify.Chosen().has_line("S0.1")


#: With nothing broken it takes longer than with what raises, and has to be waited for all the same.
HANGING = """
import pytest
from program_under_test import is_over

@pytest.mark.shows("S1.5", breaks="program_under_test:is_over")
def test_that_waits() -> None:
    while not is_over():
        pass
"""


def test_a_test_that_hangs_when_broken_is_ended_by_how_long_it_takes_otherwise(
    suite: Path,
) -> None:
    (suite / "tests" / "test_program.py").write_text(HANGING)
    began = time.monotonic()

    (found,) = verified(suite)

    assert "test_that_waits ends by its time limit only when program_under_test:is_over answers wrongly" in found
    assert time.monotonic() - began < verify.SECONDS_UNBROKEN / 9


def test_a_test_that_needs_a_minute_on_a_loaded_machine_has_time_to_fail_by_itself() -> None:
    assert [verify.limit_when_broken(seconds) for seconds in (0.1, 10, 60)] == [45, 50, 200]
