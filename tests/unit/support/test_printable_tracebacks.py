"""A failure whose traceback has an entry without a line is told as any other, and the run goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from tests.support.printable_tracebacks import mend

ROOT = Path(__file__).parents[3]
TESTS = """
from types import FunctionType

def raising(): return 1 // 0

code = raising.__code__
lineless = FunctionType(code.replace(co_linetable=bytes([0xFF]) * len(code.co_code)), globals())

def test_that_fails(): lineless()

def test_that_fails_in_the_context():
    try:
        lineless()
    except ZeroDivisionError:
        raise ValueError("while handling")

def test_that_fails_in_a_cause():
    try:
        lineless()
    except ZeroDivisionError as error:
        raise ValueError("told by another") from error

def test_that_fails_in_a_group():
    try:
        lineless()
    except ZeroDivisionError as error:
        raise ExceptionGroup("two", [error, ValueError()]) from None

def test_that_passes(): ...
"""


def _raising() -> None:
    raise RuntimeError("no line")


# 0xFF: eight code units that belong to no line.
_code = _raising.__code__
_without_lines = FunctionType(_code.replace(co_linetable=bytes([0xFF]) * len(_code.co_code)), globals())


@pytest.mark.parametrize("style", ["auto", "native"])
def test_a_run_goes_on_after_a_failure_at_no_line(tmp_path: Path, style: str) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    plugin = ["-p", "tests.support.printable_tracebacks"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--tb={style}", *plugin, "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        timeout=60,
    )
    assert "4 failed, 1 passed" in done.stdout, done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert "ZeroDivisionError" in done.stdout


def test_the_first_line_of_the_function_stands_in_and_all_else_is_kept() -> None:
    if sys.gettrace() is not None:
        pytest.skip("a tracer, such as that which counts covered lines, ends the process at a line without a number")
    try:
        _without_lines()
    except RuntimeError as caught:
        error = caught
    before = error.__traceback__
    assert before is not None
    assert before.tb_next is not None
    line: int | None = before.tb_next.tb_lineno
    assert line is None
    # A circle, which has to come to an end as well.
    error.__context__ = ValueError()
    error.__context__.__context__ = error

    mend(error)

    after = error.__traceback__
    assert after is not None
    assert after.tb_next is not None
    assert (after.tb_lineno, after.tb_frame) == (before.tb_lineno, before.tb_frame)
    assert after.tb_next.tb_lineno == _raising.__code__.co_firstlineno
    assert after.tb_next.tb_frame is before.tb_next.tb_frame
    assert after.tb_next.tb_next is None
