"""What pages and CI tell a reader to type is there: commands of `./run`, benchmarks, tools and paths of tests."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT

WRITTEN = [
    *PAGES,
    ROOT / ".ci" / "run",
    *sorted((ROOT / ".github" / "workflows").glob("*.yml")),
]
#: Pages that tell what was: names of that day.
LOGS = {ROOT / "docs/internals/nightly.md", ROOT / "benchmarks/LABBOOK.md", ROOT / "CHANGELOG.md"}


@cache
def commands() -> set[str]:
    """What `./run` knows: the words of its table of commands."""
    table = (ROOT / "run").read_text(encoding="utf-8").partition('case "$command" in')[2]
    return set(re.findall(r"^  (\w+)\)", table, re.MULTILINE))


@pytest.mark.parametrize(
    "page", [page for page in WRITTEN if page not in LOGS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_a_page_names_commands_that_there_are(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    unknown = sorted(set(re.findall(r"\./run ([a-z]\w*)", text)) - commands())
    benchmarks = re.findall(r"\./run bench ([a-z]\w+)", text) + re.findall(r"python -m benchmarks\.(\w+)", text)
    tools = re.findall(r"python -m (?:tools|tests)[\w.]*\w", text)
    modules = [ROOT / f"{tool.removeprefix('python -m ').replace('.', '/')}" for tool in tools]
    lost = [
        *(f"benchmarks/{name}.py" for name in benchmarks if not (ROOT / "benchmarks" / f"{name}.py").exists()),
        *(str(path) for path in modules if not (path.is_dir() or path.with_suffix(".py").exists())),
        *(
            path
            for path in re.findall(r"(?<![\w/.-])tests/[\w/]+\b(?!\*)(?:\.py)?", text)
            if not (ROOT / path).exists()
        ),
    ]

    assert not (unknown + lost)


def test_the_commands_that_run_lists_are_those_that_it_knows() -> None:
    told = subprocess.run(["./run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert set(re.findall(r"^\./run (\w+)", told, re.MULTILINE)) == commands()


def test_ci_runs_what_the_readme_calls_everything() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\./run test +# everything that proves the code", readme, re.MULTILINE)
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "exec ./run test"
