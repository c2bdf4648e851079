"""Whether what a mark breaks is still there: read from the sources, nothing is imported or run.

So it takes a second, and a renamed function is found by the quick tests rather than by the next verification.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = ROOT / "src"
TESTS = ROOT / "tests"
TARGET = re.compile(r"barnabas(\.\w+)+:\w+(\.\w+)*")


class Named(NamedTuple):
    """A string in a test that names a function of the source, such as `barnabas.x.y:Class.method`."""

    place: str
    target: str


@functools.cache
def named_in(path: Path) -> tuple[Named, ...]:
    """Find every target that a test file names, written out or put together from constants of its module."""
    text = path.read_text(encoding="utf-8")
    # Parsing takes the time, and most files name nothing.
    return tuple(_named_in(ast.parse(text), path)) if '"barnabas.' in text else ()


def _named_in(tree: ast.Module, path: Path) -> Iterator[Named]:
    constants: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            value = _text(statement.value, constants)
            if value is not None:
                constants[statement.targets[0].id] = value
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and id(node) not in inner:
            text = _text(node, constants)
            if text is not None and TARGET.fullmatch(text):
                yield Named(f"{path.relative_to(ROOT)}:{node.lineno}", text)


def _text(node: ast.expr, constants: dict[str, str]) -> str | None:
    """Return the text of an expression made of literals and constants; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, constants)
    if isinstance(node, ast.JoinedStr):
        parts = [_text(part, constants) for part in node.values]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_text(node.left, constants), _text(node.right, constants)]
    else:
        return None
    return None if None in parts else "".join(part or "" for part in parts)


@functools.cache
def _source(module_name: str) -> ast.Module | None:
    path = SOURCES.joinpath(*module_name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return ast.parse(candidate.read_text(encoding="utf-8"))
    return None


def _defined(body: list[ast.stmt], name: str) -> ast.stmt | None:
    """Return what defines the name in a module's or class's body, or in an `if` or `try` there."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and statement.name == name:
            return statement
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return statement
        if isinstance(statement, ast.If | ast.Try):
            found = _defined([*statement.body, *statement.orelse], name)
            if found is not None:
                return found
    return None


def complaint(target: str) -> str | None:
    """Return what is wrong with `module:qualified.name`: which part of it names nothing; None when all of it does."""
    module_name, _, qualified_name = target.partition(":")
    tree = _source(module_name)
    if tree is None:
        return f"there is no module {module_name}"
    body, owner = tree.body, module_name
    for name in qualified_name.split("."):
        found = _defined(body, name)
        if found is None:
            return f"{owner} defines no {name}"
        body = found.body if isinstance(found, ast.ClassDef) else []
        owner = name
    return None


def dangling() -> list[str]:
    """One sentence for each place in the tests that names what is not there."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        for named in named_in(path):
            problem = complaint(named.target)
            if problem is not None:
                found.append(f"{named.place}: breaks={named.target!r}, but {problem}")
    return found
