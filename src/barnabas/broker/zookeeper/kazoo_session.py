"""A session with a real ZooKeeper: kazoo's client, whose threads only hand over to the loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.broker.zookeeper.operations import (
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
    RefusedError,
    SetData,
    Znode,
    ZooKeeperError,
)
from barnabas.broker.zookeeper.zookeeper_security import Login, ZooKeeperSecurity
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.operations import Operation, Result, SessionListener

#: How soon a server is tried again, in seconds: at first, and at most.
_RETRY_DELAY, _MAX_RETRY_DELAY = 0.05, 1.0
#: How often the login is looked at, in seconds; and how kazoo says that it tries no more.
_LOOK_AGAIN = 1.0
_GIVEN_UP = ("AUTH_FAILED", "CLOSED")


def _kazoo() -> Any:
    try:
        import kazoo.client
        import kazoo.exceptions
        import kazoo.retry
    except ImportError as missing:
        raise ConfigError(
            "zookeeper.connect needs kazoo, which is not installed: pip install 'barnabas[zookeeper]'"
        ) from missing
    return kazoo


def _handler(context: ssl.SSLContext, failed: Callable[[str], None]) -> Any:
    """Return kazoo's threads with connections over TLS; kazoo's own TLS takes paths of PEM files only."""
    from kazoo.handlers.threading import SequentialThreadingHandler

    class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
        def create_connection(
            self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: object
        ) -> ssl.SSLSocket:
            plain = socket.create_connection(address, timeout)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return context.wrap_socket(plain, server_hostname=hostname)
            except OSError as problem:
                plain.close()
                failed(f"the TLS handshake with {hostname}:{address[1]} failed: {problem}")
                raise

    return TlsHandler()


class KazooSession:
    """Implements `ZooKeeperSession`; the listener and all answers are called in the running loop.

    `chroot` is the znode below which everything is, "" for none; it is made when it is missing. `session_timeout` is in
    seconds. Raises `ConfigError` where kazoo is not installed.
    """

    def __init__(
        self,
        servers: str,
        chroot: str,
        session_timeout: float,
        security: ZooKeeperSecurity = ZooKeeperSecurity(),  # noqa: B008 - immutable
    ) -> None:
        library = _kazoo()
        self._security = security
        self._chroot = chroot
        self._chroot_is_there = not chroot
        self._loop = asyncio.get_running_loop()
        self._errors = _translations(library.exceptions)
        self._not_tried = (library.exceptions.RolledBackError, library.exceptions.RuntimeInconsistency)
        # kazoo warns of each attempt to connect; what matters of that is told as a state.
        logger = logging.Logger("barnabas.zookeeper", logging.ERROR)
        logger.parent = logging.getLogger("barnabas")
        self._client = library.client.KazooClient(
            hosts=servers,
            timeout=session_timeout,
            connection_retry=library.retry.KazooRetry(
                max_tries=-1, delay=_RETRY_DELAY, max_delay=_MAX_RETRY_DELAY, ignore_expire=True
            ),
            logger=logger,
            handler=None if security.context is None else _handler(security.context, self._tls_failed),
            sasl_options=None if security.login is None else _sasl_options(security.login),
        )
        self._listener: SessionListener | None = None
        self._watches: dict[str, Callable[[Any], None]] = {}
        self._is_closed = False
        #: Why no server lets this client in, as far as is known; "" where that is not.
        self.problem = ""

    def start(self, listener: SessionListener) -> None:
        """See `ZooKeeperSession`."""
        self._listener = listener
        self._client.add_listener(lambda state: self._soon(self._state_changed, str(state)))
        self._client.start_async()
        if self._security.login is not None:
            self._loop.call_later(_LOOK_AGAIN, self._look_at_login)

    def _look_at_login(self) -> None:
        """Connect again after a login that failed: kazoo gives up then, also where a server has just ended."""
        if self._is_closed:
            return
        self._loop.call_later(_LOOK_AGAIN, self._look_at_login)
        if self._client.client_state in _GIVEN_UP:
            if not self.problem:
                self.problem = (
                    "it refuses this broker's login, or ended the connection meanwhile: check user and password of "
                    "zookeeper.sasl.jaas.config"
                )
                logging.getLogger("barnabas.zookeeper").error("ZooKeeper: %s", self.problem)
            self._loop.run_in_executor(None, self._restart)

    def _restart(self) -> None:
        self._client.stop()
        if not self._is_closed:
            self._client.start_async()

    def close(self) -> None:
        """See `ZooKeeperSession`: returns when the session has ended, or could not be ended in time."""
        self._is_closed = True
        self._client.stop()
        self._client.close()

    def _soon(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def _state_changed(self, state: str) -> None:
        if self._is_closed or self._listener is None:
            return
        if state != "CONNECTED":
            self._listener.disconnected()
            return
        self.problem = ""
        if self._chroot_is_there:
            self._listener.connected(self._session_id)
        else:
            self._make_chroot()

    def _tls_failed(self, problem: str) -> None:
        """Tell of it once; called in a thread of kazoo's."""
        if self.problem != problem:
            self.problem = problem
            logging.getLogger("barnabas.zookeeper").error("ZooKeeper: %s", problem)

    @property
    def _session_id(self) -> int:
        client_id = self._client.client_id
        return client_id[0] if client_id is not None else 0

    def _make_chroot(self) -> None:
        parts = self._chroot.strip("/").split("/")
        paths = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]

        def made(result: Result, left: int) -> None:
            if isinstance(result, ConnectionLostError) or self._is_closed:
                return
            if left and (not isinstance(result, ZooKeeperError) or isinstance(result, NodeExistsError)):
                self._ask(Create(paths[-left]), paths[-left], lambda found: made(found, left - 1))
                return
            # One that may not be made is told by the first operation below it.
            self._chroot_is_there = True
            if self._listener is not None:
                self._listener.connected(self._session_id)

        made(None, len(paths))

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """See `ZooKeeperSession`."""
        path = "" if isinstance(operation, Multi) else operation.path
        self._ask(operation, self._chroot + path, done)

    def _ask(self, operation: Operation, path: str, done: Callable[[Result], None]) -> None:
        answer = self._call(operation, path)
        named = operation.operations[0].path if isinstance(operation, Multi) else operation.path

        def completed(found: Any) -> None:
            problem = found.exception
            result = self._result(operation, found.value) if problem is None else self._translated(named, problem)
            self._soon(self._give, done, result)

        answer.rawlink(completed)

    def _give(self, done: Callable[[Result], None], result: Result) -> None:
        if not self._is_closed:
            done(result)

    def _call(self, operation: Operation, path: str) -> Any:
        client = self._client
        match operation:
            case Get(_, watch):
                if watch:
                    # A missing znode is watched for its creation, which reading it does not do.
                    return _GetWatched(client, path, self._watch(operation.path))
                return client.get_async(path)
            case Children(_, watch):
                return client.get_children_async(path, self._watch(operation.path) if watch else None)
            case Create(_, data, ephemeral, sequential):
                return client.create_async(
                    path, data, self._acl(operation.path), ephemeral, sequential, include_data=True
                )
            case SetData(_, data, version):
                return client.set_async(path, data, version)
            case Delete(_, version):
                return client.delete_async(path, version)
            case Check(_, version):
                return self._transaction((operation,))
            case Multi(operations):
                return self._transaction(operations)

    def _transaction(self, operations: tuple[Create | SetData | Delete | Check, ...]) -> Any:
        transaction = self._client.transaction()
        for one in operations:
            path = self._chroot + one.path
            match one:
                case Create(_, data, ephemeral, sequential):
                    value = b"" if data is None else data
                    transaction.create(path, value, self._acl(one.path), ephemeral, sequential)
                case SetData(_, data, version):
                    transaction.set_data(path, b"" if data is None else data, version)
                case Delete(_, version):
                    transaction.delete(path, version)
                case Check(_, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    def _acl(self, path: str) -> Any:
        """Return who may do what with a znode that this client makes; None: all may everything."""
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        if not self._security.owns(path):
            return None
        return CREATOR_ALL_ACL if self._security.hides(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]

    def _watch(self, path: str) -> Callable[[Any], None]:
        # One for each path: kazoo tells each of its watches, ZooKeeper each session once.
        known = self._watches.get(path)
        if known is None:

            def happened(event: Any) -> None:
                # What only the connection did is told as a state.
                if event.type != "NONE":
                    self._soon(self._tell, path)

            known = self._watches[path] = happened
        return known

    def _tell(self, path: str) -> None:
        if not self._is_closed and self._listener is not None:
            self._listener.changed(path)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _result(self, operation: Operation, value: Any) -> Result:
        match operation:
            case Get():
                data, stat = value
                return Znode(data or None, stat.version, stat.czxid, stat.ephemeralOwner)
            case Create():
                path, stat = value
                return Created(path[len(self._chroot) :], stat.czxid)
            case Children():
                return list(value)
            case SetData():
                return value.version
            case Delete():
                return None
            case _:
                return self._of_transaction(operation, value)

    def _of_transaction(self, operation: Operation, value: list[Any]) -> Result:
        assert isinstance(operation, Check | Multi), "all others have answers of their own"
        operations = operation.operations if isinstance(operation, Multi) else (operation,)
        for one, found in zip(operations, value, strict=True):
            # Those before the one that failed are rolled back, those after it were not tried.
            if isinstance(found, Exception) and not isinstance(found, self._not_tried):
                return self._translated(one.path, found)
        return [_of_part(one, found, len(self._chroot)) for one, found in zip(operations, value, strict=True)]

    def _translated(self, path: str, problem: Exception) -> ZooKeeperError:
        for kind, (error, text) in self._errors.items():
            if isinstance(problem, kind):
                return error(path, text)
        return RefusedError(path, f"{type(problem).__name__} {problem}".strip())


def _sasl_options(login: Login) -> dict[str, str]:
    return {
        "mechanism": "DIGEST-MD5",
        "username": login.user,
        "password": login.password,
        "service": "zookeeper",
        "principal": "zk-sasl-md5",
    }


def _of_part(operation: Create | SetData | Delete | Check, found: Any, chroot: int) -> Result:
    if isinstance(operation, Create):
        # A transaction does not tell the transaction id of what it has made.
        return Created(found[chroot:], 0)
    return found.version if isinstance(operation, SetData) else None


class _GetWatched:
    """Reads a znode and watches it, or watches for its creation where it is missing: a kazoo answer of its own."""

    def __init__(self, client: Any, path: str, watch: Callable[[Any], None]) -> None:
        self._client, self._path, self._watch = client, path, watch

    def rawlink(self, completed: Callable[[Any], None]) -> None:
        """Call back with the answer (see kazoo's IAsyncResult)."""
        library = _kazoo()

        def read(found: Any) -> None:
            if isinstance(found.exception, library.exceptions.NoNodeError):
                self._client.exists_async(self._path, self._watch).rawlink(looked)
            else:
                completed(found)

        def looked(found: Any) -> None:
            if found.exception is not None or found.value is None:
                completed(found if found.exception is not None else missing)
            else:
                # It was made in between.
                self._client.get_async(self._path).rawlink(completed)

        missing = _Missing(library.exceptions.NoNodeError())
        self._client.get_async(self._path, self._watch).rawlink(read)


class _Missing:
    """The answer of a znode that is not there."""

    value = None

    def __init__(self, exception: Exception) -> None:
        self.exception = exception


def _translations(exceptions: Any) -> dict[type[Exception], tuple[type[ZooKeeperError], str]]:
    lost = "the connection ended before the answer came"
    return {
        exceptions.NoNodeError: (NoNodeError, "there is no such znode"),
        exceptions.NodeExistsError: (NodeExistsError, "the znode is there already"),
        exceptions.BadVersionError: (BadVersionError, "the znode has another version"),
        exceptions.NotEmptyError: (NotEmptyError, "the znode has children"),
        exceptions.ConnectionLoss: (ConnectionLostError, lost),
        exceptions.ConnectionClosedError: (ConnectionLostError, lost),
        exceptions.SessionExpiredError: (ConnectionLostError, lost),
        exceptions.OperationTimeoutError: (ConnectionLostError, lost),
        exceptions.NoAuthError: (RefusedError, "this client may not; check the znode's ACL"),
        exceptions.AuthFailedError: (ConnectionLostError, lost),
    }
