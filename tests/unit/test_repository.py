"""What is committed: sources and data, nothing that a command has left behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Folder or file at the top → what it is for stands in ARCHITECTURE.md, README.md or CONTRIBUTING.md.
TOP = {
    ".ci",
    ".dockerignore",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Containerfile",
    "LICENSE",
    "README.md",
    "benchmarks",
    "codegen",
    "docs",
    "examples",
    "pyproject.toml",
    "run",
    "setup.py",
    "src",
    "stubs",
    "tests",
    "tools",
}
#: Endings of what packagers, compilers and programs make.
MADE = (".whl", ".jar", ".so", ".pyd", ".pyc", ".class", ".o", ".db", ".log", ".tar", ".tar.gz", ".zip")
#: Above this a file wants a reason; the largest are vectors and Kafka's schema.
MOST_BYTES = 500_000


@pytest.fixture(scope="module")
def committed() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name]


def test_the_top_holds_what_belongs_there(committed: list[Path]) -> None:
    assert {path.parts[0] for path in committed} <= TOP


def test_nothing_that_a_command_makes_is_committed(committed: list[Path]) -> None:
    assert [path for path in committed if path.name.endswith(MADE)] == []


def test_no_file_is_large(committed: list[Path]) -> None:
    there = [path for path in committed if (ROOT / path).is_file()]
    assert [path for path in there if (ROOT / path).stat().st_size > MOST_BYTES] == []
