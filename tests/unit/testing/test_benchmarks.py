"""What stands in benchmarks/ must at least start: nobody notices otherwise until a figure is wanted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_what_it_measures_and_how_to_run_it(name: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert said.returncode == 0, said.stderr
    assert f"usage: ./run bench {name} " in said.stdout
