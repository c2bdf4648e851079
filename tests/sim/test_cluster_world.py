"""A whole cluster on virtual time: members under controllers with real clients; `./run sim --cluster` plays more."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from barnabas.testing.simulator.cluster.planted_faults import MUTATIONS
from tests.sim.test_simulator import simulate

#: Seeds with three controllers and with one, that lose disks and power, cut links, pause and kill.
FIRST, SEEDS = 13, 6
#: What the nightly form plays.
MANY = 500


def test_three_brokers_serve_clients_where_nothing_goes_wrong() -> None:
    run = simulate("--scenario", "tests.sim.calm_cluster:CalmCluster", "--seed", "1", "--seeds", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    counts = counts_of(run.stdout)
    assert counts["records acknowledged"] > 100
    assert counts["transactions committed"] > 10


@pytest.mark.timeout(600)
def test_no_acknowledged_record_is_lost_by_a_cluster_whose_nodes_die() -> None:
    run = simulate("--cluster", "--seed", str(FIRST), "--seeds", str(SEEDS), "--jobs", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    counts = counts_of(run.stdout)
    for what in ("brokers killed", "disks lost", "links cut", "records acknowledged", "commits"):
        assert counts.get(what, 0) > 0, f"no {what} in these seeds: {counts}"


def test_the_same_seed_gives_the_same_run_of_a_cluster() -> None:
    runs = [simulate("--cluster", "--seed", "16", "--verbose", hash_seed=hashes) for hashes in ("1", "2")]

    digests = [re.findall(r"digest (\w+)", run.stdout) for run in runs]
    assert len(digests[0]) == 1
    assert digests[0] == digests[1]


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_acknowledged_record_is_lost_in_many_seeds() -> None:
    run = simulate("--cluster", "--seed", "1000", "--seeds", str(MANY), "--failures", "5")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_fault_of_a_cluster_is_found() -> None:
    run = hunt("all")

    assert run.returncode == 0, run.stdout + run.stderr
    assert len(run.stdout.splitlines()) == len(MUTATIONS)


def test_a_broker_that_leads_on_in_its_old_epoch_is_found() -> None:
    run = hunt("a broker leads on in the epoch of its last life", "--seed", "9", "--seeds", "1")

    assert run.returncode == 0, run.stdout + run.stderr


def hunt(which: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--cluster", "--mutations", which, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def counts_of(output: str) -> dict[str, int]:
    """What happened, as the program says it at its end."""
    return {what: int(count) for count, what in re.findall(r"^ +(\d+)  (.+)$", output, re.MULTILINE)}
