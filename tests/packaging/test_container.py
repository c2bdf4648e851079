"""The container: built, started with Kafka's variables, and used through its port. Needs a container engine."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE, CONTAINER = "barnabas-of-the-tests", "barnabas-of-the-tests"


def engine() -> str | None:
    """The container engine that answers here."""
    for name in ("docker", "podman"):
        if shutil.which(name) and subprocess.run([name, "info"], capture_output=True, timeout=60).returncode == 0:
            return name
    return None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_container_serves_records() -> None:
    program = engine()
    if program is None:
        pytest.skip("no container engine answers here")

    def run(*arguments: str, **more: object) -> str:
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=600, **more)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    run("build", "-q", "-t", IMAGE, "-f", str(ROOT / "Containerfile"), str(ROOT))
    run("run", "-d", "--rm", "--name", CONTAINER, "-e", "KAFKA_NUM_PARTITIONS=3", IMAGE)
    try:
        inside = ("exec", "-i", CONTAINER, "barnabas")
        deadline = time.monotonic() + 60
        while subprocess.run([program, *inside, "cluster"], capture_output=True).returncode:
            assert time.monotonic() < deadline, run("logs", CONTAINER)
            time.sleep(0.5)
        run(*inside, "produce", "news", input="hello\n")
        assert run(*inside, "consume", "news", "--exit") == "hello\n"
        assert "3" in run(*inside, "topic", "list")
    finally:
        run("rm", "-f", CONTAINER)
