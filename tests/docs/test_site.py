"""The site that `./run docs` makes: pages and docstrings without a warning, and every public name on a page."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.unit.test_public_face import LAZY

pytest.importorskip("sphinx")


@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning_and_shows_every_public_name(tmp_path: Path) -> None:
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]

    built = subprocess.run([*sphinx, str(ROOT / "docs"), str(tmp_path)], capture_output=True, text=True, check=False)

    assert built.returncode == 0, built.stderr
    pages = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "reference" / "api").glob("*.html"))
    for room in LAZY:
        for name in set(import_module(room).__all__) - {"__version__"}:
            assert f">{name}<" in pages, f"{room}.{name}"
