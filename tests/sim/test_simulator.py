"""The simulator finds nothing in many seeds, did a lot in them, and does the same again with the same seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: As many as the minima are asked of, and where they take least time; the nightly form plays two thousand.
FIRST, SEEDS = 8, 15


def simulate(
    *arguments: str, hash_seed: str = "random", timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-m", "barnabas.testing.simulator", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@pytest.mark.timeout(900)
def test_no_seed_finds_anything_and_much_happens() -> None:
    run = simulate("--seed", str(FIRST), "--seeds", str(SEEDS), "--jobs", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert f"{SEEDS} seeds" in run.stdout


@pytest.mark.parametrize("seed", ["3", "8"])
def test_the_same_seed_gives_the_same_run_in_another_process(seed: str) -> None:
    runs = [simulate("--seed", seed, "--history", "--verbose", hash_seed=hashes) for hashes in ("1", "2")]

    lines = [[line for line in run.stdout.splitlines() if " s of CPU" not in line] for run in runs]
    assert lines[0] == lines[1]
    assert any("digest" in line for line in lines[0])
    assert runs[0].returncode == 0


@pytest.mark.parametrize(("folder", "code"), [("with a space", 0), ("missing", 1)])
def test_a_run_that_is_recorded_ends_whether_or_not_the_recording_can_be_written(
    tmp_path: Path, folder: str, code: int
) -> None:
    """Its threads stand still for ever, so an error that nothing catches would leave the process there."""
    (tmp_path / "with a space").mkdir()

    run = simulate("--seed", "3", "--record", str(tmp_path / folder / "a.jsonl"), timeout=100)

    assert run.returncode == code, run.stderr
    assert f"barnabas anatomy '{tmp_path}/with a space/a.jsonl'" in run.stdout or "cannot be written" in run.stderr


def test_no_randomness_but_the_seeds_is_drawn() -> None:
    command = [sys.executable, "-m", "tests.sim.nothing_drawn_elsewhere", "5"]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr


def test_a_scenario_of_ones_own_is_played_with_the_same_faults() -> None:
    run = simulate("--scenario", "tests.sim.own_scenario:Counting", "--seed", "1", "--seeds", "3", "--verbose")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert "records acknowledged" in run.stdout
    assert "records read by groups" not in run.stdout


def test_processes_that_were_replaced_do_not_shut_each_other_out_for_ever() -> None:
    run = simulate("--scenario", "tests.sim.rivals:Rivals", "--seed", "1", "--seeds", "3")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert "transform: ProducerFencedError" in run.stdout
