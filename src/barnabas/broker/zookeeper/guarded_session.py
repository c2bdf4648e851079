"""A session with ZooKeeper after which nothing hangs: a fault of this program makes its owner begin anew."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.faults import run_all
from barnabas.broker.zookeeper.operations import ConnectionLostError, Multi

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.faults import OnFault
    from barnabas.broker.instant import Instant
    from barnabas.broker.zookeeper.operations import Operation, Result, SessionListener, ZooKeeperSession

#: How long it waits before it begins anew, in seconds.
_PAUSE = 1.0


class _InFlight:
    """An operation whose answer is awaited."""

    __slots__ = ("done", "path")

    def __init__(self, path: str, done: Callable[[Result], None]) -> None:
        self.path = path
        self.done = done


class GuardedSession:
    """Passes a `ZooKeeperSession` on, and is a service of the dispatcher.

    When what follows an answer or an event raises, it is reported, and a moment later all is as after a lost
    connection: what is in flight fails with `ConnectionLostError`, and the listener is told `disconnected` and
    `connected`, upon which it reads everything again. `tell` gets what was being done, and what was raised.
    """

    def __init__(self, session: ZooKeeperSession, tell: OnFault) -> None:
        self._session = session
        self._tell = tell
        self._listener: SessionListener | None = None
        self._session_id: int | None = None
        self._in_flight: dict[_InFlight, None] = {}
        self._has_failed = False
        self._renew_at: float | None = None
        #: Called when it begins anew, after what was in flight has failed.
        self.on_renew: Callable[[], None] = lambda: None

    @property
    def problem(self) -> str:
        """See `ZooKeeperSession`."""
        return self._session.problem

    def start(self, listener: SessionListener) -> None:
        """See `ZooKeeperSession`."""
        self._listener = listener
        self._session.start(self)

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """See `ZooKeeperSession`."""
        awaited = _InFlight("" if isinstance(operation, Multi) else operation.path, done)
        self._in_flight[awaited] = None
        self._session.submit(operation, partial(self._answered, awaited))

    def close(self) -> None:
        """See `ZooKeeperSession`."""
        self._session.close()

    def _answered(self, awaited: _InFlight, result: Result) -> None:
        # One that was given up has been answered.
        if awaited in self._in_flight:
            del self._in_flight[awaited]
            self._do(partial(awaited.done, result))

    def _do(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as problem:  # noqa: BLE001 - all that was begun is begun anew
            self._has_failed = True
            self._tell("what follows an answer of ZooKeeper", problem)

    # -- SessionListener ---------------------------------------------------------------------------------------------

    def connected(self, session_id: int) -> None:
        """See `SessionListener`."""
        self._session_id = session_id
        if self._listener is not None:
            self._do(partial(self._listener.connected, session_id))

    def disconnected(self) -> None:
        """See `SessionListener`."""
        self._session_id = None
        if self._listener is not None:
            self._do(self._listener.disconnected)

    def changed(self, path: str) -> None:
        """See `SessionListener`."""
        if self._listener is not None:
            self._do(partial(self._listener.changed, path))

    # -- time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When `tick` is due."""
        if not self._has_failed:
            return inf
        return -inf if self._renew_at is None else self._renew_at

    def tick(self, instant: Instant) -> None:
        """Begin anew, if something has failed a while ago."""
        if not self._has_failed:
            return
        if self._renew_at is None:
            self._renew_at = instant.now + _PAUSE
        elif instant.now >= self._renew_at:
            self._has_failed, self._renew_at = False, None
            self._do(self._renew)

    def _renew(self) -> None:
        given_up, self._in_flight = list(self._in_flight), {}
        text = "it was given up after a fault of this broker"
        told: list[Callable[[], None]] = [partial(one.done, ConnectionLostError(one.path, text)) for one in given_up]
        told.append(self.on_renew)
        # Without a connection the listener waits for one already.
        if self._listener is not None and self._session_id is not None:
            told = [self._listener.disconnected, *told, partial(self._listener.connected, self._session_id)]
        run_all(told)
