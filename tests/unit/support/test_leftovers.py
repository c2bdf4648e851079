"""The check of `tests/support/leftovers.py` names the test that leaves something behind, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CONFTEST = """
from tests.support.leftovers import Leftovers

def pytest_configure(config):
    config.pluginmanager.register(Leftovers())
"""
TESTS = """
import gc, logging, os, socket, sys, threading
import pytest

kept = []

@pytest.fixture(scope="module")
def of_the_module():
    pair = socket.socketpair()
    yield
    for one in pair:
        one.close()

def test_uses_what_the_module_keeps(of_the_module): ...
def test_environment(): os.environ["LEFT"] = "1"
def test_environment_put_back(monkeypatch): monkeypatch.setenv("NOT_LEFT", "1")
def test_directory(): os.chdir("/")
def test_root_logger(): logging.getLogger().setLevel(logging.DEBUG)
def test_our_logger(): logging.getLogger("barnabas.x").addHandler(logging.NullHandler())
def test_collector(): gc.disable()
def test_thread(): threading.Thread(target=threading.Event().wait, name="mine", daemon=True).start()
def test_socket(): kept.append(socket.socket())
def test_thread_that_ends(): threading.Timer(0.2, lambda: None).start()
def test_leaves_nothing(): ...
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("suite")
    (place / "tests" / "unit").mkdir(parents=True)
    (place / "conftest.py").write_text(CONFTEST)
    (place / "tests" / "unit" / "test_x.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(place), "-p", "no:cacheprovider", "-rE"]
    run = subprocess.run(
        [*command, "tests/unit/test_x.py"],
        cwd=place,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("test", "what"),
    [
        ("test_environment", "os.environ: LEFT: None -> '1'"),
        ("test_directory", "the working directory"),
        ("test_root_logger", "loggers: root"),
        ("test_our_logger", "loggers: barnabas.x"),
        ("test_collector", "the garbage collector: (True"),
    ],
)
def test_a_changed_state_is_told_with_the_test_that_changed_it(said: str, test: str, what: str) -> None:
    part = said.partition(f"ERROR at teardown of {test} ")[2].partition("ERROR at teardown")[0]

    assert what in part, said


def test_threads_and_sockets_are_told_where_the_file_ends_with_the_test_they_came_from(said: str) -> None:
    part = said.partition("ERROR at teardown of test_leaves_nothing ")[2]

    assert "thread mine, first seen after tests/unit/test_x.py::test_thread\n" in part, said
    assert "(socket:" in part
    assert "::test_socket\n" in part
    assert len([line for line in part.splitlines() if "first seen after" in line]) == 2


def test_what_is_put_back_or_ends_by_itself_is_no_error(said: str) -> None:
    assert "11 passed, 6 errors" in said, said
