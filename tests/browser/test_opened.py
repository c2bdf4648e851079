"""What serves a page, in a terminal: it opens it in the person's browser, and prints the link in any case."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.browser import TIMEOUT_MS, Watched, chromium

pytest.importorskip("starlette")

#: A browser that only notes what it was to open.
NOTES = """#!/bin/sh
printf %s "$1" > "$0.part" && mv "$0.part" "$0.link"
"""


def until_there(path: Path) -> str:
    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while not path.exists():
        assert time.monotonic() < deadline, f"nothing opened {path}"
        time.sleep(0.05)
    return path.read_text()


def read_line(terminal: int, wanted: bytes) -> str:
    text = b""
    while wanted not in text or not text.endswith(b"\n"):
        text += os.read(terminal, 4096)
    return text.decode()


def test_the_page_of_a_stage_opens_by_itself(tmp_path: Path) -> None:
    noting = tmp_path / "browser"
    noting.write_text(NOTES)
    noting.chmod(0o755)
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "barnabas.cli.main", "anatomy", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=end, env={**os.environ, "BROWSER": f"{noting} %s"})
    os.close(end)
    try:
        printed = read_line(terminal, b"anatomy at ")
        link = until_there(Path(f"{noting}.link"))
        assert link in printed
        with chromium() as browser:
            watched = Watched(browser.new_page(), link.partition("/login")[0])
            watched.page.goto(link)
            watched.page.wait_for_selector(".picture .lane")
            assert watched.wrong == []
    finally:
        process.terminate()
        process.wait()
        os.close(terminal)


#: All that serve a page and may open it.
COMMANDS = {
    "anatomy": ["barnabas.cli.main", "anatomy", "--listen", "127.0.0.1:0"],
    "up --console": ["barnabas.cli.main", "up", "--listen", "127.0.0.1:0", "--console"],
    "up --set --console": [
        "barnabas.cli.main",
        "up",
        "--listen",
        "127.0.0.1:0",
        "--set",
        "num.partitions=1",
        "--console",
    ],
    "sim --watch": ["barnabas.testing.simulator", "--seed", "3", "--watch"],
}


@pytest.mark.parametrize("is_asked", [False, True], ids=["opened", "--no-browser"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_browser_is_opened_where_that_is_asked(tmp_path: Path, name: str, is_asked: bool) -> None:
    noting = tmp_path / "browser"
    noting.write_text(NOTES)
    noting.chmod(0o755)
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", *COMMANDS[name], *(["--no-browser"] if is_asked else [])]
    environment = {**os.environ, "BROWSER": f"{noting} %s", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=end, env=environment, cwd=tmp_path)
    os.close(end)
    try:
        printed = read_line(terminal, b" at http://127.0.0.1")
        if is_asked:
            # It would be opened right after the link was printed.
            time.sleep(2)
            assert not Path(f"{noting}.link").exists()
        else:
            assert until_there(Path(f"{noting}.link")) in printed
    finally:
        process.terminate()
        process.wait()
        os.close(terminal)
