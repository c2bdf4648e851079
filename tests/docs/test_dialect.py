"""One dialect of docstrings, where ruff's pydocstyle rules end: errors in prose, no sections of Google's or numpy's.

`Raises `X` when ...` is a sentence. The first line says what is done (ruff's D401).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import UnionType

import pytest

from tests.docs.pages import PAGES, ROOT

HOMES = ["src", "codegen", "tools", "benchmarks", "examples"]
FILES = [path for home in HOMES for path in sorted((ROOT / home).rglob("*.py")) if "messages" not in path.parts]
SECTION = re.compile(
    r"^\s*(Args|Arguments|Parameters|Returns|Yields|Raises|Note|Examples?|Attributes):\s*$", re.MULTILINE
)
#: What ruff takes for a noun, and is none.
THIRD_PERSON = {
    "Adds",
    "Asks",
    "Begins",
    "Blocks",
    "Bounds",
    "Brings",
    "Carries",
    "Checks",
    "Completes",
    "Delivers",
    "Does",
    "Forgets",
    "Gives",
    "Goes",
    "Holds",
    "Increases",
    "Keeps",
    "Lets",
    "Looks",
    "Moves",
    "Queues",
    "Reads",
    "Renews",
    "Sorts",
    "Stops",
    "Takes",
    "Tells",
    "Tries",
    "Turns",
    "Waits",
    "Writes",
}
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
#: In their place stand a client, a caller, an operator, a request, "any" or "also if".
RIDDLES = re.compile(r"\b(nobody|whoever|whatever|somebody|anybody)\b", re.IGNORECASE)
#: The list of Kafka's behaviours, in the words of its source.
CHECKLIST = ROOT / "docs" / "internals" / "CHECKLIST.md"


def docstrings(path: Path, kinds: type | UnionType) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("home", HOMES)
def test_docstrings_are_prose_without_sections(home: str) -> None:
    sections = [
        f"{path.relative_to(ROOT)}:{line}: {match[1]}"
        for path in FILES
        if path.is_relative_to(ROOT / home)
        for line, text in docstrings(path, ast.Module | ast.ClassDef | FUNCTION)
        if (match := SECTION.search(text))
    ]

    assert not sections, "say it in sentences, as in: Raises `ConfigError` when the name is unknown."


def test_functions_say_what_to_do_not_what_they_do() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.split()[0]}"
        for path in FILES
        for line, text in docstrings(path, FUNCTION)
        if text.split()[0] in THIRD_PERSON
    ]

    assert not found


def test_what_waits_for_an_answer_is_in_flight_and_what_is_being_done_is_in_progress() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    other_words = [
        path.relative_to(ROOT).as_posix()
        for path in [*FILES, *pages, ROOT / "README.md", ROOT / "ARCHITECTURE.md"]
        if re.search(r"\bunder way\b", path.read_text(encoding="utf-8"))
    ]

    assert other_words == []


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Give the comments of a source and the texts that are statements of their own, so docstrings; all of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words)), lineno=first):
                yield from enumerate(words.splitlines(), first)


def test_sentences_name_who_does_what() -> None:
    riddles = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in [*FILES, *PAGES]
        if path != CHECKLIST
        if RIDDLES.search(path.read_text(encoding="utf-8"))
        for line, text in prose(path)
        if (match := RIDDLES.search(text))
    ]

    assert not riddles
