"""All connections of a broker, without their sockets, and whose turn it is (Kafka's RequestChannel)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.broker.faults import Faults, fault_text
from barnabas.broker.instant import Instant
from barnabas.broker.network.client_connection import ClientConnection
from barnabas.broker.network.login_counts import LoginCounts, LoginOutcome
from barnabas.broker.network.request_buffer import RequestMemory
from barnabas.broker.repeated_warnings import RepeatedWarnings
from barnabas.broker.request_context import Connection

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.network.transport import Transport
    from barnabas.broker.security.listener_security import ListenerSecurity
    from barnabas.broker.security.sasl_listener import SaslListener

#: What stands in the place of a mechanism where a certificate says who it is.
TLS = "SSL"


class RequestChannel:
    """Gives the requests of all connections to `handle`, and holds connections that have to wait.

    A connection waits while its request is parked, and while it is muted because its client has used too much
    (KIP-219). `resumed` are those that need not wait any more: `go_on` works on their requests. `instant` is the time
    of the present turn: the broker's driver sets it. `warn` gets one line for each connection that is refused, of
    one kind at most one a second; `report` gets those that end by a fault of ours.
    """

    def __init__(
        self, state: BrokerState, warn: Callable[[str], None], handle: Callable[[ClientConnection, memoryview], None]
    ):
        self.state = state
        self.handle = handle
        self.instant = Instant(0.0, 0)
        self.connections: dict[int, ClientConnection] = {}
        #: Listener → what it asks of who connects; one that is not there asks nothing.
        self.securities: dict[str, ListenerSecurity] = {}
        self.logins = LoginCounts()
        self.spare_buffers: list[memoryview] = []
        self.request_memory = RequestMemory(state.config.get_int("queued.max.request.bytes"))
        self.max_request_size = state.config.get_int("socket.request.max.bytes")
        self.report = warn
        self.faults = Faults(lambda text: self.report(text), lambda: self.instant.now)
        self._refusals = RepeatedWarnings(warn)
        self._muted: list[tuple[float, int, ClientConnection, Callable[[], None]]] = []
        self._mutings = 0
        self.resumed: list[ClientConnection] = []
        #: Called with the id of each connection that has ended.
        self.on_disconnected: Callable[[int], None] = lambda connection: None
        self._next_connection_id = 0
        self._max_idle = state.config["connections.max.idle.ms"] / 1000
        self._next_idle_check = inf

    def connect(self, transport: Transport, host: str, listener: str, now: float, port: int = 0) -> ClientConnection:
        """Take in a connection from `host`, which came through the listener of that name."""
        self._next_connection_id += 1
        info = Connection(self._next_connection_id, host, listener, client_port=port)
        security = self.securities.get(listener)
        if security is not None:
            info.security_protocol = security.protocol
            info.is_authenticated = not (security.uses_tls or security.uses_sasl)
        connection = self.connections[info.id] = ClientConnection(self, info, transport, now)
        if security is not None and security.sasl is not None:
            self._await_login(connection, security.sasl)
        if self._next_idle_check == inf and self._max_idle >= 0:
            self._next_idle_check = now + self._max_idle / 4
        return connection

    def secured(self, connection: ClientConnection, certificate: bytes | None) -> None:
        """Note that a connection has TLS, and whose it is by the client's certificate, which was verified.

        Raises ValueError when the certificate names no principal.
        """
        info = connection.info
        security = self.securities[info.listener]
        if not security.uses_sasl:
            info.principal = security.principal_of(certificate)
            info.is_authenticated = True
            self.logins.count(info.listener, TLS, LoginOutcome.SUCCESSFUL)

    def insecure(self, connection: ClientConnection, reason: str) -> None:
        """End a connection whose TLS handshake has failed, or whose certificate names no principal."""
        self.logins.count(connection.info.listener, TLS, LoginOutcome.FAILED)
        self.refuse(connection, reason)

    def _await_login(self, connection: ClientConnection, sasl: SaslListener) -> None:
        from barnabas.broker.security.sasl_server_authenticator import SaslServerAuthenticator

        connection.buffer.limit(sasl.max_receive_size, "sasl.server.max.receive.size")
        connection.handle = SaslServerAuthenticator(sasl, self).handle

    def disconnected(self, connection: ClientConnection) -> None:
        """Forget a connection whose socket is gone, with what is parked or in flight there."""
        self.connections.pop(connection.info.id, None)
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.ConnectionEnded(self.state.node_id, connection.info.client_port))
        connection.lost()
        self.on_disconnected(connection.info.id)

    def resume(self, connection: ClientConnection) -> None:
        """Note that a connection need not wait any more: `go_on` works on the requests that came meanwhile."""
        self.resumed.append(connection)

    def go_on(self) -> None:
        """Work on the requests of connections that need not wait any more."""
        resumed, self.resumed = self.resumed, []
        for connection in resumed:
            self._run(connection, connection.go_on)

    @property
    def muted(self) -> int:
        """How many connections wait because their clients have used too much."""
        return len(self._muted)

    def mute(self, connection: ClientConnection, seconds: float) -> None:
        """Work on no more requests of a connection for so long."""
        connection.mute()
        self.call_later(seconds, connection, connection.unmute)

    def call_later(self, seconds: float, connection: ClientConnection, call: Callable[[], None]) -> None:
        """Call something after so long; what it raises ends the connection for which it is called."""
        self._mutings += 1
        heapq.heappush(self._muted, (self.instant.now + seconds, self._mutings, connection, call))

    def _run(self, connection: ClientConnection, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as problem:  # noqa: BLE001 - a fault in the work of one connection must not end that of others
            self.failed(connection, "the deferred work of a connection", problem)

    def failed(self, connection: ClientConnection, what: str, problem: Exception) -> None:
        """End a connection for a fault of the broker in its work, which is reported."""
        try:
            self.refuse(connection, fault_text(what, problem), is_fault=True)
        except Exception as another:  # noqa: BLE001 - nothing of it is left but its end
            connection.abort()
            self.faults.tell("ending a connection", another)

    def refuse(self, connection: ClientConnection, reason: str, kind: str = "", *, is_fault: bool = False) -> None:
        """End a connection, for a reason that the operator should know; of one kind, at most once a second.

        `is_fault`: the reason is a fault of the broker, not what the client sent.
        """
        text = f"closing the connection from {connection.info.client_host}: {reason}"
        self._refusals.say(kind or reason, text, self.instant.now, self.report if is_fault else None)
        connection.end()

    def tick(self) -> None:
        """Unmute the connections whose time is over, and close those that are idle for too long."""
        now = self.instant.now
        while self._muted and self._muted[0][0] <= now:
            _, _, connection, call = heapq.heappop(self._muted)
            self._run(connection, call)
        if self._next_idle_check <= now:
            self._close_idle(now)

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""
        return min(self._muted[0][0], self._next_idle_check) if self._muted else self._next_idle_check

    def _close_idle(self, now: float) -> None:
        self._next_idle_check = now + self._max_idle / 4 if self.connections else inf
        for connection in list(self.connections.values()):
            if connection.is_idle and now - connection.last_used > self._max_idle:
                self._run(connection, connection.end)
