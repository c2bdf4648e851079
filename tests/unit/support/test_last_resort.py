"""A test that pytest-timeout cannot end ends all the same, with a traceback, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.support.last_resort import LastResort

def pytest_configure(config):
    config.pluginmanager.register(LastResort(grace=0.2))
"""
TESTS = """
import asyncio, time
import pytest

def wait_here():
    for _ in range(10_000):
        time.sleep(0.01)

def test_in_a_callback_of_an_event_loop():
    async def main():
        asyncio.get_running_loop().call_soon(wait_here)
        await asyncio.Event().wait()
    asyncio.run(main())

def test_where_everything_is_caught():
    while True:
        try:
            wait_here()
        except BaseException:
            continue

def test_in_c():
    sum(range(10**12))

def test_within_its_limit():
    time.sleep(0.1)
"""


def run(tmp_path: Path, name: str, limit: float) -> subprocess.CompletedProcess[str]:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_hangs.py").write_text(TESTS)
    options = ["-q", "--rootdir", str(tmp_path), "-p", "no:cacheprovider", f"--timeout={limit}", "-k", name]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_hangs.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("test_in_a_callback_of_an_event_loop", "in run_until_complete"),
        ("test_where_everything_is_caught", "in wait_here"),
        ("test_in_c", "in test_in_c"),
    ],
)
def test_what_the_time_limit_does_not_end_is_ended_and_told(tmp_path: Path, name: str, where: str) -> None:
    done = run(tmp_path, name, 0.3)

    assert done.returncode == 1
    assert "Timeout (0:00:00.5" in done.stderr
    assert where in done.stderr
    assert "passed" not in done.stdout


def test_others_are_left_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "test_within_its_limit", 5)

    assert (done.returncode, done.stderr) == (0, "")
    assert "1 passed" in done.stdout
