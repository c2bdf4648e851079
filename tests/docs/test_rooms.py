"""The contracts of the rooms (the docstrings of their `__init__`) and ARCHITECTURE.md name only what there is."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, prose

SOURCE = ROOT / "src" / "barnabas"
ROOMS = [path for path in sorted(SOURCE.rglob("__init__.py")) if "messages" not in path.parts]
#: Names of Kafka's, of Python's typing and of other people's.
FOREIGN = {"Admin", "Any", "Buffer", "Callable", "DumpLogSegments", "Iterator", "KafkaConsumer", "KafkaProducer"}
FOLDERS = {path.name for path in [*SOURCE.rglob("*"), *ROOT.glob("*")] if path.is_dir()}


@cache
def names() -> frozenset[str]:
    """Every class, function, method, constant and module of the source, of tests and of tools."""
    found = FOREIGN | set(dir(builtins))
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "tests" / "support").rglob("*.py")]:
        found.add(path.stem)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return frozenset(found)


def lost(text: str, room: Path) -> list[str]:
    """The classes, paths and folders that a text names and that are not there."""
    wrong = []
    for code in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+", code) and code not in names():
            wrong.append(code)
        if re.fullmatch(r"[a-z_]+/", code) and code.rstrip("/") not in FOLDERS:
            wrong.append(code)
    for path in re.findall(r"(?<![\w/.-])((?:[a-z_]+/)+[a-z_A-Z.-]+\.(?:py|md|json|txt|pxd))\b", text):
        if not any((base / path).exists() for base in (room, SOURCE, SOURCE / "broker", ROOT)):
            wrong.append(path)
    return wrong


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: str(path.parent.relative_to(SOURCE.parent)))
def test_the_contract_of_a_room_names_what_is_there(room: Path) -> None:
    contract = ast.get_docstring(ast.parse(room.read_text(encoding="utf-8"))) or ""

    assert contract, "a room says what it is"
    assert not lost(contract, room.parent)


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "internals").glob("[a-z]*.md"))])
def test_a_page_about_the_code_names_what_is_there(page: Path) -> None:
    assert not lost(prose(page), page.parent)


def test_the_map_is_short_and_its_rooms_and_files_are_there() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([\w/]+)` \|.*\| (`[\w/]+\.py`(?:, `[\w/]+\.py`)*) \|$", page, re.MULTILINE)
    rows = [(room, file.strip("`")) for room, files in found for file in files.split(", ")]

    assert len(page.encode()) <= 12 * 1024
    assert len(rows) > 20
    assert [row for row in rows if not (SOURCE / row[0] / row[1]).is_file()] == []
    packages = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.glob("*/__init__.py")}
    assert packages <= {room for room, _ in rows}
