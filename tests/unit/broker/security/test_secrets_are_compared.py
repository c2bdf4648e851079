"""No secret is compared by `==`, whose time tells how much of a guess is right (CVE-2021-38153)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import barnabas

SOURCES = Path(barnabas.__file__).parent
#: A name whose last word is one of these holds something that proves an identity, or is made of it.
SECRETS = frozenset({"digest", "hmac", "mac", "nonce", "password", "proof", "secret", "signature"})
KEYS = frozenset({"client_key", "server_key", "stored_key", "salted_password"})
#: File and expression: where both sides are the operator's own.
ALLOWED = {("cli/user.py", "getpass.getpass('again: ') != password")}


def compared_secrets(source: str) -> Iterator[str]:
    """The comparisons in a source that should be `hmac.compare_digest`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
            sides = [node.left, *node.comparators]
            if any(map(holds_secret, sides)) and not any(isinstance(side, ast.Constant) for side in sides):
                yield ast.unparse(node)


def holds_secret(node: ast.expr) -> bool:
    while isinstance(node, ast.Call):
        node = node.func
    name = ""
    if isinstance(node, ast.Attribute):
        name = node.attr
    elif isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = str(node.slice.value)
    name = name.lower().replace("hexdigest", "digest").strip("_")
    return name in KEYS or name.rpartition("_")[2] in SECRETS


def test_no_source_compares_secrets_by_the_equals_sign() -> None:
    found = {
        (path.relative_to(SOURCES).as_posix(), text)
        for path in sorted(SOURCES.rglob("*.py"))
        # Made from the schema: they hold secrets, and compare none.
        if path.parent.name != "messages"
        for text in compared_secrets(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "stored_key == credential.stored_key", "a != hmac.digest(key, b'', 'sha256')", "sha256(x).hexdigest() == y",
        "given['password'] == password", "self._nonce != found", "proof == signature(key)",
    ],
)  # fmt: skip
def test_it_is_found_in_all_its_forms(source: str) -> None:
    assert list(compared_secrets(source))


@pytest.mark.parametrize("source", ["len(proof) != len(x)", "password == ''", "password_file == path", "a is secret"])
def test_what_is_no_comparison_of_secrets_is_left_alone(source: str) -> None:
    assert not list(compared_secrets(source))
