"""Plants the faults of `planted_faults.py`, one at a time, each in a process of its own, and looks for them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from barnabas.testing.simulator.cluster import planted_faults as of_clusters
from barnabas.testing.simulator.planted_faults import MUTATIONS, Mutation
from barnabas.testing.simulator.runner import NOT_PLAYED

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_SOURCES = Path(__file__).parents[3]


class _MutatedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, mutation: Mutation) -> None:
        super().__init__(name, str(_path_of(mutation)))
        self._mutation = mutation

    def exec_module(self, module: ModuleType) -> None:
        code = compile(mutated_source(self._mutation), self.path, "exec")
        exec(code, module.__dict__)  # noqa: S102 - it is our own source


class _MutatedFinder(importlib.abc.MetaPathFinder):
    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        self._name = mutation.module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, _MutatedLoader(fullname, self._mutation))


def _path_of(mutation: Mutation) -> Path:
    return _SOURCES / f"{mutation.module.replace('.', '/')}.py"


def mutated_source(mutation: Mutation) -> str:
    """Return the source of the module with its fault. Raises ValueError if the piece to replace is not there once."""
    source = _path_of(mutation).read_text()
    found = source.count(mutation.old)
    if found != 1:
        raise ValueError(f"mutation {mutation.name!r}: {mutation.old!r} stands {found} times in {mutation.module}")
    return source.replace(mutation.old, mutation.new)


def plant(name: str) -> None:
    """Have this process import the module with its fault; to be called before anything imports it."""
    mutation = next(found for found in (*MUTATIONS, *of_clusters.MUTATIONS) if found.name == name)
    assert mutation.module not in sys.modules, "it is too late for the fault"
    mutated_source(mutation)
    sys.meta_path.insert(0, _MutatedFinder(mutation))


def hunt(name: str, seeds: int, first: int, jobs: int, *options: str) -> bool:
    """Look for a fault until it is found; prints a line of a table, and gives whether it was found.

    `options` are those of the command that plays the seeds.
    """
    began = time.monotonic()
    arguments = ["--mutation", name, "--seeds", str(seeds), "--seed", str(first), "--jobs", str(jobs), *options]
    run = subprocess.run(  # noqa: S603 - this very program
        [sys.executable, "-m", "barnabas.testing.simulator", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    played, oracle = _found(run.stdout)
    what = oracle or f"NOT FOUND {run.stderr[-300:]}"
    print(f"| {name} | {played} | {time.monotonic() - began:.0f} s | {what} |", flush=True)  # noqa: T201
    return bool(oracle)


def _found(output: str) -> tuple[str, str]:
    """How many seeds were played, and what the last of them found; nothing if it found nothing."""
    played = re.search(r"^(\d+) seeds, ", output, re.MULTILINE)
    violation = re.search(r"^VIOLATION: (.*?)(?=^VIOLATION: |^replay: )", output, re.MULTILINE | re.DOTALL)
    # Of a traceback the last line says what was wrong.
    last = violation[1].strip().splitlines()[-1] if violation else ""
    return played[1] if played else "?", "" if last == NOT_PLAYED else last[:110]
