"""kafkajs against our broker, through the program in tests/interop/node."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas import Broker
from tests.peers import foreign_programs


@pytest.fixture(scope="module")
def packages() -> Path:
    return foreign_programs.node_packages()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("scenario", ["group", "transactions", "admin"])
def test_scenario(broker: Broker, new_name: Callable[[str], str], packages: Path, scenario: str) -> None:
    command = ["node", str(Path(__file__).parent / "node" / "interop.js")]
    done = subprocess.run(
        [*command, broker.bootstrap_servers, scenario, new_name("kafkajs")],
        env={**os.environ, "NODE_PATH": str(packages / "node_modules")},
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
