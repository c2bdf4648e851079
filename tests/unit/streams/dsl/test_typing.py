"""What a type checker tells a user of the DSL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import barnabas

SAMPLE = Path(__file__).with_name("typed_sample.py")


def test_types_of_keys_and_values_go_through_the_steps_and_mistakes_are_refused(tmp_path: Path) -> None:
    home = Path(barnabas.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", SAMPLE]

    found = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(home)}, timeout=100)

    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    refused = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert {int(line) for line in re.findall(r"typed_sample\.py:(\d+): error", found.stdout)} == refused, found.stdout
