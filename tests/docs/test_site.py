"""The site that `./run docs` makes: pages and docstrings without a warning, and every public name on a page."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.unit.test_public_face import LAZY

pytest.importorskip("sphinx")

PUBLIC = sorted({name for room in LAZY for name in import_module(room).__all__} - {"__version__"})


def build(kind: str, target: Path) -> subprocess.CompletedProcess[str]:
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", kind, str(ROOT / "docs"), str(target)]
    return subprocess.run(sphinx, capture_output=True, text=True, check=False)


@pytest.mark.timeout(600)
def test_pages_and_docstrings_are_read_without_a_warning_and_tell_of_every_public_name(tmp_path: Path) -> None:
    built = build("dummy", tmp_path)

    assert built.returncode == 0, built.stderr
    with (tmp_path / ".doctrees" / "environment.pickle").open("rb") as file:
        known = pickle.load(file).domaindata["py"]["objects"]
    told = {name.rpartition(".")[2] for name, found in known.items() if found.docname.startswith("reference/api/")}
    assert set(PUBLIC) <= told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_is_written_without_a_warning_and_shows_every_public_name(tmp_path: Path) -> None:
    built = build("html", tmp_path)

    assert built.returncode == 0, built.stderr
    pages = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "reference" / "api").glob("*.html"))
    assert not [name for name in PUBLIC if f">{name}<" not in pages]
