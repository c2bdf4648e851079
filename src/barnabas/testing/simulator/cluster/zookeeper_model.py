"""A model of ZooKeeper: znodes, versions, sessions with ephemerals, watches, transactions; held to the real one.

`tests/contract/test_zookeeper_model.py` holds it to a real server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from barnabas.broker.zookeeper.operations import (
    ANY_VERSION,
    BadVersionError,
    Check,
    Children,
    ConnectionLostError,
    Create,
    Created,
    Delete,
    Get,
    Multi,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Operation,
    RefusedError,
    Result,
    SessionListener,
    SetData,
    Znode,
    ZooKeeperError,
)


@dataclass(frozen=True)
class _Node:
    data: bytes | None = None
    version: int = 0
    created: int = 0
    owner: int = 0
    made_children: int = 0
    children: frozenset[str] = frozenset()


class Watcher(Protocol):
    """Who has a session."""

    def fire(self, path: str) -> None:
        """Let it be told of a change, some time."""


@dataclass
class ModelZooKeeper:
    """The server. A session's operations are carried out at once; answers and events wait for `deliver`."""

    nodes: dict[str, _Node] = field(default_factory=lambda: {"/": _Node()})
    transaction_id: int = 0
    last_session: int = 0
    sessions: dict[int, Watcher] = field(default_factory=dict)
    data_watches: dict[str, set[int]] = field(default_factory=dict)
    child_watches: dict[str, set[int]] = field(default_factory=dict)

    def session(self) -> ModelSession:
        """Return a client, which connects when it is started."""
        return ModelSession(self)

    def deliver(self) -> None:
        """Hand out answers and events until there are none."""
        while any(session.deliver_one() for session in self._models):
            pass

    @property
    def has_news(self) -> bool:
        """Whether there is an answer or an event to hand out."""
        return any(session.waiting for session in self._models)

    @property
    def _models(self) -> list[ModelSession]:
        return [session for session in self.sessions.values() if isinstance(session, ModelSession)]

    def put(self, path: str, data: bytes | None = None) -> None:
        """Write a znode for a test, made with its parents if it is missing."""
        if path in self.nodes:
            self._must(SetData(path, data))
            return
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.put(parent)
        self._must(Create(path, data))

    def _must(self, operation: Operation) -> None:
        result = self.carry_out(0, operation)
        assert not isinstance(result, ZooKeeperError), result

    # -- operations --------------------------------------------------------------------------------------------------

    def carry_out(self, session: int, operation: Operation) -> Result:
        """Carry an operation out for a session."""
        if isinstance(operation, Get | Children):
            return self._read(session, operation)
        parts = operation.operations if isinstance(operation, Multi) else (operation,)
        nodes, self.transaction_id = dict(self.nodes), self.transaction_id + 1
        results, events = [], []
        for part in parts:
            try:
                result, changed = _write(nodes, part, session, self.transaction_id)
            except ZooKeeperError as problem:
                return problem
            results.append(result)
            events += changed
        self.nodes = nodes
        for kind, path in events:
            self._fire(self.child_watches if kind == "children" else self.data_watches, path)
            if kind == "deleted":
                self._fire(self.child_watches, path)
        if isinstance(operation, Multi | Check):
            return [Created(found.path, 0) if isinstance(found, Created) else found for found in results]
        return results[0]

    def _read(self, session: int, operation: Get | Children) -> Result:
        node = self.nodes.get(operation.path)
        watches = self.child_watches if isinstance(operation, Children) else self.data_watches
        if operation.watch and (node is not None or isinstance(operation, Get)):
            watches.setdefault(operation.path, set()).add(session)
        if node is None:
            return NoNodeError(operation.path, "there is no such znode")
        if isinstance(operation, Children):
            return sorted(node.children)
        return Znode(node.data, node.version, node.created, node.owner)

    def _fire(self, watches: dict[str, set[int]], path: str) -> None:
        for session in sorted(watches.pop(path, set())):
            client = self.sessions.get(session)
            if client is not None:
                client.fire(path)

    # -- sessions ----------------------------------------------------------------------------------------------------

    def begin(self, client: Watcher) -> int:
        """Begin a session."""
        self.last_session += 1
        self.transaction_id += 1
        self.sessions[self.last_session] = client
        return self.last_session

    def forget_watches(self, session: int) -> None:
        """Tell a session of no change any more: watches last as long as a connection."""
        for watches in (self.data_watches, self.child_watches):
            for told in watches.values():
                told.discard(session)

    def end(self, session: int) -> None:
        """End a session, and delete its ephemeral znodes."""
        self.sessions.pop(session, None)
        self.forget_watches(session)
        for path in sorted(path for path, node in self.nodes.items() if node.owner == session):
            self._must(Delete(path))


def _write(
    nodes: dict[str, _Node], operation: Any, session: int, transaction_id: int
) -> tuple[Result, list[tuple[str, str]]]:
    path = operation.path
    if isinstance(operation, Create):
        return _create(nodes, operation, session, transaction_id)
    node = nodes.get(path)
    if node is None:
        raise NoNodeError(path, "there is no such znode")
    if operation.version not in (ANY_VERSION, node.version):
        raise BadVersionError(path, "the znode has another version")
    if isinstance(operation, Check):
        return None, []
    if isinstance(operation, SetData):
        nodes[path] = replace(node, data=operation.data or None, version=node.version + 1)
        return node.version + 1, [("data", path)]
    assert isinstance(operation, Delete)
    if node.children:
        raise NotEmptyError(path, "the znode has children")
    parent, name = _split(path)
    del nodes[path]
    nodes[parent] = replace(nodes[parent], children=nodes[parent].children - {name})
    return None, [("deleted", path), ("children", parent)]


def _create(
    nodes: dict[str, _Node], operation: Create, session: int, transaction_id: int
) -> tuple[Result, list[tuple[str, str]]]:
    parent, name = _split(operation.path)
    above = nodes.get(parent)
    if above is None:
        raise NoNodeError(operation.path, "there is no such znode")
    if operation.sequential:
        name = f"{name}{above.made_children:010d}"
    path = f"{parent.rstrip('/')}/{name}"
    if path in nodes:
        raise NodeExistsError(operation.path, "the znode is there already")
    if above.owner:
        raise RefusedError(operation.path, "ephemeral znodes have no children")
    owner = session if operation.ephemeral else 0
    nodes[path] = _Node(operation.data or None, 0, transaction_id, owner)
    nodes[parent] = replace(above, children=above.children | {name}, made_children=above.made_children + 1)
    return Created(path, transaction_id), [("data", path), ("children", parent)]


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent or "/", name


class ModelSession:
    """Implements `ZooKeeperSession`."""

    problem = ""

    def __init__(self, server: ModelZooKeeper) -> None:
        self.server = server
        self.id = 0
        self.waiting: deque[Callable[[], None]] = deque()
        self._listener: SessionListener | None = None
        self._is_connected = False
        self._unsent: list[tuple[Operation, Callable[[Result], None]]] = []
        self._in_flight: list[tuple[str, Callable[[Result], None]]] = []

    def start(self, listener: SessionListener) -> None:
        """See `ZooKeeperSession`."""
        self._listener = listener
        self.connect()

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """See `ZooKeeperSession`."""
        if not self._is_connected:
            self._unsent.append((operation, done))
            return
        if self.id in self.server.sessions:
            result = self.server.carry_out(self.id, operation)
        else:
            result = ConnectionLostError(getattr(operation, "path", ""), "the session has expired")
        self._in_flight.append((getattr(operation, "path", ""), done))

        def answer() -> None:
            self._in_flight.pop(0)
            done(result)

        self.waiting.append(answer)

    def fire(self, path: str) -> None:
        """See `Watcher`."""
        self.waiting.append(lambda: self._tell(path))

    def _tell(self, path: str) -> None:
        assert self._listener is not None
        self._listener.changed(path)

    def deliver_one(self) -> bool:
        """Hand out one answer or event."""
        if not self.waiting:
            return False
        self.waiting.popleft()()
        return True

    # -- what a test does to it --------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Whether a server is reached."""
        return self._is_connected

    def connect(self) -> None:
        """Reach a server, in the session from before if it is not over."""
        assert self._listener is not None
        if self.id not in self.server.sessions:
            self.id = self.server.begin(self)
        self._is_connected = True
        self._listener.connected(self.id)
        unsent, self._unsent = self._unsent, []
        for operation, done in unsent:
            self.submit(operation, done)

    def disconnect(self) -> None:
        """Lose the server: what is in flight may have been carried out, and nothing tells which."""
        assert self._listener is not None
        self._is_connected = False
        self.server.forget_watches(self.id)
        self.waiting.clear()
        lost, self._in_flight = self._in_flight, []
        self._listener.disconnected()
        for path, done in lost:
            done(ConnectionLostError(path, "the connection ended before the answer came"))

    def expire(self) -> None:
        """Be away for so long that the session ends; `connect` begins another one."""
        if self._is_connected:
            self.disconnect()
        self.server.end(self.id)

    def close(self) -> None:
        """See `ZooKeeperSession`."""
        self._is_connected = False
        self.waiting.clear()
        self.server.end(self.id)
