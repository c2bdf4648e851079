"""The container: built, started with Kafka's variables, used through its port. Needs a container engine, or buildah.

buildah builds and runs without a daemon, and without namespaces in a chroot. Where no registry can be reached,
BARNABAS_CONTAINER_BASE names an image of this machine to build on (`Containerfile`, `BASE`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

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

    command(program, "build", "-q", *base(), "-t", IMAGE, "-f", str(ROOT / "Containerfile"), str(ROOT))
    command(program, "run", "-d", "--rm", "--name", CONTAINER, "-e", "KAFKA_NUM_PARTITIONS=3", IMAGE)
    try:
        serves_records(program, ("exec", "-i", CONTAINER, "barnabas"), "localhost:9092")
    finally:
        command(program, "rm", "-f", CONTAINER)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_image_serves_records_in_a_chroot(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("buildah"):
        pytest.skip("no buildah here")
    if not base() and engine() is None:
        pytest.skip("no registry is known to be reachable: BARNABAS_CONTAINER_BASE names an image of this machine")
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    monkeypatch.setenv("STORAGE_DRIVER", "vfs")
    # In the format of OCI an image has no HEALTHCHECK.
    command(
        "buildah", "bud", "-q", "--format", "docker", *base(), "-t", IMAGE, "-f", str(ROOT / "Containerfile"), str(ROOT)
    )
    container = command("buildah", "from", IMAGE).strip()
    image: dict[str, Any] = json.loads(command("buildah", "inspect", container))["Docker"]["config"]
    assert image["User"] == "barnabas"
    assert image["Healthcheck"]["Test"][0] == "CMD"
    # A chroot shares the machine's network, whose port 9092 may be taken.
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = (f"KAFKA_LISTENERS=PLAINTEXT://{address}", f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://{address}")
    variables = [word for setting in (*settings, "KAFKA_NUM_PARTITIONS=3") for word in ("--env", setting)]
    broker = subprocess.Popen(["buildah", "run", *variables, container, "--", *image["Entrypoint"], *image["Cmd"]])
    try:
        serves_records("buildah", ("run", container, "--", "barnabas"), address)
    finally:
        broker.terminate()
        broker.wait(60)
        command("buildah", "rm", container)


def command(program: str, *arguments: str, **more: object) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def base() -> tuple[str, ...]:
    image = os.environ.get("BARNABAS_CONTAINER_BASE")
    return ("--build-arg", f"BASE={image}") if image else ()


def serves_records(program: str, inside: tuple[str, ...], address: str) -> None:
    """The broker in the container takes records and gives them back; `inside` runs `barnabas` there."""
    deadline = time.monotonic() + 60
    while subprocess.run([program, *inside, "cluster", "-b", address], capture_output=True).returncode:
        assert time.monotonic() < deadline, "the broker in the container did not answer within a minute"
        time.sleep(0.5)
    command(program, *inside, "produce", "-b", address, "news", input="hello\n")
    assert command(program, *inside, "consume", "-b", address, "news", "--exit", "-f", r"%s\n") == "hello\n"
    assert "3" in command(program, *inside, "topic", "list", "-b", address)
