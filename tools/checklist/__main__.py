"""`./run checklist`: print the state of the checklist; `--verify` breaks each function that a mark names."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import defaultdict
from pathlib import Path

from tools.checklist import names
from tools.checklist.marks import STATES, Show, collect_shows, read_lines
from tools.checklist.verify import Chosen, verify


def complaints(lines: dict[str, str], shows: list[Show], states: dict[str, dict[str, str]]) -> list[str]:
    """Return what is wrong with the markers and the table, one sentence each."""
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


def refuse_dangling() -> None:
    """End the program at once when marks name what is not there: breaking nothing proves nothing."""
    found = names.dangling()
    if found:
        sys.exit("\n".join(["checklist: these marks name nothing; rename them first", *found]))


def parse() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="./run checklist", description=__doc__)
    parser.add_argument(
        "--verify", action="store_true", help="break each named function in two ways and demand that its test fails"
    )
    parser.add_argument("--verbose", action="store_true", help="name the tests that show each line")
    parser.add_argument(
        "--only", metavar="LINES", default="", help="verify only these lines, such as S2.20,S3.99; S4. is a section"
    )
    parser.add_argument("--shard", metavar="K/N", default="1/1", help="verify the K-th of N parts of that")
    parser.add_argument("--workers", type=int, default=2, help="runs at once while verifying (default 2)")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="keep each result there, and leave out what stands there already"
    )
    parser.add_argument("--slow", action="store_true", help="verify the tests of the long form, too")
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> Chosen:
    """Return which marks to verify. Ends the program when the shard is none."""
    found = re.fullmatch(r"(\d+)/(\d+)", arguments.shard)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        sys.exit(f"checklist: --shard {arguments.shard}: it must be K/N, with K from 1 to N")
    return Chosen(tuple(filter(None, arguments.only.split(","))), int(found[1]) - 1, int(found[2]))


def main() -> int:
    """Print the state of the checklist; exit with 1 when a mark or the table is wrong."""
    arguments = parse()
    os.environ["BARNABAS_UNCOMPILED"] = "1"  # compiled functions can neither be found by name nor broken
    if arguments.verify:
        refuse_dangling()
    # The suite can be collected only once in a process.
    verification = (
        verify(chosen(arguments), arguments.workers, arguments.results, slow=arguments.slow)
        if arguments.verify
        else None
    )
    lines, shows = read_lines(), list(verification.cases if verification else collect_shows())
    states = json.loads(STATES.read_text(encoding="utf-8"))
    report(lines, shows, states, arguments.verbose)
    found = complaints(lines, shows, states)
    if verification is not None:
        found += list(dict.fromkeys(verification.complaints))
    for complaint in found:
        print("wrong: " + complaint)
    shown, tests = {show.line for show in shows}, {show.test for show in shows}
    print(f"{len(shown)} of {len(lines)} lines shown by {len(tests)} tests")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
