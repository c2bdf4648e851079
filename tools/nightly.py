"""`./run nightly`: every long proof, one after the other, and a log of how each ended in docs/internals/nightly.md.

The parts are found, not listed: each test file that has `slow` tests is one, and so is what is no test: many seeds of
the simulator, the fuzzer, the soak, and the share of lines that the ordinary suite covers. A part that fails is told
with the tests that failed; the run goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.support.missing_programs import without_class

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "docs" / "internals" / "nightly.md"
HEAD = """# Long proofs, by date
`./run nightly` runs what takes too long for `./run test`, and writes this page. The newest run stands first; a part
that was run again on the same day and commit replaces its row. A test that is skipped lacks something on that machine.
"""
TABLE = "| part | result | minutes | what there is to say |\n|---|---|---:|---|\n"
SECTION = re.compile(r"^## ", re.MULTILINE)
ROW = re.compile(r"^\| `([^`]+)` \|.*$", re.MULTILINE)
MINUTES_PER_PART = 180


class Part(NamedTuple):
    """A proof that is run by itself: a name, and the command."""

    name: str
    command: list[str]


class Ended(NamedTuple):
    """How a part ended, in words for a row of the log."""

    name: str
    is_good: bool
    result: str
    seconds: float
    remark: str


_UNCOMPILED = ["env", "BARNABAS_UNCOMPILED=1", sys.executable, "-m", "pytest", "-q", "-m", "not slow"]
_NEW_EXAMPLES = ["env", "BARNABAS_EXAMPLES=new", sys.executable, "-m", "pytest", "-q", "-m", "not slow"]
OTHERS = [
    Part("simulator, 2,000 seeds", ["./run", "sim", "--seeds", "2000"]),
    Part("soak, a week's load in an hour", ["./run", "soak"]),
    Part("fuzzer, 5 minutes a target", ["./run", "fuzz", "--seconds", "300"]),
    Part("properties, new examples", [*_NEW_EXAMPLES, "-p", "tools.outcomes", "tests/property"]),
    Part("unit and vector tests, uncompiled", [*_UNCOMPILED, "-p", "tools.outcomes", "tests/unit", "tests/vectors"]),
    Part("lines that the suite covers", ["./run", "test", "--coverage"]),
]


def slow_files() -> list[str]:
    """Return the test files that have slow tests, by name."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "slow", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"nightly: the slow tests could not be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sorted({line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line})


def parts() -> list[Part]:
    """Everything that there is to run."""
    options = ["-q", "-m", "slow", "-p", "tools.outcomes", "-p", "no:cacheprovider"]
    tests = [Part(path, [sys.executable, "-m", "pytest", *options, path]) for path in slow_files()]
    return [*tests, *OTHERS]


def execute(command: list[str], log: Path, outcomes: str, seconds: float) -> int | None:
    """Run a command and write what it prints into a file; return its exit status, or None when its time was over.

    What it started (brokers, Spark) is a process group with it, and ends with it.
    """
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "BARNABAS_OUTCOMES": outcomes},
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(part: Part, output: Path, minutes: float) -> Ended:
    """Run a part to its end, or as long as it may take; what it prints is kept in a file of its name."""
    log = output / f"{re.sub('[^a-z0-9]+', '-', part.name.lower())}.log"
    with tempfile.NamedTemporaryFile("r", suffix=".outcomes") as outcomes:
        began = time.monotonic()
        status = execute(part.command, log, outcomes.name, minutes * 60)
        seconds = time.monotonic() - began
        text = log.read_text(encoding="utf-8", errors="replace")
        if "pytest" in part.command:
            return judge_tests(part.name, status, outcomes.read(), seconds)
        last = [line for line in text.splitlines() if line.strip()]
        remark = summary(last) if status is not None else f"{ended_by_time(seconds)}; {summary(last)}"
        return Ended(part.name, status == 0, "passed" if status == 0 else "FAILED", seconds, remark)


def ended_by_time(seconds: float) -> str:
    """Say that a part was ended because its time was over."""
    return f"ended after {seconds / 60:.0f} minutes, unfinished"


def summary(lines: list[str]) -> str:
    """Return the line of a program's output that says most: the first that a violation, a miss or a sum stands in."""
    for mark in ("VIOLATION", "TOO LITTLE", "FAILED", " seeds, ", "soak: ", "% of lines"):
        for line in lines:
            if mark in line:
                return line.strip()[:160]
    return lines[-1].strip()[:160] if lines else ""


def judge_tests(name: str, status: int | None, outcomes: str, seconds: float) -> Ended:
    """Count how the tests of a file ended; a file without any outcome could not be run."""
    found = [json.loads(line) for line in outcomes.splitlines()]
    counts = Counter("failed" if "failed" in ended["outcome"] else ended["outcome"] for ended in found)
    words = [f"{counts[kind]} {kind}" for kind in ("passed", "failed", "timed out", "skipped") if counts[kind]]
    bad = [ended for ended in found if ended["outcome"] not in ("passed", "skipped")]
    remarks = [f"{ended['test'].partition('::')[2]}: {ended['reason']}"[:160] for ended in bad]
    remarks += sorted({without_class(ended["reason"])[:120] for ended in found if ended["outcome"] == "skipped"})
    if status is None:
        remarks.append(ended_by_time(seconds))
    is_good = status == 0 and bool(counts["passed"])
    result = ", ".join(words) or "could not be run"
    failed = bool(bad) or status is None
    return Ended(name, is_good, f"FAILED: {result}" if failed else result, seconds, "; ".join(remarks))


# --- the log


def row(ended: Ended) -> str:
    """One row of the table."""
    remark = ended.remark.replace("|", "\\|").replace("\n", " ")
    return f"| `{ended.name}` | {ended.result} | {ended.seconds / 60:.1f} | {remark} |"


def written(page: str, title: str, results: list[Ended]) -> str:
    """Return the page with these results: in the section of that title, which comes first if it is new."""
    sections = SECTION.split(page)[1:] if page else []
    mine = next((text for text in sections if text.startswith(f"{title}\n")), "")
    rows = {match[1]: match[0] for match in ROW.finditer(mine)}
    rows.update((ended.name, row(ended)) for ended in results)
    table = TABLE + "\n".join(rows[name] for name in sorted(rows)) + "\n"
    others = [text for text in sections if not text.startswith(f"{title}\n")]
    return HEAD + "".join(f"\n## {text.strip()}\n" for text in [f"{title}\n{table}", *others])


def title_now() -> str:
    """Return the date, the commit, and what machine it is."""
    commit = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True, check=False)
    machine = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {commit.stdout.strip() or 'no commit'}, {machine}"


def note(title: str, results: list[Ended]) -> None:
    """Write rows into the log."""
    before = LOG.read_text(encoding="utf-8") if LOG.exists() else ""
    LOG.write_text(written(before, title, results), encoding="utf-8")


def note_of_others(files: list[Path]) -> None:
    """Write the rows into the log that other machines have kept with `--keep`, under the title of each."""
    found: dict[str, list[Ended]] = {}
    for file in sorted(files):
        for line in file.read_text(encoding="utf-8").splitlines():
            title, *fields = json.loads(line)
            found.setdefault(title, []).append(Ended(*fields))
    for title, results in found.items():
        note(title, results)


def chosen_of(found: list[Part], texts: list[str]) -> list[Part]:
    """Return the part of each name, and those whose names contain a text that is no name; all of them without texts."""
    names = {part.name for part in found}
    return [
        part
        for part in found
        if not texts or any(part.name == text if text in names else text in part.name for text in texts)
    ]


def main() -> int:
    """Run the parts; exit with 1 when one failed."""
    parser = argparse.ArgumentParser(prog="./run nightly", description=__doc__.partition("\n\n")[0])
    parser.add_argument("only", nargs="*", metavar="PART", help="run only the parts whose name contains one of these")
    parser.add_argument("--list", action="store_true", help="name the parts")
    parser.add_argument("--minutes", type=float, default=MINUTES_PER_PART, help="how long a part may take")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "nightly", help="where the parts' output goes")
    parser.add_argument("--json", action="store_true", help="name the parts as an array in JSON")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write the results into a file, not into the log")
    parser.add_argument("--collect", type=Path, nargs="+", metavar="FILE", help="write such files into the log")
    arguments = parser.parse_args()
    if arguments.collect:
        note_of_others(arguments.collect)
        return 0
    chosen = chosen_of(parts(), arguments.only)
    if arguments.json:
        print(json.dumps([part.name for part in chosen]))
        return 0
    if arguments.list or not chosen:
        print("\n".join(part.name for part in chosen) or "nightly: there is no such part; --list names them")
        return 0 if chosen else 2
    arguments.output.mkdir(parents=True, exist_ok=True)
    title, results = title_now(), []
    for number, part in enumerate(chosen, start=1):
        print(f"{number} of {len(chosen)}: {part.name}", flush=True)
        results.append(run(part, arguments.output, arguments.minutes))
        print(f"    {results[-1].result} in {results[-1].seconds / 60:.1f} minutes  {results[-1].remark}", flush=True)
        if arguments.keep is None:
            note(title, results[-1:])
        else:
            with arguments.keep.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps([title, *results[-1]]) + "\n")
    print(f"the log is in {arguments.keep or LOG.relative_to(ROOT)}, the output in {arguments.output}")
    return 0 if all(ended.is_good for ended in results) else 1


if __name__ == "__main__":
    sys.exit(main())
