"""What is committed: sources and data, nothing that a command has left behind; how long and tangled sources may be."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
#: Folder or file at the top → what it is for stands in ARCHITECTURE.md, README.md or CONTRIBUTING.md.
TOP = {
    ".ci",
    ".dockerignore",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Containerfile",
    "LICENSE",
    "README.md",
    "benchmarks",
    "codegen",
    "docs",
    "examples",
    "pyproject.toml",
    "run",
    "setup.py",
    "src",
    "stubs",
    "tests",
    "tools",
}
#: Endings of what packagers, compilers and programs make.
MADE = (".whl", ".jar", ".so", ".pyd", ".pyc", ".class", ".o", ".db", ".log", ".tar", ".tar.gz", ".zip")
#: Above this a file wants a reason; the largest are vectors and Kafka's schema.
MOST_BYTES = 500_000


@pytest.fixture(scope="module")
def committed() -> list[Path]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone of the repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [Path(name) for name in listed.split("\0") if name]


def test_the_top_holds_what_belongs_there(committed: list[Path]) -> None:
    assert {path.parts[0] for path in committed} <= TOP


def test_nothing_that_a_command_makes_is_committed(committed: list[Path]) -> None:
    assert [path for path in committed if path.name.endswith(MADE)] == []


def test_no_file_is_large(committed: list[Path]) -> None:
    there = [path for path in committed if (ROOT / path).is_file()]
    assert [path for path in there if (ROOT / path).stat().st_size > MOST_BYTES] == []


def test_the_unit_tests_lie_in_the_rooms_of_the_source(committed: list[Path]) -> None:
    unit = Path("tests/unit")
    rooms = {
        path.parent.relative_to(unit) for path in committed if path.is_relative_to(unit) and path.match("test_*.py")
    }
    # What is beside the source is tested there, too.
    beside = {Path("tools"), Path("support")}
    assert [room for room in sorted(rooms - beside) if not (ROOT / "src" / "barnabas" / room).is_dir()] == []


def test_a_test_file_can_be_run_alone(committed: list[Path]) -> None:
    """Another one is imported by its whole name: by its own alone it is found only after its folder was collected."""
    there = [path for path in committed if path.is_relative_to("tests") and path.suffix == ".py"]
    # Hooks are put on the path by `tests/conftest.py`.
    names = {path.stem for path in there if not path.is_relative_to("tests/hooks")}
    found = []
    for path in there:
        for node in ast.walk(ast.parse((ROOT / path).read_text())) if (ROOT / path).is_file() else ():
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                imported.append(str(node.module))
            found += [f"{path}: {name}" for name in imported if name in names and name not in sys.stdlib_module_names]
    assert found == []


# -- limits of form: a file is one idea, a function can be read at once, and imports go one way ----------------------

#: What is compiled as one module for speed, and may be longer.
LONG_FILES = {Path("src/barnabas/client/producer/append.py"), Path("src/barnabas/protocol/codec.py")}
MOST_LINES = 600
MOST_LINES_OF_A_FUNCTION = 70
#: The one circle of types: what the methods of streams and tables return (`barnabas.streams.dsl`, rule 6).
TYPES_GO_ROUND = {
    "aggregating",
    "branched",
    "cogrouped",
    "foreign_key_join",
    "kgrouped_stream",
    "kgrouped_table",
    "kstream",
    "ktable",
    "stream_joins",
    "table_joins",
    "table_sources",
    "windowed_streams",
}
GENERATED = ("src/barnabas/protocol/messages/", "src/barnabas/errors.py")
#: What a caller can still tell apart; `self` does not count.
MOST_PARAMETERS = 6
#: Why a function has more → which do, below src/barnabas.
MANY_PARAMETERS = {
    "users know the signature from Kafka, or give each by its name": (
        "aio/producer.py Producer.send",
        "broker/embedded.py Broker.__init__",
        "client/producer/append.py RecordSending.send",
        "client/producer/append.py SendPath._do_send",
        "client/producer/append.py SendPath.do_send",
        "client/producer/producer.py Producer.send",
        "client/producer/producer_interceptors.py InterceptingSendPath.do_send",
        "records/arrow.py decode_arrow",
        "records/decoder.py decode_records",
        "streams/topology/topology.py Topology.add_global_store",
        "streams/topology/topology.py Topology.add_read_only_state_store",
        "testing/mock_producer.py MockProducer.send",
    ),
    "it runs for each record or batch, compiled: a value that holds the arguments would cost more than the work": (
        "broker/log/plain_append.py _is_sound",
        "client/producer/append.py RecordAppender._append_to_last",
        "client/producer/append.py RecordAppender.try_append",
        "client/producer/append.py _append_to",
        "records/arrow.py ColumnBuilder.append",
        "records/decoder.py RecordsDecoder.__init__",
        "streams/engine/record.py input_record",
        "streams/engine/record.py input_records",
        "streams/serdes/record_context.py record_context",
    ),
    "it is a value, or the row of a table, with a parameter for each field": (
        "broker/groups/classic_group_member.py ClassicGroupMember.__init__",
        "broker/groups/offsets/offset_and_metadata.py OffsetAndMetadata.__init__",
        "broker/transactions/transaction_metadata.py TransactionMetadata.__init__",
        "client/cluster.py Cluster.__init__",
        "network/client_request.py ClientRequest.__init__",
        "network/client_request.py ClientResponse.__init__",
        "protocol/codec.py Field.__init__",
        "records/decoder.py ConsumerRecord.__init__",
        "spark/offset_limit.py OffsetLimit.__init__",
        "streams/engine/record.py InputRecord.__init__",
        "streams/serdes/record_context.py RecordContext.__init__",
    ),
    "its settings are given once, each by its name": (
        "broker/delayed_fetch.py DelayedFetch.__init__",
        "broker/raft/leader_state.py LeaderState.__init__",
        "client/producer/append.py SendPath.__init__",
        "network/security/jwt_assertion.py DefaultAssertionCreator.__init__",
        "streams/queries/store_view.py StoreView.__init__",
        "streams/state/session.py SessionStore.__init__",
        "streams/state/versioned.py VersionedKeyValueStore.__init__",
        "streams/state/window.py WindowStore.__init__",
        "testing/simulator/membership.py GroupMember.__init__",
    ),
}


class Source(NamedTuple):
    """What one pass over a file has found; an import is a module and the name that is taken from it, or none."""

    lines: int
    long_functions: list[str]
    many_parameters: list[str]
    imports_at_load: set[tuple[str, str]]
    all_imports: set[tuple[str, str]]


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported(node: ast.AST) -> set[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and node.module:
        return {(node.module, alias.name) for alias in node.names}
    return {(alias.name, "") for alias in node.names} if isinstance(node, ast.Import) else set()


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def look_at(text: str) -> Source:
    source = Source(text.count("\n"), [], [], set(), set())

    def visit(node: ast.AST, at_load: bool, within: str = "") -> None:
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            name = f"{within}{child.name}" if is_function or isinstance(child, ast.ClassDef) else ""
            if is_function and parameters(child) > MOST_PARAMETERS:
                source.many_parameters.append(name)
            if is_function and child.end_lineno - child.lineno >= MOST_LINES_OF_A_FUNCTION:
                source.long_functions.append(child.name)
            names = imported(child)
            source.all_imports.update(names)
            if at_load:
                source.imports_at_load.update(names)
            if not isinstance(child, ast.expr):
                visit(child, at_load and not is_function and not is_for_types(child), f"{name}." if name else within)

    visit(ast.parse(text), True)
    return source


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    """All Python files of the repository that people write, by path."""
    folders = ("src", "tests", "tools", "benchmarks", "codegen", "examples")
    found = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    paths = {path.relative_to(ROOT).as_posix(): path for path in found}
    return {
        name: look_at(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if not name.startswith(GENERATED) and "node_modules" not in path.parts
    }


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other, by Tarjan's algorithm."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(name: str) -> None:
        numbers[name] = lowest[name] = len(numbers)
        path.append(name)
        for other in sorted(imports[name]):
            if other not in numbers:
                visit(other)
            if other in path:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == numbers[name]:
            at = path.index(name)
            if len(path) - at > 1:
                found.append(sorted(path[at:]))
            del path[at:]

    for name in sorted(imports):
        if name not in numbers:
            visit(name)
    return found


def modules(sources: dict[str, Source], *, at_load: bool) -> dict[str, set[str]]:
    named = {
        path[len("src/") : -len(".py")].replace("/", ".").removesuffix(".__init__"): source
        for path, source in sources.items()
        if path.startswith("src/")
    }
    found = {}
    for name, source in named.items():
        imports = source.imports_at_load if at_load else source.all_imports
        # A name is a module of its own, or something that stands in one.
        others = {f"{module}.{taken}" if f"{module}.{taken}" in named else module for module, taken in imports}
        found[name] = {other for other in others if other in named} - {name, "barnabas"}
    return found


def test_no_file_is_longer_than_one_idea(sources: dict[str, Source]) -> None:
    long = {path: source.lines for path, source in sources.items() if source.lines > MOST_LINES}

    assert {path: lines for path, lines in long.items() if Path(path) not in LONG_FILES} == {}


def test_no_function_is_longer_than_a_page(sources: dict[str, Source]) -> None:
    assert {path: source.long_functions for path, source in sources.items() if source.long_functions} == {}


def test_a_function_has_few_parameters_or_a_reason(sources: dict[str, Source]) -> None:
    found = [
        f"{path.removeprefix('src/barnabas/')} {name}"
        for path, source in sources.items()
        if path.startswith("src/barnabas/")
        for name in source.many_parameters
    ]

    assert sorted(found) == sorted(name for names in MANY_PARAMETERS.values() for name in names)


def test_no_modules_load_each_other(sources: dict[str, Source]) -> None:
    assert circles(modules(sources, at_load=True)) == []


def test_types_go_round_only_where_that_is_their_meaning(sources: dict[str, Source]) -> None:
    found = circles(modules(sources, at_load=False))

    assert [set(circle) - {f"barnabas.streams.dsl.{name}" for name in TYPES_GO_ROUND} for circle in found] == [set()]


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
