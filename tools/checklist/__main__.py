"""`./run checklist`: print the state of the checklist; `--verify` breaks each function that a mark names."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tools.checklist import names

ROOT = Path(__file__).resolve().parent.parent.parent
CHECKLIST = ROOT / "docs" / "internals" / "CHECKLIST.md"
STATES = ROOT / "docs" / "internals" / "checklist-states.json"
LINE = re.compile(r"^(S\d)\.(\d+) (.*)")


class Show(NamedTuple):
    """One test that shows one line, and the function whose breaking must make it fail."""

    line: str
    test: str
    breaks: str


class ShowsCollector:
    """A pytest plugin that gathers the `shows` markers of the collected tests."""

    def __init__(self) -> None:
        self.shows: list[Show] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Read every marker; a parametrised test counts once."""
        seen = set()
        for item in items:
            test = item.nodeid.partition("[")[0]
            for marker in item.iter_markers("shows"):
                for line in marker.args:
                    show = Show(line, test, marker.kwargs.get("breaks", ""))
                    if show not in seen:
                        seen.add(show)
                        self.shows.append(show)


def read_lines() -> dict[str, str]:
    """Every line of the checklist: its number and its text."""
    found = (LINE.match(line) for line in CHECKLIST.read_text(encoding="utf-8").splitlines())
    return {f"{match[1]}.{match[2]}": match[3] for match in found if match}


def collect_shows() -> list[Show]:
    """Collect the suite without running it; ends the program when the collection fails."""
    collector = ShowsCollector()
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "--no-header", str(ROOT / "tests")]
    saved = sys.stdout
    with open(os.devnull, "w", encoding="utf-8") as sink:
        sys.stdout = sink
        status = pytest.main(arguments, plugins=[collector])
    sys.stdout = saved
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(
            f"checklist: the suite could not be collected (pytest ended with {status!r}); run ./run test to see why"
        )
    return collector.shows


def complaints(lines: dict[str, str], shows: list[Show], states: dict[str, dict[str, str]]) -> list[str]:
    """What is wrong with the markers and the table, one sentence each."""
    found = [f"{show.test} shows {show.line}, which the checklist lacks" for show in shows if show.line not in lines]
    for show in shows:
        problem = names.complaint(show.breaks) if names.TARGET.fullmatch(show.breaks) else "it is no module:name"
        if problem is not None:
            found.append(f"{show.test} shows {show.line}, but breaks={show.breaks!r} names nothing: {problem}")
    for line, state in states.items():
        if line not in lines:
            found.append(f"checklist-states.json: {line} is not in the checklist")
        if state.get("state") not in ("translated", "not testable") or not state.get("reason"):
            found.append(f"checklist-states.json: {line} needs a state (translated, not testable) and a reason")
        if state.get("state") == "translated" and line not in {show.line for show in shows}:
            found.append(f"checklist-states.json: {line} is translated, but no test shows it in that form")
    return found


def report(lines: dict[str, str], shows: list[Show], states: dict[str, dict[str, str]], verbose: bool) -> None:
    """Print a row a section, then the tests that show its lines and the lines still open."""
    tests = defaultdict(list)
    for show in shows:
        tests[show.line].append(show.test)
    for section in sorted({line.partition(".")[0] for line in lines}):
        inside = [line for line in lines if line.startswith(section + ".")]
        untestable = [line for line in inside if states.get(line, {}).get("state") == "not testable"]
        shown = [line for line in inside if line in tests]
        missing = [line for line in inside if line not in tests and line not in untestable]
        print(f"{section}: {len(shown)} of {len(inside)} shown, {len(untestable)} not testable, {len(missing)} open")
        if verbose:
            for line in shown:
                mark = " (translated)" if line in states else ""
                print(f"  {line}{mark}  {', '.join(tests[line])}")
            for line in untestable:
                print(f"  {line}  not testable: {states[line]['reason']}")
        if missing:
            print("  open: " + " ".join(missing))


def verify_one(show: Show) -> str | None:
    """Run the test with its function broken; a sentence when it passes all the same, or runs nothing."""
    environment = dict(os.environ, BARNABAS_BREAK=show.breaks)
    options = ["-q", "-x", "-p", "no:cacheprovider", "--no-cov", "--timeout=60"]
    command = [sys.executable, "-m", "pytest", *options, show.test]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return f"{show.line}: {show.test} still passes with {show.breaks} broken"
    if done.returncode != 1 and "broken on purpose" not in done.stdout + done.stderr:
        return f"{show.line}: {show.test} could not be run ({done.stdout.strip().splitlines()[-1:]})"
    return None


def verify(shows: list[Show], workers: int) -> list[str]:
    """Break each named function in turn and demand that its test fails."""
    found = []
    with ThreadPoolExecutor(workers) as pool:
        for number, complaint in enumerate(pool.map(verify_one, shows), start=1):
            print(f"\r{number} of {len(shows)} verified", end="", file=sys.stderr, flush=True)
            if complaint:
                found.append(complaint)
    print(file=sys.stderr)
    return found


def refuse_dangling() -> None:
    """End the program at once when marks name what is not there: breaking nothing proves nothing."""
    found = names.dangling()
    if found:
        sys.exit("\n".join(["checklist: these marks name nothing; rename them first", *found]))


def main() -> int:
    """Print the state of the checklist; exit with 1 when a marker or the table is wrong."""
    parser = argparse.ArgumentParser(prog="./run checklist", description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--verify", action="store_true", help="break each named function and demand that its test fails"
    )
    parser.add_argument("--verbose", action="store_true", help="name the tests that show each line")
    parser.add_argument(
        "--only", metavar="PREFIX", default="", help="verify only lines that begin with PREFIX, such as S4."
    )
    parser.add_argument("--workers", type=int, default=2, help="tests run at once while verifying (default 2)")
    arguments = parser.parse_args()
    os.environ["BARNABAS_UNCOMPILED"] = "1"  # compiled functions can neither be found by name nor broken
    if arguments.verify:
        refuse_dangling()
    lines, shows = read_lines(), collect_shows()
    states = json.loads(STATES.read_text(encoding="utf-8"))
    report(lines, shows, states, arguments.verbose)
    found = complaints(lines, shows, states)
    if arguments.verify:
        wanted = [show for show in shows if show.line.startswith(arguments.only) and show.breaks]
        found += verify(wanted, arguments.workers)
    for complaint in found:
        print("wrong: " + complaint)
    shown, tests = {show.line for show in shows}, {show.test for show in shows}
    print(f"{len(shown)} of {len(lines)} lines shown by {len(tests)} tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
