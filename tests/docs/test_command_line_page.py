"""The page on the command line names every command."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.cli.main import COMMANDS

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "command-line.md"


def test_the_table_of_commands_has_each_command_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`([a-z-]+)[^`]*`", row)} == set(COMMANDS)
