"""`./run sim`: play seeds, and say what they did and what they found."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from barnabas.testing.simulator import mutations, planted_faults
from barnabas.testing.simulator.cluster import planted_faults as of_clusters
from barnabas.testing.simulator.minima import too_little
from barnabas.testing.simulator.runner import Result, Run, record, warm_up

#: What `--cluster` plays: either control plane as the seed has it, or one of them; controllers as Apache Kafka's.
CLUSTERS = {
    "either": "barnabas.testing.simulator.cluster.cluster_scenario:ClusterScenario",
    "quorum": "barnabas.testing.simulator.cluster.cluster_scenario:QuorumScenario",
    "sessions": "barnabas.testing.simulator.cluster.cluster_scenario:SessionScenario",
    "zookeeper": "barnabas.testing.simulator.cluster.cluster_scenario:ZooKeeperScenario",
}


def main(arguments: list[str]) -> int:
    """Play the seeds that were asked for; 1 if one of them found something."""
    options = _parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of strings depends on it: only with a fixed one is a run the same each time.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "barnabas.testing.simulator", *arguments])  # noqa: S606 - itself
    if options.mutations is not None:
        return hunt_for(options)
    if options.mutation is not None:
        mutations.plant(options.mutation)
    warm_up(options.scenario)
    _confine(options)
    if options.watch and options.record is None:
        options.record = Path(tempfile.mkdtemp(prefix="barnabas-sim-")) / f"seed-{options.seed}.jsonl"
    if options.record is not None:
        _record(options)
    began = time.monotonic()
    run = Run(
        range(options.seed, options.seed + options.seeds),
        options.jobs,
        keep_history=options.history,
        scenario=options.scenario,
    )
    failed: list[Result] = []
    cpu = virtual = 0.0
    played = 0
    for result in run.results():
        played += 1
        cpu += result.cpu_seconds
        virtual += result.virtual_seconds
        if result.violations:
            failed.append(result)
            _say_failure(result, options)
        elif options.history:
            print("\n".join(result.history))  # noqa: T201
        if options.verbose:
            print(f"seed {result.seed}: {result.virtual_seconds:.1f} s, digest {result.digest}")  # noqa: T201
        if len(failed) >= options.failures:
            break
    _say_what_happened(run, played, cpu, virtual, time.monotonic() - began)
    missing = [] if failed or options.mutation or options.scenario else too_little(run.counts, played)
    for line in missing:
        print(f"TOO LITTLE: {line}")  # noqa: T201
    return 1 if failed or missing else 0


def _confine(options: argparse.Namespace) -> None:
    """Have nothing but the faults and workloads that were asked for."""
    from barnabas.testing.simulator.faults.plan import Plan
    from barnabas.testing.simulator.play import Play

    Plan.only = tuple(filter(None, options.faults.split(",")))
    Play.only_workloads = tuple(filter(None, options.workloads.split(",")))


def _record(options: argparse.Namespace) -> NoReturn:
    """Play one seed, write its recording, and end this process; 1 if it found something, or failed."""
    code = 1
    try:
        code = _recorded(options)
    except OSError as problem:
        print(f"./run sim: {options.record} cannot be written: {problem}", file=sys.stderr)  # noqa: T201
    except Exception:  # noqa: BLE001 - told, and this process ends
        traceback.print_exc()
    sys.stdout.flush()
    # The threads of the run stand still for ever, and Python would wait for them.
    os._exit(code)


def _recorded(options: argparse.Namespace) -> int:
    result = record(options.seed, options.scenario, options.record)
    if result.violations:
        _say_failure(result, options)
    print(f"{options.record}: seed {options.seed}, {result.virtual_seconds:.1f} virtual seconds")  # noqa: T201
    print(f"see it:  {shlex.join(['barnabas', 'anatomy', str(options.record)])}")  # noqa: T201
    sys.stdout.flush()
    if options.watch:
        # The threads of the run end with this program.
        command = [sys.executable, "-m", "barnabas.cli.main", "anatomy", "--listen", "127.0.0.1:0", str(options.record)]
        if options.no_browser:
            command.append("--no-browser")
        os.execv(command[0], command)  # noqa: S606 - itself
    return 1 if result.violations else 0


def hunt_for(options: argparse.Namespace) -> int:
    """Plant the faults that were asked for; 1 if one of them was not found."""
    faults = of_clusters if options.cluster else planted_faults
    known = [mutation.name for mutation in faults.MUTATIONS]
    if options.mutations == "short":
        names = list(faults.SHORT)
    else:
        names = [name for name in known if options.mutations in ("all", name)]
    if not names:
        print(f"'{options.mutations}' is none of: all, short, {', '.join(known)}", file=sys.stderr)  # noqa: T201
        return 2
    missed = 0
    for mutation in faults.MUTATIONS:
        if mutation.name in names:
            cluster = ["--cluster", of_clusters.where(mutation.name)] if options.cluster else []
            kinds = ["--faults", mutation.faults] if mutation.faults else []
            kinds += ["--workloads", mutation.workloads] if mutation.workloads else []
            missed += not mutations.hunt(mutation.name, options.seeds, options.seed, options.jobs, *cluster, *kinds)
    return 1 if missed else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run sim", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many seeds to play (1; with --mutations at most 300 for each)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="how many at a time")
    parser.add_argument("--history", action="store_true", help="print all that happened, of seeds that pass as well")
    parser.add_argument("--record", type=Path, metavar="FILE", help="play one seed and record it for barnabas anatomy")
    parser.add_argument("--watch", action="store_true", help="play one seed and show it; opens at what was found")
    parser.add_argument("--no-browser", action="store_true", help="with --watch: print the link, and open no browser")
    parser.add_argument("--scenario", default="", metavar="MODULE:CLASS", help="a scenario of your own")
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="either",
        choices=CLUSTERS,
        help="three or four brokers in place of one, under controllers or ZooKeeper",
    )
    parser.add_argument("--faults", default="", metavar="KINDS", help="these kinds of faults only, with commas")
    parser.add_argument("--workloads", default="", metavar="CLASSES", help="these workloads in every run, with commas")
    parser.add_argument("--verbose", action="store_true", help="a line with the digest for each seed")
    parser.add_argument("--failures", type=int, default=1, help="go on until so many seeds have failed (1)")
    parser.add_argument(
        "--mutations",
        nargs="?",
        const="all",
        metavar="WHICH",
        help="plant small faults, one at a time, which have to be found: all, short, or the name of one",
    )
    parser.add_argument("--mutation", metavar="NAME", help="play the seeds with this fault planted")
    options = parser.parse_args(arguments)
    if options.cluster:
        options.scenario = CLUSTERS[options.cluster]
    if options.seeds is None:
        options.seeds = 1 if options.mutations is None else 300
    return options


def _say_failure(result: Result, options: argparse.Namespace) -> None:
    print(f"seed {result.seed} found:")  # noqa: T201
    print("\n".join(result.history))  # noqa: T201
    for violation in result.violations:
        print(f"VIOLATION: {violation}")  # noqa: T201
    print(f"replay: ./run sim --seed {result.seed} --seeds 1    (digest {result.digest})")  # noqa: T201


def _say_what_happened(run: Run, played: int, cpu: float, virtual: float, elapsed: float) -> None:
    print(  # noqa: T201
        f"{played} seeds, {virtual:.0f} virtual seconds in {elapsed:.1f} s, "
        f"{cpu / max(played, 1):.3f} s of CPU for each"
    )
    for what, count in sorted(run.counts.items()):
        print(f"  {count:8}  {what}")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
