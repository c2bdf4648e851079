"""What names one of our objects has its type, so that a reader and mypy know what it can do."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "barnabas"
#: What our objects, and those of the libraries that we drive, are called; each in the plural, too.
NOUNS = {
    "accumulator", "admin", "assignment", "batch", "broker", "client", "cluster", "connection", "consumer",
    "context", "controller", "coordinator", "deferred", "engine", "group", "handler", "listener", "member",
    "message", "metadata", "node", "partition", "producer", "record", "request", "resource", "response", "selector",
    "session", "store", "subparser", "thread", "topic", "transaction",
}  # fmt: skip
#: Why a name may be anything → where: a file or folder below src/barnabas, and the function or class if not all of it.
ANYTHING = {
    "keys, values and stores are the application's, of any type": (
        "streams/dsl/",
        "streams/engine/",
        "streams/spark/send_errors.py ProductionHandler",
        "streams/state/buffer_changelog.py",
        "streams/state/caching.py StoreCache",
        "streams/state/segmented_caching.py",
        "streams/state/store.py StateStore",
    ),
    "it is compiled, and runs for each record or batch": (
        "client/producer/append.py",
        "records/decoder.py",
    ),
    "the answer's class follows from what was asked: each implementation names its own": (
        "client/admin/admin_api_handler.py",
        "client/producer/transactions/requests.py TransactionalRequest.handle",
        "network/client_request.py ClientResponse",
        "network/internal_ports.py InternalRequests",
    ),
    "it is what a user or a file says, and is looked at here": ("spark/co_partitions.py _group",),
    "the library makes its class while the program runs, or has no types": (
        "broker/zookeeper/kazoo_session.py _GetWatched",
        "spark/values/protobuf.py",
    ),
    "the elements are of one of two generated classes that look the same": (
        "broker/config_admin_manager.py ConfigAdmin.alter_all",
        "broker/membership/forwarding.py _parted",
    ),
    "the clients of threads and of an event loop take listeners of two kinds": (
        "testing/simulator/membership.py GroupMember.live",
    ),
    "it is generated": ("errors.py",),
}
#: A collection of anything is as untyped as one of them.
COLLECTIONS = ("list", "tuple", "set", "Collection", "Iterable", "Iterator", "Sequence")


def is_any(annotation: ast.expr | None) -> bool:
    """Whether it says nothing: Any, `Any | None`, or a collection of Any."""
    match annotation:
        case ast.Name(id="Any"):
            return True
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return is_any(left) or is_any(right)
        case ast.Subscript(value=ast.Name(id=name), slice=element) if name in COLLECTIONS:
            first = element.elts[0] if isinstance(element, ast.Tuple) else element
            return is_any(first)
        case ast.Subscript(value=ast.Name(id="dict" | "Mapping"), slice=ast.Tuple(elts=[key, element])):
            # What has names for keys are settings, or a row of JSON.
            return is_any(element) and ast.unparse(key) != "str"
    return False


def is_one_of_ours(name: str) -> bool:
    noun = name.strip("_")
    return noun in NOUNS or noun.removesuffix("s") in NOUNS or noun.removesuffix("es") in NOUNS


def untyped(text: str) -> list[str]:
    """Return the parameters and attributes that say nothing of what they are, as `Class.function name`."""
    found: list[str] = []

    def visit(node: ast.AST, within: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = within
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{child.name}" if within else child.name
            if isinstance(child, ast.arg) and is_one_of_ours(child.arg) and is_any(child.annotation):
                found.append(f"{within} {child.arg}")
            if isinstance(child, ast.AnnAssign) and is_any(child.annotation):
                name = child.target.attr if isinstance(child.target, ast.Attribute) else ast.unparse(child.target)
                if is_one_of_ours(name):
                    found.append(f"{within} {name}")
            visit(child, inner)

    visit(ast.parse(text), "")
    return found


def places() -> dict[str, list[str]]:
    """Return the files of the source with what is untyped in each."""
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    return {name: found for name, text in texts.items() if "Any" in text and (found := untyped(text))}


def is_within(file: str, what: str, place: str) -> bool:
    folder, _, owner = place.partition(" ")
    function = what.partition(" ")[0]
    return (
        file.startswith(folder)
        if folder.endswith("/")
        else file == folder and (not owner or function == owner or function.startswith(f"{owner}."))
    )


def test_what_names_one_of_our_objects_has_its_type() -> None:
    allowed = [place for some in ANYTHING.values() for place in some]
    found = [(file, what) for file, some in places().items() for what in some]

    assert [f"{file} {what}" for file, what in found if not any(is_within(file, what, one) for one in allowed)] == []
    assert [one for one in allowed if not any(is_within(file, what, one) for file, what in found)] == []


def test_a_planted_one_is_found() -> None:
    text = """
class Sender:
    def __init__(self, cluster: Any, name: str, *, metadata: "Metadata") -> None:
        self._client: Any = None
        self.values: Any = None
        self.settings_by_topics: Any = None
        self._topics: Mapping[str, Any] = {}

    def send(self, requests: Sequence[Any], *partitions: Any) -> Any:
        def told(response: Any | None, value: Any) -> None:
            nodes: dict[int, Any] = {}
"""
    assert untyped(text) == [
        "Sender.__init__ cluster",
        "Sender.__init__ _client",
        "Sender.send requests",
        "Sender.send partitions",
        "Sender.send.told response",
        "Sender.send.told nodes",
    ]
