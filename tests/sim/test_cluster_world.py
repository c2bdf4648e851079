"""A whole cluster on virtual time, under controllers or ZooKeeper, with real clients; see `./run sim --cluster`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from barnabas.testing.simulator.cluster.planted_faults import MUTATIONS
from tests.sim.test_simulator import simulate

#: Seeds of each control plane, the kinds of faults that they are to have, and what happens in them.
SHORT = {
    "quorum": (
        8,
        2,
        ("--faults", "kill broker,lost disk,lost directory,isolate,cut nodes"),
        ("brokers killed", "disks lost", "directories that came back", "nodes isolated"),
    ),
    "zookeeper": (2, 3, (), ("sessions expired", "brokers without power", "written to unclean")),
}
#: Faults, and a seed that finds each and passes without it.
SOON = {
    "a follower joins the ISR before it has what is committed": 2,
    "followers that lag stay in the ISR": 6,
    "whose end was not clean stays eligible": 2,
    "a controller writes though another one has taken its place": 1,
    "a new leader does not flush what it had not": 4,
    "a broker obeys what its last life was told": 1,
    "brokers go by the quotas that stood when they were started": 1,
    "of two logs of a partition that of a topic that is gone is used": 2,
    "who led last leads, and no ends of logs are compared": 10,
}
ALWAYS = ("links cut", "operator: reassign", "operator: move log", "records acknowledged", "commits")
#: What the nightly form plays.
MANY = 500


def test_three_brokers_serve_clients_where_nothing_goes_wrong() -> None:
    run = simulate("--scenario", "tests.sim.calm_cluster:CalmCluster", "--seed", "4", "--seeds", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    counts = counts_of(run.stdout)
    assert counts["records acknowledged"] > 100
    assert counts["transactions committed"] > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("plane", SHORT)
def test_no_acknowledged_record_is_lost_by_a_cluster_whose_nodes_die(plane: str) -> None:
    first, seeds, kinds, happens = SHORT[plane]
    run = simulate("--cluster", plane, "--seed", str(first), "--seeds", str(seeds), "--jobs", "1", *kinds)

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    counts = counts_of(run.stdout)
    for what in (*happens, *ALWAYS):
        assert counts.get(what, 0) > 0, f"no {what} in these seeds: {counts}"


@pytest.mark.parametrize("plane", SHORT)
def test_the_same_seed_gives_the_same_run_of_a_cluster(plane: str) -> None:
    runs = [simulate("--cluster", plane, "--seed", "3", "--verbose", hash_seed=hashes) for hashes in ("1", "2")]

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


@pytest.mark.parametrize("fault", SOON)
def test_what_must_hold_at_every_moment_shows_a_fault_soon(fault: str) -> None:
    run = hunt(fault, "--seed", str(SOON[fault]), "--seeds", "1")

    assert run.returncode == 0, run.stdout + run.stderr


_LOST_DISKS = ("LostDisksScenario", "LostDisksInTurnScenario", "LostPowerInTurnScenario")


def lost(scenario: str, *options: str) -> subprocess.CompletedProcess[str]:
    return simulate("--scenario", f"tests.sim.lost_disks:{scenario}", *options)


@pytest.mark.parametrize(
    ("scenario", "happens"), [(_LOST_DISKS[0], "disks lost"), (_LOST_DISKS[2], "brokers without power")]
)
def test_a_machine_may_lose_what_it_had_before_all_others_are_killed(scenario: str, happens: str) -> None:
    run = lost(scenario, "--seed", "2", "--seeds", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    counts = counts_of(run.stdout)
    assert counts[happens] > 2
    assert counts["brokers killed"] > 4


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("scenario", _LOST_DISKS)
def test_a_machine_may_lose_what_it_had_before_all_others_are_killed_in_many_seeds(scenario: str) -> None:
    run = lost(scenario, "--seed", "1000", "--seeds", "300")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr


def test_a_directory_may_be_lost_for_good_as_a_log_leaves_it() -> None:
    run = simulate("--cluster", "quorum", "--faults", "directory lost as a log leaves it", "--seed", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    assert counts_of(run.stdout)["directed: a directory is lost before the swap"] > 0


@pytest.mark.parametrize("workload", ["SharedQueue", "StreamsApplication,KeyedTopic", "MeteredTopic"])
def test_a_workload_is_played_in_a_cluster(workload: str) -> None:
    run = simulate("--cluster", "quorum", "--workloads", workload, "--seed", "2", "--seeds", "1")

    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr
    for name in workload.split(","):
        assert counts_of(run.stdout).get(f"workload {name}") == 1


@pytest.mark.parametrize("option", ["--faults", "--workloads"])
def test_what_is_not_there_is_named(option: str) -> None:
    run = simulate("--cluster", "zookeeper", option, "SharedQueue")

    assert run.returncode == 1
    assert "no such" in run.stderr
    assert "SharedQueue; there are: " in run.stderr


def hunt(which: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas.testing.simulator", "--cluster", "--mutations", which, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def counts_of(output: str) -> dict[str, int]:
    """What happened, as the program says it at its end."""
    return {what: int(count) for count, what in re.findall(r"^ +(\d+)  (.+)$", output, re.MULTILINE)}
