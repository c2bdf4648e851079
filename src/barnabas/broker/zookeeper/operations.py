"""What is asked of ZooKeeper, and programs of it: generators that yield operations and are sent their results.

A session (`ZooKeeperSession`) carries operations out, kazoo's or a model's. What is here knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from barnabas.errors import KafkaError, UnknownServerError

T = TypeVar("T")

#: In place of a version: whichever it is.
ANY_VERSION = -1


class ZooKeeperError(KafkaError):
    """An operation that ZooKeeper did not carry out; `path` is the znode's."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"ZooKeeper: {path}: {problem}")
        self.path = path


class NoNodeError(ZooKeeperError):
    """There is no such znode, or none to create it below."""


class NodeExistsError(ZooKeeperError):
    """The znode is there already."""


class BadVersionError(ZooKeeperError):
    """The znode has another version."""


class NotEmptyError(ZooKeeperError):
    """The znode has children, and is not deleted therefore."""


class ConnectionLostError(ZooKeeperError):
    """The connection or the session ended before the answer came: it may have been carried out, or not."""


class RefusedError(ZooKeeperError):
    """ZooKeeper refuses it, for want of authentication for instance."""


class Get(NamedTuple):
    """Asks for a znode; with `watch` the session tells of its next change, of its creation where it is missing."""

    path: str
    watch: bool = False


class Children(NamedTuple):
    """Asks for the names of a znode's children; with `watch` the session tells of their next change."""

    path: str
    watch: bool = False


class Create(NamedTuple):
    """Makes a znode; a sequential one gets ten digits after its name."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Writes a znode that has a version."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a znode without children that has a version."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Does nothing, in a `Multi`, but fails where a znode has another version."""

    path: str
    version: int


class Multi(NamedTuple):
    """Carries out all of it, or nothing."""

    operations: tuple[Create | SetData | Delete | Check, ...]


class Znode(NamedTuple):
    """A znode: `version` counts its writes, `created` is the transaction id (czxid) of its creation.

    `owner` is the session of an ephemeral one, else 0.
    """

    data: bytes | None
    version: int
    created: int
    owner: int = 0


class Created(NamedTuple):
    """The answer to `Create`: the path, and the transaction id of its creation."""

    path: str
    created: int


Operation = Get | Children | Create | SetData | Delete | Check | Multi
#: `Znode`, names of children, `Created`, the version after `SetData`, None, a list of these for a `Multi`, or an error.
Result = Any


class SessionListener(Protocol):
    """Who uses a session: called on its owner's thread only."""

    def connected(self, session_id: int) -> None:
        """Use the session from now on; one of another id than before has no watches and no ephemeral znodes."""

    def disconnected(self) -> None:
        """Wait: no server is reached. The session goes on if one is in time."""

    def changed(self, path: str) -> None:
        """Look again at a znode that was watched, or at its children; called once for each watch."""


class Operations(Protocol):
    """Carries operations out."""

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """Carry one operation out; `done` gets the result, an error as a `ZooKeeperError`."""


class ZooKeeperSession(Operations, Protocol):
    """A session with ZooKeeper. Answers come in the order of the operations."""

    @property
    def problem(self) -> str:
        """Why no server lets this client in, as far as is known; "" where that is not."""

    def start(self, listener: SessionListener) -> None:
        """Connect, and stay connected."""

    def close(self) -> None:
        """End the session, and with it its ephemeral znodes."""


#: Yields operations that may be carried out at once, and is sent their results.
Program = Generator[Sequence[Operation], list[Result], T]


def run(session: Operations, program: Program[T], done: Callable[[T | KafkaError], None]) -> None:
    """Carry a program out; `done` gets what it returns, or the `KafkaError` that it raises.

    Of a fault of this program it gets `UnknownServerError`, and then the fault is raised.
    """
    _go_on(session, program, done, None)


def _go_on(
    session: Operations,
    program: Program[T],
    done: Callable[[T | KafkaError], None],
    results: list[Result] | None,
) -> None:
    while True:
        try:
            operations = next(program) if results is None else program.send(results)
        except StopIteration as end:
            done(end.value)
            return
        except KafkaError as problem:
            done(problem)
            return
        except Exception as problem:
            done(UnknownServerError(f"a fault of this broker: {type(problem).__name__}: {problem}"))
            raise
        results = []
        if operations:
            break
    _Batch(len(operations), lambda found: _go_on(session, program, done, found)).submit(session, operations)


class _Batch:
    """Operations in flight together, until the last one is answered."""

    def __init__(self, count: int, done: Callable[[list[Result]], None]) -> None:
        self._results: list[Result] = [None] * count
        self._left = count
        self._done = done

    def submit(self, session: Operations, operations: Sequence[Operation]) -> None:
        for index, operation in enumerate(operations):
            session.submit(operation, lambda result, index=index: self._answered(index, result))  # type: ignore[misc]

    def _answered(self, index: int, result: Result) -> None:
        self._results[index] = result
        self._left -= 1
        if not self._left:
            self._done(self._results)


def found_or_none(result: Result) -> Znode | None:
    """Return the znode of an answer to `Get`, None for a missing one. Raises every other `ZooKeeperError`."""
    if isinstance(result, NoNodeError):
        return None
    return expect(result, Znode)


def check(result: Result) -> None:
    """Raise the error that an operation was answered with, if it was."""
    if isinstance(result, KafkaError):
        raise result


def make_missing(paths: Iterable[str]) -> Program[None]:
    """Make empty znodes, those above others first."""
    for path in paths:
        (made,) = yield [Create(path)]
        if not isinstance(made, NodeExistsError):
            check(made)


def expect(result: Result, kind: type[T]) -> T:
    """Return a result of the kind that its operation has. Raises `ZooKeeperError` for an error."""
    if isinstance(result, ZooKeeperError):
        raise result
    if not isinstance(result, kind):
        raise TypeError(f"ZooKeeper answered with {result!r} where {kind.__name__} was asked for")
    return result
