"""Kafka's TopologyTestDriver as a program: it is given a case a line, and answers with a line for each."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any

from tests.peers import foreign_programs, jvm


def kafkas_answers(program: str, cases: list[dict[str, Any]]) -> list[Any]:
    """What a program of `java-streams-test-driver` makes of cases."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    # Drivers of one application lock one directory, and other tests run drivers at the same time.
    with tempfile.TemporaryDirectory() as folder:
        options = ["-Xmx512m", f"-Djava.io.tmpdir={folder}"]
        command = jvm.java(*options, "-cp", foreign_programs.test_driver_class_path(), program)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
