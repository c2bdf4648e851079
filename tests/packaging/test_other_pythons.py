"""The wheel under Pythons that the machine does not have: built there, installed in an empty environment, used.

What is installed beside each wheel, and what runs with it, is what pyproject.toml has for cibuildwheel.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.peers.other_pythons import PYTHONS, inside, root_with

ROOT = Path(__file__).parents[2]


def settings(tag: str) -> dict[str, Any]:
    """What cibuildwheel does with the wheel of this tag."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert f"{tag}-*" in found["build"].split()
    for override in found["overrides"]:
        if override["select"] == f"{tag}-*":
            found |= override
    return found


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_compiled_wheel_works_under_another_python(python: str) -> None:
    root, program = root_with(python)
    work, tag = f"/tmp/barnabas-{python}", f"cp{python.replace('.', '')}"
    shutil.rmtree(root / work[1:], ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(root / work[1:] / "clone")], check=True)
    inside(root, program, "-m", "venv", f"{work}/builder")
    inside(root, f"{work}/builder/bin/pip", "wheel", "-q", "--no-deps", "-w", work, f"{work}/clone")
    (wheel,) = (root / work[1:]).glob("*.whl")
    assert f"-{tag}-linux" in wheel.name, "compiled, for this Python"

    found, empty = settings(tag), f"{work}/empty/bin"
    extras = ",".join(found["test-extras"])
    inside(root, program, "-m", "venv", f"{work}/empty")
    inside(root, f"{empty}/pip", "install", "-q", f"barnabas[{extras}] @ file://{work}/{wheel.name}")
    inside(root, f"{empty}/python", f"{work}/clone/tests/packaging/round_trip.py")
    if found["test-requires"]:
        inside(root, f"{empty}/pip", "install", "-q", *found["test-requires"])
    command = shlex.split(found["test-command"].format(project=f"{work}/clone"))
    inside(root, f"{empty}/{command[0]}", *command[1:])
