"""The fixtures that pytest gets from barnabas, and the code of docs/guide/testing.md, each in a pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "testing.md"


def run_pytest(folder: Path, code: str, *arguments: str) -> str:
    """The output of a pytest that must succeed."""
    (folder / "test_sample.py").write_text(code, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "barnabas.testing.plugin",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    output = run_pytest(tmp_path, "\n\n".join(blocks), "-W", "error")
    assert "3 passed" in output


def test_the_plugin_loads_nothing_of_barnabas_before_a_fixture_is_asked_for(tmp_path: Path) -> None:
    code = """
import sys

def test_loaded():
    assert sorted(n for n in sys.modules if n.startswith("barnabas")) == [
        "barnabas", "barnabas.testing", "barnabas.testing.plugin"
    ]
"""
    assert "1 passed" in run_pytest(tmp_path, code)
