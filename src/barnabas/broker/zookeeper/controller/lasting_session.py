"""Operations that outlast a connection: what it left without an answer is carried out again (KafkaZkClient)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.zookeeper.controller.controller_znodes import CONTROLLER_EPOCH
from barnabas.broker.zookeeper.operations import (
    ANY_VERSION,
    Check,
    ConnectionLostError,
    Create,
    Created,
    Delete,
    Get,
    Multi,
    NoNodeError,
    SetData,
    Znode,
    ZooKeeperError,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.zookeeper.operations import Operation, Program, Result, ZooKeeperSession


class _Lost(NamedTuple):
    """An operation that is to be carried out; `is_again` says that it may have been already."""

    operation: Operation
    done: Callable[[Result], None]
    is_again: bool


class LastingSession:
    """The session of one reign, which goes on when the connection comes back in the same session.

    A read is made again. So is a write, which is one transaction with a check of `/controller_epoch`: where it fails
    then, the znodes tell whether that is because it was carried out before. Where they do not, its result is
    `ConnectionLostError`, as nothing is known of it.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._waiting: list[_Lost] = []
        self._is_paused = self._is_closed = False

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """See `Operations`."""
        self._submit(_Lost(operation, done, is_again=False))

    def pause(self) -> None:
        """Wait: no server is reached."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on, in the same session."""
        self._is_paused = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._submit(one)

    def close(self) -> None:
        """Carry out nothing more of what waits."""
        self._is_closed = True
        self._waiting.clear()

    def _submit(self, one: _Lost) -> None:
        if self._is_paused:
            self._waiting.append(one)
        else:
            self._session.submit(one.operation, partial(self._answered, one))

    def _answered(self, one: _Lost, result: Result) -> None:
        if isinstance(result, ConnectionLostError) and not self._is_closed:
            self._submit(one._replace(is_again=True))
        elif one.is_again and isinstance(one.operation, Multi) and _has_failed_itself(result):
            run(self._session, _outcome(one.operation.operations), partial(self._looked, one))
        else:
            one.done(result)

    def _looked(self, one: _Lost, outcome: Result) -> None:
        if isinstance(outcome, ConnectionLostError) and outcome.path != _UNKNOWN and not self._is_closed:
            self._submit(one)
        else:
            one.done(outcome)


#: The path of the error that tells that what became of a write cannot be told.
_UNKNOWN = ""


def _has_failed_itself(result: Result) -> bool:
    """Whether a transaction has failed, and not because another broker is controller."""
    return isinstance(result, ZooKeeperError) and result.path != CONTROLLER_EPOCH


def _outcome(operations: Sequence[Create | SetData | Delete | Check]) -> Program[Result]:
    """Return the results that a transaction had which was carried out, else `ConnectionLostError`."""
    writes = [one for one in operations if not isinstance(one, Check)]
    found = dict(zip(writes, (yield [Get(one.path) for one in writes]), strict=True))
    lost = next((one for one in found.values() if isinstance(one, ConnectionLostError)), None)
    if lost is not None:
        return lost
    if all(_stands(one, result) for one, result in found.items()):
        return [None if isinstance(one, Check) else _result(one, found[one]) for one in operations]
    return ConnectionLostError(_UNKNOWN, "whether it was carried out before the connection was lost is not known")


def _stands(write: Create | SetData | Delete, found: Result) -> bool:
    if isinstance(write, Delete):
        return isinstance(found, NoNodeError)
    if not isinstance(found, Znode) or (found.data or None) != (write.data or None):
        return False
    if isinstance(write, Create):
        return found.version == 0
    return write.version in (ANY_VERSION, found.version - 1)


def _result(write: Create | SetData | Delete, found: Result) -> Result:
    if isinstance(write, Create):
        return Created(write.path, found.created)
    return found.version if isinstance(write, SetData) else None
