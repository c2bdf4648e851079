"""A method that C calls cannot say `super()`: compiled it raises RuntimeError, uncompiled it works."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def methods_called_by_c(declarations: str) -> set[tuple[str, str]]:
    """Return class and name of each method that a file of C types declares with `cdef` or `cpdef`."""
    found, cls = set(), ""
    for line in declarations.splitlines():
        if begun := re.match(r"cdef class (\w+)", line):
            cls = begun[1]
        elif method := re.match(r"    c(?:p?)def [^(]*?(\w+)\(", line):
            found.add((cls, method[1]))
    return found


def supers(source: str) -> set[tuple[str, str]]:
    """Return class and name of each method that calls `super()` without arguments."""
    return {
        (cls.name, method.name)
        for cls in ast.walk(ast.parse(source))
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef)
        for call in ast.walk(method)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "super" and not call.args
    }


def test_no_method_that_c_calls_says_super() -> None:
    wrong = [
        f"{path.relative_to(SOURCES)}: {cls}.{name}"
        for path in sorted(SOURCES.rglob("*.pxd"))
        if path.with_suffix(".py").exists()
        for cls, name in methods_called_by_c(path.read_text()) & supers(path.with_suffix(".py").read_text())
    ]
    assert wrong == []


def test_such_a_method_is_seen() -> None:
    declarations = (
        "cdef class Store(Base):\n    cdef int _at\n    cpdef object put(self, object key)\n    cdef int _n(self)"
    )
    source = "class Store(Base):\n  def put(self): super().put()\n  def get(self): super().get()"

    assert methods_called_by_c(declarations) == {("Store", "put"), ("Store", "_n")}
    assert methods_called_by_c(declarations) & supers(source) == {("Store", "put")}
