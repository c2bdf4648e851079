"""Whether a marked test would see that its function is broken: by a failure of that very test, and of no other kind.

The suite is collected once. Then, for each function that a mark names, a forked process breaks it and runs the tests
that name it: once it raises, once it answers wrongly (tests/hooks/planting.py). A test that passes then shows nothing;
one that ends by its time limit, or that cannot be run, has not said no either, and is told as what it is. What a
machine lacks (Java, Go) makes tests skip; they are counted and left out.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tools.checklist import breaking
from tools.checklist.marks import ROOT, Show, ShowsCollector, quiet
from tools.checklist.results import Results
from tools.outcomes import read_outcomes, write_outcome

#: How long a test may take with nothing broken: some start a Spark, and the machine may be many times slower than it
#: should be.
SECONDS_UNBROKEN = 180
#: How long at least with a function broken, and how many times what it took with nothing broken.
SECONDS_BROKEN, TIMES_UNBROKEN = 45, 3
#: In which a test that waits for what the function never does says so itself.
PATIENCE_SECONDS = 20

CAUGHT, PASSES, TIMED_OUT, NOT_RUN, NOT_REACHED, UNALTERED = (
    "caught",
    "passes",
    "ends by its time limit only",
    "was not run",
    "fails, but the function was never called",
    "calls the function, which has no other answer to give",
)
#: The words of a complaint for each way to break a function.
WAYS = {"raise": "raises", "wrong": "answers wrongly", "empty": "answers wrongly, or does nothing"}


class Verdict(NamedTuple):
    """What became of a mark when its function was broken in one way."""

    show: Show
    how: str
    result: str


class Ended(NamedTuple):
    """How one run went: the outcomes by test, what the planted function noted, and how long the tests took."""

    outcomes: dict[str, list[str]]
    noted: dict[str, str]
    seconds: Mapping[str, float] = MappingProxyType({})


class Chosen(NamedTuple):
    """Which marks to verify: of some lines or sections (none: of all), and of every `shards`-th function."""

    lines: tuple[str, ...] = ()
    shard: int = 0
    shards: int = 1

    def has_line(self, line: str) -> bool:
        """Whether a line is one of them, or in a section that is, such as `S4.`."""
        return not self.lines or any(line == one or (one.endswith(".") and line.startswith(one)) for one in self.lines)


class Job(NamedTuple):
    """One run to be made: a function, a way to break it (none: as it is), and the tests."""

    target: str
    how: str
    cases: dict[Show, list[str]]

    @property
    def tests(self) -> list[str]:
        """The ids of all cases, each once."""
        return list(dict.fromkeys(case for ids in self.cases.values() for case in ids))


def limit_when_broken(seconds: float) -> float:
    """Return how long a test may take with a function broken that took so many seconds with nothing broken."""
    return max(SECONDS_BROKEN, TIMES_UNBROKEN * seconds + PATIENCE_SECONDS)


def judge(ended: Ended, ids: list[str]) -> str:
    """Say what one run means for a mark that these cases carry."""
    outcomes = [outcome for case in ids for outcome in ended.outcomes.get(case, [])]
    failed = [case for case in ids if any(found.startswith("failed") for found in ended.outcomes.get(case, []))]
    if failed:
        return CAUGHT if any("altered" in ended.noted.get(case, "") for case in failed) else NOT_REACHED
    if "timed out" in outcomes:
        return TIMED_OUT
    if "passed" in outcomes:
        noted = "".join(ended.noted.get(case, "") for case in ids)
        return UNALTERED if "called" in noted and "altered" not in noted else PASSES
    return NOT_RUN


class Verification:
    """A pytest plugin that breaks functions and runs the tests that name them, in place of running the suite."""

    def __init__(self, chosen: Chosen, workers: int, results: Results, *, slow: bool) -> None:
        self._results = results
        self.complaints = list(results.complaints)
        self._chosen = chosen
        self._workers = workers
        self._slow = slow
        self._items: dict[str, pytest.Item] = {}
        self._collector = ShowsCollector()
        self._running: dict[int, tuple[Job, Path, float]] = {}
        self._limits: dict[str, float] = {}
        self._done = 0
        self._skipped = set(results.skipped)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """See which tests carry marks."""
        self._collector.pytest_collection_modifyitems(items)
        self._items = {item.nodeid: item for item in items if self._slow or item.get_closest_marker("slow") is None}

    @property
    def cases(self) -> dict[Show, list[str]]:
        """Every mark of the suite, and the ids of its cases."""
        return dict(self._collector.cases)

    def pytest_runtestloop(self) -> bool:
        """Run everything that is to be verified, and nothing else."""
        wanted = {show: ids for show, ids in self.cases.items() if self._chosen.has_line(show.line)}
        cases = {show: [case for case in ids if case in self._items] for show, ids in wanted.items()}
        cases = {show: ids for show, ids in cases.items() if ids}
        with tempfile.TemporaryDirectory() as directory:
            for job in self._jobs(cases):
                self._start(job, Path(directory))
            while self._running:
                self._wait()
        print(file=sys.stderr)
        return True

    def _jobs(self, cases: dict[Show, list[str]]) -> Iterator[Job]:
        by_target: defaultdict[str, dict[Show, list[str]]] = defaultdict(dict)
        for show, ids in cases.items():
            by_target[show.breaks][show] = ids
        targets = sorted(by_target)[self._chosen.shard :: self._chosen.shards]
        # How long a test takes with nothing broken says how long it may take with something broken.
        broken = [(target, how) for target in targets for how in ("raise", "wrong")]
        for target, how in [*((target, "") for target in targets), *broken]:
            if not self._results.has(target, how or "as it is"):
                yield Job(target, how, by_target[target])

    # --- processes

    def _start(self, job: Job, directory: Path) -> None:
        while len(self._running) >= self._workers or (job.how and self._is_unbroken_run_of(job.target)):
            self._wait()
        place = directory / f"{self._done}-{len(self._running)}-{job.how}"
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            seconds = sum(map(self._limit, job.tests)) + 30
            self._running[pid] = job, place, time.monotonic() + seconds
            return
        status = 1
        try:
            self._run(job, place)
            status = 0
        finally:
            os._exit(status)

    def _is_unbroken_run_of(self, target: str) -> bool:
        return any(job.target == target and not job.how for job, _, _ in self._running.values())

    def _limit(self, test: str) -> float:
        return self._limits.get(test, SECONDS_UNBROKEN)

    def _run(self, job: Job, place: Path) -> None:
        os.setpgid(0, 0)
        sink = os.open(f"{place}.out", os.O_WRONLY | os.O_CREAT)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        if job.how:
            breaking.break_here(job.target, job.how)
        seconds: dict[str, float] = {}
        for number, test in enumerate(job.tests):
            os.environ["BARNABAS_BREAK_LOG"] = f"{place}.noted{number}"
            # Around the whole protocol of a test the plugin sets no timer: it is not run by pytest's own loop.
            limit = pytest.mark.timeout(self._limit(test), func_only=True)
            self._items[test].add_marker(limit, append=False)
            began = time.monotonic()
            for report in runtestprotocol(self._items[test], log=False, nextitem=None):
                write_outcome(report, f"{place}.outcomes")
            seconds[test] = time.monotonic() - began
        # With what its fixtures took: each run makes them anew.
        Path(f"{place}.seconds").write_text(json.dumps(seconds), encoding="utf-8")

    def _wait(self) -> None:
        for pid, (job, place, give_up_at) in list(self._running.items()):
            ended, _ = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() < give_up_at:
                continue
            # What the tests started goes with them.
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            if not ended:
                os.waitpid(pid, 0)
            del self._running[pid]
            self._take(job, self._result(job, place, timed_out=not ended), place.parent)
        time.sleep(0.02)

    @staticmethod
    def _result(job: Job, place: Path, *, timed_out: bool) -> Ended:
        outcomes: defaultdict[str, list[str]] = defaultdict(list)
        for ended in read_outcomes(f"{place}.outcomes"):
            outcomes[ended["test"]].append(ended["outcome"])
        if timed_out:
            for test in job.tests:
                outcomes.setdefault(test, ["timed out"])
        files = {test: Path(f"{place}.noted{number}") for number, test in enumerate(job.tests)}
        noted = {test: file.read_text(encoding="utf-8") for test, file in files.items() if file.exists()}
        took = Path(f"{place}.seconds")
        seconds = json.loads(took.read_text(encoding="utf-8")) if took.exists() else {}
        return Ended(dict(outcomes), noted, seconds)

    # --- verdicts

    def _take(self, job: Job, ended: Ended, directory: Path) -> None:
        self._done += 1
        print(f"\r{self._done} runs", end="", file=sys.stderr, flush=True)
        before, unseen = len(self.complaints), dict[Show, list[str]]()
        if not job.how:
            self._take_unbroken(job, ended)
        else:
            verdicts = [Verdict(show, job.how, judge(ended, ids)) for show, ids in job.cases.items()]
            if job.how == "wrong":
                # A function is known by what it answers or by what it does: then doing nothing must not pass.
                unseen = {show: job.cases[show] for show, _, result in verdicts if result in (PASSES, UNALTERED)}
            self._complain([verdict for verdict in verdicts if verdict.show not in unseen])
        # Of a function that answers wrongly all is known only when it has done nothing, too.
        known = "" if unseen else "wrong" if job.how == "empty" else job.how or "as it is"
        skipped = [case for case in job.tests if case in self._skipped]
        self._results.add(job.target, known, self.complaints[before:], skipped)
        if unseen:
            self._start(Job(job.target, "empty", unseen), directory)

    def _take_unbroken(self, job: Job, ended: Ended) -> None:
        for test, seconds in ended.seconds.items():
            self._limits[test] = limit_when_broken(seconds)
        for test, outcomes in ended.outcomes.items():
            if "skipped" in outcomes:
                self._skipped.add(test)
            elif set(outcomes) != {"passed"}:
                self.complaints.append(f"{test} fails with nothing broken: {', '.join(outcomes)}")

    def _complain(self, verdicts: list[Verdict]) -> None:
        for verdict in verdicts:
            skipped = all(case in self._skipped for case in self._collector.cases[verdict.show])
            if verdict.result != CAUGHT and not skipped:
                self.complaints.append(sentence(verdict))
                print(f"\r{self.complaints[-1]}", file=sys.stderr, flush=True)

    def report_skipped(self) -> None:
        """Print how many tests could not be verified on this machine."""
        if self._skipped:
            print(f"not verified: {len(self._skipped)} tests that are skipped here")


def sentence(verdict: Verdict) -> str:
    """Say which mark is not seen to be broken, and how it was broken."""
    show, how, result = verdict
    return f"{show.line}: {show.test} {result} when {show.breaks} {WAYS[how]}"


def verify(chosen: Chosen, workers: int, results: Path | None = None, *, slow: bool) -> Verification:
    """Break each function that is named; its `complaints` has a sentence for each mark whose test does not see it.

    What becomes of each function is written to the file `results` as it is known, and what stands there is not done
    again.
    """
    verification = Verification(chosen, workers, Results(results), slow=slow)
    # Before the tests are imported, which then wait less long for what will never happen.
    os.environ["BARNABAS_PATIENCE"] = str(PATIENCE_SECONDS)
    options = ["-q", "-p", "no:cacheprovider", "--no-header", f"--timeout={SECONDS_UNBROKEN}", str(ROOT / "tests")]
    with quiet():
        status = pytest.main(options, plugins=[verification])
    if not verification.cases:
        sys.exit(
            f"checklist: the suite could not be collected (pytest ended with {status!r}); run ./run test to see why"
        )
    verification.report_skipped()
    return verification
