"""README, documentation and examples import from the public rooms only, and what they import is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks
from tests.unit.test_public_face import ROOMS

PUBLIC = {*ROOMS, "barnabas.protocol", "barnabas.protocol.messages"}
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
#: How barnabas is made may show its rooms.
READERS = [page for page in PAGES if "internals" not in page.parts and page.name not in {"ARCHITECTURE.md"}]


def imports(code: str) -> Iterator[tuple[str, str | None]]:
    """Module and name of each import of barnabas; None where the module itself is imported."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((name.name, None) for name in node.names if name.name.split(".")[0] == "barnabas")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "barnabas":
            yield from ((str(node.module), name.name) for name in node.names)


def refused(code: str) -> list[str]:
    """The imports that a user may not copy."""
    found = []
    for module, name in imports(code):
        public = module in PUBLIC or module.startswith("barnabas.protocol.messages.")
        if not public:
            found.append(f"{module} is not public")
        elif name is not None and not hasattr(import_module(module), name) and f"{module}.{name}" not in PUBLIC:
            found.append(f"{module} has no {name}")
    return found


@pytest.mark.parametrize("page", READERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_imports_public_names_only(page: Path) -> None:
    wrong = [
        f"{block.name}: {what}" for block in blocks(page) if block.language == "python" for what in refused(block.code)
    ]

    assert not wrong


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_imports_public_names_only(example: Path) -> None:
    assert not refused(example.read_text(encoding="utf-8"))
