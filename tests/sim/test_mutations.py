"""Faults that are planted are found; all of them by `./run sim --mutations`, a few here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas.testing.simulator import mutations
from barnabas.testing.simulator.planted_faults import MUTATIONS, SHORT


def hunt(which: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "barnabas.testing.simulator", "--mutations", which],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(900)
def test_the_short_list_of_faults_is_found() -> None:
    run = hunt("short")

    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == len(SHORT)


def test_a_seed_that_cannot_be_played_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert not mutations.hunt(SHORT[0], 1, 1, 1, "--faults", "a kind that is not there")
    assert "NOT FOUND" in (said := capsys.readouterr().out)
    assert "no such kinds of faults here" in said


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_fault_is_found() -> None:
    run = hunt("all")

    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == len(MUTATIONS)
