"""A session for one program, before there is a broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.broker.zookeeper.operations import ConnectionLostError, Program, run
from barnabas.errors import KafkaError, KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.operations import ZooKeeperSession

T = TypeVar("T")


async def carry_out(session: ZooKeeperSession, timeout: float, begin: Callable[[], Program[T]], what: str) -> T:
    """Connect, carry a program out, and return its result; the session is closed then.

    Where the connection is lost on the way it begins anew on the next one, so the program may be carried out twice.

    Raises `KafkaTimeoutError` without an answer in `timeout` seconds, with `what` was to be done, and `ZooKeeperError`.
    """
    listener = _OneProgram(session, begin)
    session.start(listener)
    try:
        async with asyncio.timeout(timeout):
            return await listener.done
    except TimeoutError:
        raise KafkaTimeoutError(
            f"{what}: ZooKeeper did not answer in {timeout} s (zookeeper.connection.timeout.ms): "
            f"{session.problem or 'is it running, and reached from here?'}"
        ) from None
    finally:
        session.close()


class _OneProgram(Generic[T]):
    """Implements `SessionListener`: begins on each connection until the program has come to its end."""

    def __init__(self, session: ZooKeeperSession, begin: Callable[[], Program[T]]) -> None:
        self._session = session
        self._begin = begin
        self.done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def connected(self, session_id: int) -> None:
        """See `SessionListener`."""
        if not self.done.done():
            run(self._session, self._begin(), self._finished)

    def _finished(self, result: T | KafkaError) -> None:
        if self.done.done() or isinstance(result, ConnectionLostError):
            return
        if isinstance(result, KafkaError):
            self.done.set_exception(result)
        else:
            self.done.set_result(result)

    def disconnected(self) -> None:
        """See `SessionListener`."""

    def changed(self, path: str) -> None:
        """See `SessionListener`."""
