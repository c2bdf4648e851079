"""What a type checker tells a user of the clients."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import barnabas

SAMPLE = Path(__file__).with_name("typed_sample.py")


def test_a_users_code_sees_the_types_of_its_keys_and_values(tmp_path: Path) -> None:
    home = Path(barnabas.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}", SAMPLE]

    found = subprocess.run(command, capture_output=True, text=True, env={"MYPYPATH": str(home)}, timeout=100)

    assert found.returncode == 0, found.stdout + found.stderr


def test_a_record_class_can_be_subscripted_at_run_time_too() -> None:
    assert str(barnabas.ConsumerRecord[str, int]).endswith("ConsumerRecord[str, int]")
