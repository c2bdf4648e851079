"""Whether a marked test would see that its function is broken: by a failure of that very test, and of no other kind.

Each function is broken in its turn, and the tests that name it are run in a process of their own: once it raises, and
once it answers wrongly (tests/hooks/planting.py). A test that passes then shows nothing; one that ends by its time
limit, or that cannot be run, has not said no either, and is told as what it is. What a machine lacks (Java, Go) makes
tests skip; they are counted and left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tools.checklist.marks import ROOT, Show

SECONDS_PER_TEST = 90
OPTIONS = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "tools.outcomes",
    "--no-cov",
    f"--timeout={SECONDS_PER_TEST}",
]

CAUGHT, PASSES, TIMED_OUT, NOT_RUN, NOT_REACHED, UNALTERED = (
    "caught",
    "passes",
    "ends by its time limit only",
    "was not run",
    "fails, but the function was never called",
    "calls the function, which has no other answer to give",
)


class Verdict(NamedTuple):
    """What became of a mark when its function was broken in one way."""

    show: Show
    how: str
    result: str


class Ended(NamedTuple):
    """How one run went: the outcomes by test, and what the planted function noted."""

    outcomes: dict[str, list[str]]
    noted: str
    skipped: Counter[str]


def run(tests: list[str], environment: dict[str, str], *, slow: bool) -> Ended:
    """Run tests in a process of their own, with the function that the environment names broken."""
    with tempfile.TemporaryDirectory() as directory:
        results, log = Path(directory, "outcomes"), Path(directory, "noted")
        results.touch()
        log.touch()
        more = {"BARNABAS_OUTCOMES": str(results), "BARNABAS_BREAK_LOG": str(log)}
        chosen = [] if slow else ["-m", "not slow"]
        command = [sys.executable, "-m", "pytest", *OPTIONS, *chosen, *tests]
        subprocess.run(
            command, env={**os.environ, **environment, **more}, cwd=ROOT, capture_output=True, text=True, check=False
        )
        outcomes: defaultdict[str, list[str]] = defaultdict(list)
        skipped: Counter[str] = Counter()
        for line in results.read_text(encoding="utf-8").splitlines():
            ended: dict[str, Any] = json.loads(line)
            outcomes[ended["test"]].append(ended["outcome"])
            if ended["outcome"] == "skipped":
                skipped[ended["reason"].removeprefix("Skipped: ")] += 1
        return Ended(dict(outcomes), log.read_text(encoding="utf-8"), skipped)


def judge(ended: Ended, ids: list[str]) -> str:
    """What one run says of a mark that these cases carry."""
    outcomes = [outcome for case in ids for outcome in ended.outcomes.get(case, [])]
    failed = any(outcome.startswith("failed") for outcome in outcomes)
    if failed:
        return CAUGHT if "altered" in ended.noted else NOT_REACHED
    if "timed out" in outcomes:
        return TIMED_OUT
    if "passed" in outcomes:
        return UNALTERED if "called" in ended.noted and "altered" not in ended.noted else PASSES
    return NOT_RUN


def _break(target: str, cases: dict[Show, list[str]], how: str, *, slow: bool) -> list[Verdict]:
    tests = sorted({show.test for show in cases})
    ended = run(tests, {"BARNABAS_BREAK": target, "BARNABAS_BREAK_HOW": how}, slow=slow)
    return [Verdict(show, how, judge(ended, ids)) for show, ids in cases.items()]


def verify_target(target: str, cases: dict[Show, list[str]], *, slow: bool) -> list[Verdict]:
    """Break one function in every way and run the tests that name it.

    A function is known by what it answers or by what it does: where a wrong answer passes, doing nothing must not.
    """
    found = _break(target, cases, "raise", slow=slow)
    wrong = _break(target, cases, "wrong", slow=slow)
    unseen = {verdict.show for verdict in wrong if verdict.result in (PASSES, UNALTERED)}
    if unseen:
        again = {show: ids for show, ids in cases.items() if show in unseen}
        seen = {v.show for v in _break(target, again, "empty", slow=slow) if v.result == CAUGHT}
        wrong = [v._replace(result=CAUGHT) if v.show in seen else v for v in wrong]
    return found + wrong


def _unbroken(cases: dict[Show, list[str]], *, slow: bool) -> tuple[dict[Show, list[str]], list[str]]:
    """The marks whose tests pass as they are, and what there is to say of the others."""
    tests = sorted({show.test for show in cases})
    ended = run(tests, {}, slow=slow)
    passing = {case for case, outcomes in ended.outcomes.items() if set(outcomes) == {"passed"}}
    for reason, count in ended.skipped.most_common():
        print(f"not verified: {count} tests skipped: {reason}")
    failing = {
        case for case, outcomes in ended.outcomes.items() if any(o.startswith(("failed", "timed")) for o in outcomes)
    }
    found = [f"{case} fails with nothing broken" for case in sorted(failing)]
    kept = {show: [case for case in ids if case in passing] for show, ids in cases.items()}
    return {show: ids for show, ids in kept.items() if ids}, found


def verify(cases: dict[Show, list[str]], workers: int, *, slow: bool) -> list[str]:
    """Break each named function in turn; a sentence for each mark whose test does not fail as it should."""
    cases, found = _unbroken(cases, slow=slow)
    by_target: defaultdict[str, dict[Show, list[str]]] = defaultdict(dict)
    for show, ids in cases.items():
        by_target[show.breaks][show] = ids
    with ThreadPoolExecutor(workers) as pool:
        runs = [pool.submit(verify_target, target, shows, slow=slow) for target, shows in by_target.items()]
        for number, done in enumerate(runs, start=1):
            found += complaints(done.result())
            print(f"\r{number} of {len(runs)} functions broken", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def complaints(verdicts: list[Verdict]) -> Iterator[str]:
    """A sentence for each verdict that is not a failure of the very test."""
    ways = {"raise": "raises", "wrong": "answers wrongly"}
    for show, how, result in verdicts:
        if result != CAUGHT:
            yield f"{show.line}: {show.test} {result} when {show.breaks} {ways[how]}"
