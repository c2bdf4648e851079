"""The page on the command line and the changelog name every command."""

from __future__ import annotations

import re
from pathlib import Path

from barnabas.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "command-line.md"
CHANGELOG = ROOT / "CHANGELOG.md"


def test_the_table_of_commands_has_each_command_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`([a-z-]+)[^`]*`", row)} == set(COMMANDS)


def test_the_changelog_tells_of_every_command() -> None:
    told = CHANGELOG.read_text(encoding="utf-8")

    assert [name for name in COMMANDS if not re.search(rf"`barnabas [a-z|-]*\b{name}\b|`{name}[` ]", told)] == []
