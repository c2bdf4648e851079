"""The page on the command line and the changelog name every command."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from barnabas.cli.arguments import Parser
from barnabas.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guide" / "command-line.md"
CHANGELOG = ROOT / "CHANGELOG.md"


Words = tuple[str, ...]


def in_table() -> set[Words]:
    """What the rows name: `group list, describe` is two."""
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = set()
    for text in (text for row in rows for text in re.findall(r"`([^`]+)`", row)):
        first, *others = text.split(", ")
        *before, last = first.split()
        found |= {(*before, word) for word in (last, *others)}
    return found


def actions(words: Words, parser: argparse.ArgumentParser) -> Iterator[Words]:
    """Each command, or if it has actions each of those, and of theirs."""
    found = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not found:
        yield words
    for name, part in found[0].items() if found else ():
        yield from actions((*words, name), part)


def test_the_table_of_commands_has_each_command_and_no_other() -> None:
    assert {words[0] for words in in_table()} == set(COMMANDS)


def test_the_table_of_commands_has_each_action() -> None:
    parser = Parser(prog="barnabas")
    parts = parser.add_subparsers()
    for module, _ in COMMANDS.values():
        import_module(f"barnabas.cli.{module}").add_parser(parts)
    there = list(actions((), parser))
    # The name of a command stands for its actions only where it has none.
    named = {words for words in in_table() if len(words) > 1 or words in there}

    def is_named(found: Words) -> bool:
        return any(found[: len(words)] == words or words[: len(found)] == found for words in named)

    assert [found for found in there if not is_named(found)] == []


def test_the_changelog_tells_of_every_command() -> None:
    told = CHANGELOG.read_text(encoding="utf-8")

    assert [name for name in COMMANDS if not re.search(rf"`barnabas [a-z|-]*\b{name}\b|`{name}[` ]", told)] == []
