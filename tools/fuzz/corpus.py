"""The corpus in the repository: for each target one text file, one input a line."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha1
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tests" / "fuzz" / "corpus"
#: Inputs that once broke something; they stay, even without new coverage.
REGRESSIONS = FOLDER.parent / "regressions"


def load(name: str) -> list[bytes]:
    """Return the inputs of a target, regressions first."""
    return _read(REGRESSIONS / f"{name}.txt") + _read(FOLDER / f"{name}.txt")


def _read(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [bytes.fromhex(line) for line in lines if line]


def save(name: str, inputs: Iterable[bytes]) -> None:
    """Put these inputs in place of a target's corpus."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = sorted({data.hex() for data in inputs if data}, key=lambda line: (len(line), line))
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def write_files(inputs: Iterable[bytes], folder: Path) -> None:
    """Write inputs as libFuzzer wants them: a file each."""
    folder.mkdir(parents=True, exist_ok=True)
    for data in inputs:
        (folder / sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
