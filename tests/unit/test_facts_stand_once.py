"""A fact of the protocol stands in one place: positions in a batch, kinds, special numbers, thresholds of versions."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from barnabas.errors import BY_CODE
from barnabas.protocol import thresholds
from barnabas.records import batch_header

ROOT = Path("src/barnabas")
PATHS = [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py")) if "messages" not in path.parts]
SCHEMA = json.loads((ROOT / "protocol/schema/messages.json").read_text(encoding="utf-8"))

#: A function of more nodes (of its syntax tree, without the docstring) says something.
LITTLE = 40
#: Why functions may have one body → their names, each with the files it stands in.
TWINS = {
    "a shell for each kind of consumer: what it does is in its core, and a public signature is written out": {
        "_instance_id client/consumer/consumer_base.py client/consumer/share/share_consumer_base.py",
        "_records aio/consumer.py aio/share_consumer.py",
    },
    "a few lines of a state machine, which stand beside its other states": {
        "_queue broker/membership/alter_partition_manager.py broker/membership/directory_assignments.py",
        "_wait broker/kraft/controller_registration_manager.py "
        "_wait_after_failure broker/membership/broker_lifecycle.py",
    },
}
BATCH = "records/batch_header.py"
#: Where the bytes of a batch, or of messages around it, are worked on.
READERS_OF_BATCHES = ("records/", "broker/log/", "broker/handlers/", "client/producer/", "client/consumer/fetching/")
FACTS = vars(batch_header)
POSITIONS = {value for name, value in FACTS.items() if name.endswith("_AT") and value > batch_header.LEADER_EPOCH_AT}
LAYOUTS = {value.format for value in FACTS.values() if isinstance(value, Struct) and len(value.format) > len(">qi")}


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.Module]:
    """All of them as trees, which take 175 MB: not longer than these tests."""
    return {path: ast.parse((ROOT / path).read_text(encoding="utf-8")) for path in PATHS}


def constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The constants of a module whose value stands there."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        if isinstance(target, ast.Name) and target.id.isupper():
            try:
                yield target.id.lstrip("_"), ast.literal_eval(value)
            except ValueError:
                continue


def room(path: str) -> str:
    return path.split("/")[0]


def test_the_size_of_a_batch_header_is_written_once(sources: dict[str, ast.Module]) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and type(node.value) is int
        and node.value == batch_header.HEADER_SIZE
        and not is_api_key(path, tree, node)
    ]

    assert found == [f"{BATCH}:{line}" for line in lines_with(BATCH, "HEADER_SIZE = ")]


def is_api_key(path: str, tree: ast.Module, constant: ast.Constant) -> bool:
    """Whether the number names the API DescribeProducers, or an error."""
    if path in ("protocol/api_keys.py", "broker/handlers/served_apis.py", "errors.py"):
        return True
    return any(name == "API" and value == constant.value for name, value in constants(tree))


def lines_with(path: str, text: str) -> list[int]:
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.startswith(text)]


def test_no_other_file_counts_the_bytes_of_a_batch(sources: dict[str, ast.Module]) -> None:
    readers = [path for path in PATHS if path.startswith(READERS_OF_BATCHES) and path != BATCH]
    positions = [
        f"{path}:{node.lineno}: {node.value}"
        for path in readers
        for parent in ast.walk(sources[path])
        for node in added_or_indexed(parent)
        if node.value in POSITIONS and path not in ("records/compressed_frames.py",)
    ]
    layouts = [
        f"{path}:{node.lineno}: {node.value}"
        for path in readers
        for node in ast.walk(sources[path])
        if isinstance(node, ast.Constant) and node.value in LAYOUTS
    ]

    assert positions + layouts == [], "records/batch_header.py has a name for it"


def added_or_indexed(node: ast.AST) -> Iterator[ast.Constant]:
    """The numbers that are added to something, or are an index or an end of a slice."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts: list[ast.expr | None] = [node.left, node.right]
    elif isinstance(node, ast.Subscript):
        inside = node.slice
        parts = [inside.lower, inside.upper] if isinstance(inside, ast.Slice) else [inside]
    else:
        return
    for part in parts:
        if isinstance(part, ast.Constant) and type(part.value) is int:
            yield part


def test_broker_and_client_share_what_the_protocol_numbers(sources: dict[str, ast.Module]) -> None:
    classes: dict[str, set[str]] = defaultdict(set)
    for path, tree in sources.items():
        for node in tree.body:
            bases = {base.id for base in getattr(node, "bases", []) if isinstance(base, ast.Name)}
            numbers = isinstance(node, ast.ClassDef) and (
                bases & {"IntEnum", "ProtocolEnum", "IntFlag"} or all_numbers(node)
            )
            if numbers and room(path) in ("broker", "client", "records", "network"):
                classes[node.name].add(path)  # type: ignore[attr-defined]  # it is a class

    kinds = {node.name for node in sources["protocol/kinds.py"].body if isinstance(node, ast.ClassDef)}

    assert not kinds & classes.keys()
    assert {name: paths for name, paths in classes.items() if len(paths) > 1} == {}


def all_numbers(node: ast.ClassDef) -> bool:
    """Whether a class is nothing but numbers with names."""
    body = [part for part in node.body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]
    return bool(body) and all(isinstance(part, ast.Assign) for part in body)


@pytest.mark.parametrize("suffix", ["_EPOCH", "_ID", "_SEQUENCE", "_SESSION", "_UUID", "_SIZE", "_COMMITTED", "_FROM"])
def test_a_number_of_the_protocol_has_one_home(suffix: str, sources: dict[str, ast.Module]) -> None:
    homes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, tree in sources.items():
        for name, value in constants(tree):
            if name.endswith(suffix) and type(value) is int and name not in NOT_OF_THE_PROTOCOL:
                homes[name, repr(value)].append(path)

    assert {name: paths for name, paths in homes.items() if len({room(path) for path in paths}) > 1} == {}


#: Same name, same number, and not the protocol's to say.
NOT_OF_THE_PROTOCOL: set[str] = set()


@pytest.mark.parametrize("name", ["zero uuid", "infinity", "the wall clock"])
def test_helpers_stand_once(name: str) -> None:
    pattern, home = {
        "zero uuid": (r"(?<![\w.])bytes\(16\)|b\"\\0\" \* 16", ["protocol/kafka_uuid.py"]),
        "infinity": (r"float\(\"inf\"\)|^_?[A-Z]+(: \w+)? = (math\.)?inf$", []),
        "the wall clock": (r"time\.time_ns\(\)|int\(time(\.time)?\(\) \* 1000\)", ["clock.py"]),
    }[name]
    found = [path for path in PATHS if re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)]

    # The producer's clock is a C function; this is what stands for it where nothing is compiled.
    assert [path for path in found if path != "client/producer/append.py"] == home


def first_version(message: str, field: str) -> int:
    """The version from which on a message has a field."""

    def search(fields: list[dict[str, Any]]) -> Iterator[int]:
        for found in fields:
            if found["name"] == field:
                yield int(re.match(r"\d+", found["versions"])[0])  # type: ignore[index]  # all have one
            yield from search(found.get("fields", []))

    [schema] = [entry for entry in SCHEMA if entry["name"] == message]
    return min(search(schema["fields"] + [f for s in schema.get("commonStructs", []) for f in s["fields"]]))


@pytest.mark.parametrize(
    ("threshold", "message", "field"),
    [
        ("PRODUCE_TOPIC_IDS_FROM", "ProduceRequest", "TopicId"),
        ("FETCH_TOPIC_IDS_FROM", "FetchRequest", "TopicId"),
        ("OFFSET_COMMIT_TOPIC_IDS_FROM", "OffsetCommitRequest", "TopicId"),
        ("OFFSET_FETCH_TOPIC_IDS_FROM", "OffsetFetchRequest", "TopicId"),
        ("OFFSET_FETCH_GROUPS_FROM", "OffsetFetchRequest", "Groups"),
        ("DELETE_TOPICS_BY_ID_FROM", "DeleteTopicsRequest", "TopicId"),
        ("FIND_COORDINATOR_KEYS_FROM", "FindCoordinatorRequest", "CoordinatorKeys"),
        ("LEAVE_GROUP_MEMBERS_FROM", "LeaveGroupRequest", "Members"),
        ("ADD_PARTITIONS_TO_TXN_BATCHED_FROM", "AddPartitionsToTxnRequest", "Transactions"),
        ("UPDATE_FEATURES_UPGRADE_TYPE_FROM", "UpdateFeaturesRequest", "UpgradeType"),
        ("LIST_CONFIG_RESOURCES_TYPES_FROM", "ListConfigResourcesRequest", "ResourceTypes"),
    ],
)
def test_a_threshold_is_the_schemas(threshold: str, message: str, field: str) -> None:
    assert getattr(thresholds, threshold) == first_version(message, field)


def test_no_client_writes_the_number_of_an_error(sources: dict[str, ast.Module]) -> None:
    names = {error.name for error in BY_CODE.values()}
    clients = [path for path in PATHS if path.startswith(("client/", "network/", "aio/"))]
    found = [f"{path}: {name}" for path in clients for name, _ in constants(sources[path]) if name in names]

    assert found == [], "take the code of the error's class"


def said(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """What a function does, without its docstring."""
    return function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body


def test_no_function_of_some_size_stands_twice(sources: dict[str, ast.Module]) -> None:
    found = defaultdict(list)
    for path, tree in sources.items():
        for node in ast.walk(tree):
            # What a constructor takes is part of a signature.
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name == "__init__":
                continue
            body = said(node)
            if sum(1 for statement in body for _ in ast.walk(statement)) > LITTLE:
                found["".join(map(ast.dump, body))].append((node.name, path))

    assert sorted(map(spelled, filter(lambda places: len(places) > 1, found.values()))) == sorted(
        twins for some in TWINS.values() for twins in some
    )


def spelled(places: list[tuple[str, str]]) -> str:
    """The places of one body: a name stands before the files in which it is called so."""
    words: list[str] = []
    last = ""
    for name, path in places:
        words += [path] if name == last else [name, path]
        last = name
    return " ".join(words)
