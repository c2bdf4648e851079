"""The short form of `./run fuzz`: nothing but a clean error or a closed connection comes out of any bytes."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fuzz import TARGETS, target
from tools.fuzz.corpus import FOLDER, load

every_target = pytest.mark.parametrize("name", TARGETS)
#: Behind these is a whole broker, which it takes seconds to import where each branch is to be counted.
_DEAR = ("broker", "coordinators", "logins")


def mutated(data: bytes, source: random.Random) -> bytes:
    """The input with a few bytes changed, taken away, put in or doubled."""
    changed = bytearray(data)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(changed) + 1)
        end = at + source.choice((0, 1, 1, 2, 4, 8))
        kept = bytes(changed[at:end])
        changed[at:end] = source.choice((b"", kept + kept, source.randbytes(max(1, len(kept))), b"\xff\xff", b"\x7f"))
    return bytes(changed)


@every_target
def test_the_corpus_breaks_nothing(name: str) -> None:
    inputs = load(name)
    assert len(inputs) >= 20
    chosen = target(name)
    for data in inputs:
        chosen.run(data)


@every_target
def test_inputs_like_those_of_the_corpus_break_nothing(name: str) -> None:
    inputs, source = load(name), random.Random(7)
    chosen = target(name)
    for _ in range(100 if name in ("broker", "log", "coordinators") else 500 if name == "logins" else 2000):
        data = mutated(source.choice(inputs), source)
        try:
            chosen.run(data)
        except BaseException as problem:
            problem.add_note(f"the input was {data.hex()}")
            raise


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.txt")) < 1_000_000


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this platform")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in _DEAR else name for name in TARGETS]
)
def test_a_short_search_guided_by_coverage_finds_nothing(name: str, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    done = subprocess.run(
        # The same each time: what is new is looked for at night, so that nobody's change waits for another's fault.
        [sys.executable, "-m", "tools.fuzz", name, "--runs", "150", "--seed", "1"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "that covered more" in done.stdout


def test_a_broken_target_is_told_with_its_input(tmp_path: Path) -> None:
    source = tmp_path / "inputs"
    source.mkdir()
    (source / "one").write_bytes(b"\0\0")
    program = (
        "import sys; from tools.fuzz import messages; import tools.fuzz.__main__ as command\n"
        "def fail(data): raise ValueError('broken')\n"
        f"messages.run = fail; sys.argv[1:] = ['messages', '--replay', {str(source)!r}]; command.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "messages breaks at this input: 0000" in done.stderr
