"""The public rooms: every name loads, type checkers see the same names, and nothing public needs a deep import."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import barnabas
from barnabas import aio

LAZY = [
    "barnabas", "barnabas.aio", "barnabas.assignors", "barnabas.metrics", "barnabas.partitioners", "barnabas.records",
    "barnabas.security", "barnabas.serializers", "barnabas.spark", "barnabas.streams", "barnabas.testing",
    "barnabas.tracing",
]  # fmt: skip
ROOMS = [*LAZY, "barnabas.admin", "barnabas.errors"]
CLIENTS = [
    barnabas.Producer, barnabas.Consumer, barnabas.AdminClient, barnabas.Broker, barnabas.ConsumerRebalanceListener,
    aio.Producer, aio.Consumer, aio.AdminClient, barnabas.ProducerInterceptor,
    barnabas.ConsumerInterceptor,
]  # fmt: skip
#: Public by name only, so that one part of a client may call another.
HOUSE_ONLY = {"selector"}


def source_of(module: str) -> ast.Module:
    path = Path(barnabas.__file__).parent.joinpath(*module.split(".")[1:])
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8"))


def imports_of(tree: ast.AST) -> dict[str, tuple[str, str]]:
    """The names that a module takes from others of barnabas: their module, and their name there."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("barnabas."):
            found |= {name.asname or name.name: (node.module, name.name) for name in node.names}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_loads(room: str) -> None:
    module = import_module(room)
    names = getattr(module, "__all__", dir(module))

    assert [name for name in names if not hasattr(module, name)] == []
    assert set(names) <= set(dir(module))


@pytest.mark.parametrize("room", LAZY)
def test_type_checkers_see_the_names_that_load(room: str) -> None:
    module = import_module(room)
    block = next(
        node for node in source_of(room).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {name: home for name, (home, _) in imports_of(block).items()}
    loaded = {name: home for home, names in module._HOMES.items() for name in names.split()}

    assert seen == loaded
    assert set(module.__all__) - set(seen) <= {"__version__", "register"}


@pytest.mark.parametrize("room", LAZY)
def test_an_unknown_name_is_an_error_that_lists_the_known_ones(room: str) -> None:
    module = import_module(room)
    known = next(name for name in module.__all__ if name not in {"__version__", "register"})

    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'Nonsense'; it has .*{known}"):
        _ = module.Nonsense


@cache
def public_names() -> set[str]:
    modules = (import_module(room) for room in ROOMS)
    return {name for module in modules for name in getattr(module, "__all__", dir(module))}


def names_in(annotation: ast.AST) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


def public_methods(client: type) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The methods that a user may call, each from the class of the house that defines it first, and that module."""
    done = set()
    for base in (base for base in inspect.getmro(client) if base.__module__.startswith("barnabas.")):
        classes = [node for node in source_of(base.__module__).body if isinstance(node, ast.ClassDef)]
        for node in (node for found in classes if found.name == base.__name__ for node in ast.walk(found)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in done:
                done.add(node.name)
                if (not node.name.startswith("_") or node.name == "__init__") and node.name not in HOUSE_ONLY:
                    yield base.__module__, node


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}.{client.__name__}")
def test_all_that_a_public_method_takes_and_gives_has_a_public_home(client: type) -> None:
    homeless = set()
    for module, method in public_methods(client):
        tree = source_of(module)
        imported = imports_of(tree)
        ours = imported.keys() | {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
        aliases = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        arguments = method.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        annotations = [one.annotation for one in given if one is not None] + [method.returns]
        used = {name for annotation in annotations if annotation is not None for name in names_in(annotation)}
        names = {imported.get(name, ("", name))[1] for name in used & (ours | aliases) if len(name) > 1}
        homeless |= {f"{method.name}: {name}" for name in names - public_names()}

    assert not homeless


def test_no_room_loads_more_than_its_own_file() -> None:
    """A table is cheap only while nothing behind it is loaded."""
    import subprocess

    code = "import sys\n" + "".join(f"import {room}\n" for room in LAZY) + "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert {name for name in done.stdout.split() if name.startswith("barnabas")} == set(LAZY)
