"""Sockets and clocks for the broker: a thin shell on asyncio."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol, cast

from barnabas.broker.faults import run_all
from barnabas.broker.instant import Instant
from barnabas.broker.log.filesystem import FileRegion
from barnabas.broker.network.connection_quotas import ConnectionQuotas, Refusal
from barnabas.broker.network.unauthenticated_connections import UnauthenticatedConnections
from barnabas.broker.repeated_warnings import RepeatedWarnings
from barnabas.clock import wall_clock_ms

if TYPE_CHECKING:
    from barnabas.broker.config import Listener
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.broker.network.request_channel import RequestChannel
    from barnabas.broker.network.tls_transport import Handshakes, TlsTransport
    from barnabas.broker.network.transport import Buffers
    from barnabas.broker.security.listener_security import ListenerSecurity
    from barnabas.broker.storage_threads import StorageThreads

#: A connection whose unsent responses exceed this gets no more of its requests worked on.
OUTPUT_HIGH_WATER = 256 * 1024
#: Buffers below this size are joined before they are written.
_SMALL = 32 * 1024
#: How long a stopping broker waits for clients to take what was written to them, in seconds.
DRAIN_SECONDS = 2.0
#: Descriptors that are neither for files of the log nor for connections: the process's own, the metadata.
_OTHER_DESCRIPTORS = 32
#: How often logins that take too long are looked for, in seconds.
_LOGIN_CHECKS = 1.0
#: Of all connections that there may be, one in so many may be without a login.
_PENDING_SHARE = 2
#: How long a core rests whose turn has failed, in seconds.
_REST_AFTER_FAULT = 1.0


def read_clocks() -> Instant:
    """Both clocks, now."""
    return Instant(time.monotonic(), wall_clock_ms())


class Core(Protocol):
    """What a `SocketServer` drives: the broker without sockets and clocks."""

    channel: RequestChannel
    timer: Callable[[], float]
    warn: Callable[[str], None]
    has_new_deadlines: bool

    def tick(self, instant: Instant) -> None:
        """Do what is due."""

    def settle(self, instant: Instant) -> None:
        """Do what requests have set off."""

    @property
    def needs_settling(self) -> bool:
        """Whether `settle` has anything to do."""

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""


class SocketServer:
    """Listens, moves bytes between sockets and the core, and calls the core's `tick` when it is due."""

    def __init__(self, core: Core):
        self.core = core
        state = core.channel.state
        core.timer = time.perf_counter
        self._loop = asyncio.get_running_loop()
        most = connection_descriptors()
        self._quotas = ConnectionQuotas(state.config, state.client_quotas, most)
        self._pending = UnauthenticatedConnections(max(most // _PENDING_SHARE, 1))
        self._checks_logins = False
        self._handshakes: Handshakes | None = None
        self._refused = RepeatedWarnings(core.warn)
        self._protocols: set[_ConnectionProtocol] = set()
        self._servers: list[asyncio.Server] = []
        self._settling = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        #: After a fault, until when nothing is done; else minus infinity.
        self._rests_until = -inf

    async def listen(self, name: str, listening: socket.socket) -> None:
        """Accept connections for the listener `name`."""
        security = self.core.channel.securities.get(name)
        make = self._plain_listener(name) if security is None or not security.uses_tls else self._tls_listener(security)
        self._servers.append(await self._loop.create_server(make, sock=listening, backlog=1024))

    def _plain_listener(self, name: str) -> Callable[[], asyncio.BaseProtocol]:
        return lambda: _ConnectionProtocol(self, name)

    def _tls_listener(self, security: ListenerSecurity) -> Callable[[], asyncio.BaseProtocol]:
        from barnabas.broker.network.tls_transport import Handshakes, TlsTransport

        handshakes = self._handshakes = self._handshakes or Handshakes(self._loop)

        def make() -> TlsTransport:
            # Asked for each connection: the certificates may have been replaced.
            context = security.ssl_context
            assert context is not None
            return TlsTransport(handshakes, context, _ConnectionProtocol(self, security.name, is_secured=True))

        return make

    def attend(self, storage: StorageThreads) -> None:
        """Take up on the loop what is done in the threads for storage."""

        def deliver() -> None:
            self.core.channel.instant = read_clocks()
            try:
                storage.deliver()
            finally:
                self.after_work()

        def on_done() -> None:
            try:
                self._loop.call_soon_threadsafe(deliver)
            except RuntimeError:
                # The loop is closed; who stops the broker drains the storage.
                return

        storage.on_done = on_done
        # Some may be done already, as the logs of the roles that a broker begins with.
        self._loop.call_soon(deliver)

    async def close(self) -> None:
        """Stop listening, let what is written go out, end all connections."""
        for server in self._servers:
            server.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._handshakes is not None:
            self._handshakes.close()
        for protocol in list(self._protocols):
            protocol.close()
        give_up_at = time.monotonic() + DRAIN_SECONDS
        while self._protocols and time.monotonic() < give_up_at:
            await asyncio.sleep(0.005)
        for protocol in list(self._protocols):
            protocol.abort()

    def after_work(self) -> None:
        """See to what requests set off that were worked on."""
        self.settle_soon()
        self.keep_time()

    def settle_soon(self) -> None:
        """Settle at the end of this turn of the loop, so that what several connections bring makes one answer."""
        if self.core.needs_settling and not self._settling and self._rests_until == -inf:
            self._settling = True
            self._loop.call_soon(self._settle)

    def keep_time(self) -> None:
        """Set the timer for the core's next deadline, unless it goes off before that anyway."""
        deadline = max(self.core.next_deadline(), self._rests_until)
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = deadline
            self._timer = self._loop.call_later(max(0.0, deadline - time.monotonic()), self._tick)

    def admit(self, protocol: _ConnectionProtocol, host: str) -> float | None:
        """Count one more connection from `host`; gives for how many seconds it is to wait, None if it is refused."""
        now = time.monotonic()
        refusal = self._quotas.admit(host, protocol.listener, now)
        if refusal is None:
            pause = self._quotas.pause(protocol.listener, now)
            if pause is not None:
                self._protocols.add(protocol)
                return pause
            self._quotas.release(host, protocol.listener)
            refusal = Refusal("max.connection.creation.rate is exceeded", 0.0)
        # A client that tries again and again must not fill the log.
        reason = refusal.reason
        self._refused.say(reason, f"refusing a connection from {host}: {reason}", time.monotonic())
        if refusal.delay > 0:
            # Kafka, too, lets such a client wait for the end of its connection.
            self._loop.call_later(refusal.delay, protocol.abort)
        else:
            protocol.abort()
        return None

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it after a time."""
        self._loop.call_later(seconds, call)

    def await_login(self, protocol: _ConnectionProtocol) -> None:
        """See to it that an admitted connection authenticates in time, and that there are not too many of its kind."""
        superseded = self._pending.add(protocol, time.monotonic())
        if superseded is not None:
            cast("_ConnectionProtocol", superseded).give_up(
                f"{self._pending.most} connections have not authenticated yet, and this is the oldest of them"
            )
        if not self._checks_logins:
            self._checks_logins = True
            self._loop.call_later(_LOGIN_CHECKS, self._check_logins)

    def _check_logins(self) -> None:
        self._checks_logins = False
        late = self._pending.expired(time.monotonic())
        try:
            run_all(
                partial(cast("_ConnectionProtocol", one).give_up, "it has not authenticated in time") for one in late
            )
        finally:
            if len(self._pending) > 0:
                self._checks_logins = True
                self._loop.call_later(_LOGIN_CHECKS, self._check_logins)

    def dismiss(self, protocol: _ConnectionProtocol, host: str) -> None:
        """Note that an admitted connection is over."""
        self._protocols.discard(protocol)
        self._pending.discard(protocol)
        self._quotas.release(host, protocol.listener)

    def _settle(self) -> None:
        self._settling = False
        self._run(self.core.settle)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = inf
        self._rests_until = -inf
        self._run(self.core.tick)

    def _run(self, turn: Callable[[Instant], None]) -> None:
        """Let the core do what is due. Its timer goes on if it raises: after a fault with the next second."""
        try:
            turn(read_clocks())
        except Exception as problem:  # noqa: BLE001 - the requests of all connections wait for the next turn
            self._rests_until = time.monotonic() + _REST_AFTER_FAULT
            self.core.channel.faults.tell("a turn of the broker", problem)
        self.after_work()


class _ConnectionProtocol(asyncio.BufferedProtocol):
    """One accepted socket, the `Transport` of its connection: the kernel writes straight into the request buffer.

    `is_secured`: it stands on a `TlsTransport`, which tells when the handshake is done.
    """

    __slots__ = ("_connection", "_descriptor", "_host", "_is_secured", "_server", "_transport", "_write", "listener")

    _transport: asyncio.Transport
    _write: Callable[[bytes | bytearray | memoryview], None]

    def __init__(self, server: SocketServer, listener: str, *, is_secured: bool = False):
        self._server = server
        #: The name of the listener that it came through.
        self.listener = listener
        self._is_secured = is_secured
        self._descriptor = -1
        self._host = ""
        self._connection: ClientConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not asyncio.Transport by class, only by what they do.
        self._transport = transport = cast("asyncio.Transport", transport)
        self._write = transport.write
        # asyncio does so only for sockets that were made with the protocol's number, which these are not.
        sock = transport.get_extra_info("socket")
        if not self._is_secured:
            # Through which files may go around this program.
            self._descriptor = sock.fileno()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A client that vanished while its request was parked is found out by the system.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        peer = transport.get_extra_info("peername")
        host = peer[0] if peer else "unknown"
        pause = self._server.admit(self, host)
        if pause is None:
            transport.pause_reading()
            return
        self._host = host
        transport.set_write_buffer_limits(OUTPUT_HIGH_WATER)
        self._connection = self._server.core.channel.connect(
            self, host, self.listener, time.monotonic(), peer[1] if peer else 0
        )
        if not self._connection.info.is_authenticated:
            self._server.await_login(self)
        if pause > 0:
            self._wait_for_its_turn(pause)
        self._server.keep_time()

    def _wait_for_its_turn(self, seconds: float) -> None:
        """Work on nothing that the client sends, its handshake included, for a time."""
        connection, transport = self._connection, self._transport
        assert connection is not None
        connection.mute()
        if self._is_secured:
            cast("TlsTransport", transport).hold()

        def go_on() -> None:
            if connection.closed:
                return
            self._server.core.channel.instant = read_clocks()
            try:
                if self._is_secured:
                    cast("TlsTransport", transport).let_go()
                connection.unmute()
            except Exception as problem:  # noqa: BLE001 - else it would wait for ever
                self._server.core.channel.failed(connection, "the end of a connection's pause", problem)
            self._server.after_work()

        self._server.call_later(seconds, go_on)

    @property
    def is_authenticated(self) -> bool:
        """Whether its client has shown who it is, where the listener wants to know."""
        return self._connection is None or self._connection.info.is_authenticated

    def secured(self, certificate: bytes | None) -> None:
        """Take note that the handshake is done, and of the client's certificate in DER, which was verified."""
        connection = self._connection
        if connection is not None:
            try:
                self._server.core.channel.secured(connection, certificate)
            except ValueError as problem:
                self._fail(f"its certificate is not accepted: {problem}")

    def insecure(self, reason: str) -> None:
        """Take note that the handshake has failed; the socket is closed."""
        self._fail(f"the TLS handshake failed: {reason}")

    def _fail(self, reason: str) -> None:
        if self._connection is not None:
            self._server.core.channel.instant = read_clocks()
            self._server.core.channel.insecure(self._connection, reason)

    def give_up(self, reason: str) -> None:
        """End the connection before it has authenticated."""
        if self._connection is not None:
            self._server.core.channel.instant = read_clocks()
            self._server.core.channel.refuse(self._connection, reason)

    def get_buffer(self, sizehint: int) -> memoryview:
        assert self._connection is not None
        return self._connection.buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        connection = self._connection
        assert connection is not None
        server = self._server
        server.core.has_new_deadlines = False
        try:
            connection.received(nbytes, read_clocks())
            if not connection.wants_input and not connection.closed:
                connection.reading_paused = True
                self._transport.pause_reading()
        finally:
            server.settle_soon()
            if server.core.has_new_deadlines:
                server.keep_time()

    def eof_received(self) -> bool:
        if self._connection is None:
            return False
        self._connection.input_ended(read_clocks())
        self._server.after_work()
        return True

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._connection.output_blocked(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.output_resumed(read_clocks())
            self._server.after_work()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                self._server.core.channel.disconnected(connection)
            finally:
                self._server.dismiss(self, self._host)
                self._server.after_work()

    def write(self, buffers: Buffers) -> None:
        """Send buffers: small neighbours together, large ones without a copy, regions of files without reading them."""
        if len(buffers) == 1:
            self._write(buffers[0])
            return
        small: list[bytes | bytearray | memoryview] = []
        for buffer in buffers:
            if len(buffer) < _SMALL:
                small.append(buffer)
                continue
            if small:
                self._write(b"".join(small))
                small = []
            if not isinstance(buffer, FileRegion):
                self._write(buffer)
            elif not self._send(buffer):
                return
        if small:
            self._write(b"".join(small))

    def _send(self, region: FileRegion) -> bool:
        """Let the system take what the socket has room for from the file; the rest is read, and waits as bytes do.

        So nothing refers to the file when this returns. False if that fails, which ends the connection: the client has
        a part of the response already.
        """
        transport = self._transport
        try:
            sent = 0
            if self._descriptor >= 0 and not transport.get_write_buffer_size() and not transport.is_closing():
                sent = region.send(self._descriptor)
            if sent < len(region):
                self._write(region.read(sent))
        except OSError as problem:
            if not isinstance(problem, ConnectionError):
                self._server.core.warn(f"cannot send {region!r} to {self._host}: {problem}")
            transport.abort()
            return False
        return True

    def close(self) -> None:
        """End the connection when what was written is out."""
        self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._transport.abort()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()


def connection_descriptors() -> int:
    """How many connections this process may have: half of its descriptors are for the log's files."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 - 1 if limit == resource.RLIM_INFINITY else max(limit - limit // 2 - _OTHER_DESCRIPTORS, 1)


def raise_descriptor_limit() -> None:
    """Let this process open as many files and sockets as the system allows it, as Java does for Apache Kafka."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):
            # Some systems allow less than they say; what there was has to do.
            return


def bind(listener: Listener) -> socket.socket:
    """Return a socket that listens where `listener` says. Raises OSError."""
    if listener.host == "":
        dual = socket.has_dualstack_ipv6()
        return socket.create_server(
            ("", listener.port), family=socket.AF_INET6 if dual else socket.AF_INET, dualstack_ipv6=dual
        )
    found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, _, _, _, address = found[0]
    return socket.create_server(address[:2], family=family)
