"""What a type checker tells a user of the clients and of the DSL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import barnabas

ROOT = Path(__file__).parents[2]
#: Programs that a type checker must accept, but for the lines that end with `# refused`.
SAMPLES = [
    ROOT / "tests/unit/client/consumer/typed_clients.py",
    ROOT / "tests/unit/streams/dsl/typed_streams.py",
]


def test_types_of_keys_and_values_reach_a_users_code_and_its_mistakes_are_refused() -> None:
    # One run, with the settings and the cache of `./run lint`: the sources have been checked already.
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *SAMPLES], cwd=ROOT, capture_output=True, text=True, timeout=100
    )

    refused = {
        f"{path.name}:{number}"
        for path in SAMPLES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# refused")
    }
    assert set(re.findall(r"(\w+\.py:\d+): error", found.stdout)) == refused, found.stdout + found.stderr
    assert refused


def test_a_record_class_can_be_subscripted_at_run_time_too() -> None:
    assert str(barnabas.ConsumerRecord[str, int]).endswith("ConsumerRecord[str, int]")
