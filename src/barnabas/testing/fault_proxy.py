"""A TCP proxy that does to connections what networks and machines do: delays, cuts, silence, garbage."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from types import TracebackType
from typing import Literal, Self

from barnabas.errors import IllegalArgumentError, IllegalStateError
from barnabas.testing.proxied_connection import Faults, ProxiedConnection, Side

Direction = Literal["to_client", "to_broker"]

_BACKLOG = 128
_STEP_SECONDS = 0.2

log = logging.getLogger("barnabas.testing")


class FaultProxy:
    """Stands between clients and a broker, on a port of its own; a context manager.

        with FaultProxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
            proxy.forward_to(broker.bootstrap_servers)
            producer = Producer(bootstrap_servers=proxy.address)
            proxy.cut()

    A client follows the addresses that the broker advertises, so the broker has to advertise the proxy's. Faults act at
    once, on connections that there are and on new ones, until `heal`; they may be combined. All methods may be called
    from any thread. What they leave behind: bytes on their way are delivered in order or not at all.
    """

    def __init__(self, upstream: str | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._host = host
        self._listener = _bind(host, port)
        self._listener.listen(_BACKLOG)
        self._is_listening = True
        self.port: int = self._listener.getsockname()[1]
        self._upstream = None if upstream is None else _address(upstream)
        self._faults = Faults()
        self._connections: list[ProxiedConnection] = []
        self._accepted = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        self._lock = threading.RLock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"fault-proxy-{self.port}", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where clients connect: host and port."""
        return f"{self._host}:{self.port}"

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        with self._lock:
            return len(self._connections)

    @property
    def accepted_count(self) -> int:
        """How many connections there have been."""
        return self._accepted

    def forward_to(self, upstream: str) -> None:
        """Send new connections to this address, host and port; those that there are stay where they are."""
        with self._change():
            self._upstream = _address(upstream)

    def cut(self, *, reset: bool = False) -> None:
        """End every connection now, with what is on its way; with `reset` as a crashed machine would (RST)."""
        with self._change():
            for connection in self._connections:
                connection.end(reset=reset)

    def cut_after(self, byte_count: int, direction: Direction = "to_client") -> None:
        """End the next connection that carries more than so many bytes from now on.

        In the middle of a frame, if the number is chosen so. Happens once.
        """
        if byte_count < 0:
            raise IllegalArgumentError(f"byte_count is {byte_count}; it must not be negative")
        with self._change():
            self._faults.cut_after = (Side(direction), byte_count)
            for connection in self._connections:
                connection.count_from_here()

    def refuse(self) -> None:
        """End every connection, and refuse new ones as without a listener, until `heal`."""
        with self._change():
            if self._is_listening:
                self._is_listening = False
                self._selector.unregister(self._listener)
                self._listener.close()
                # A port without a listener is refused, and while it is bound no other process gets it.
                self._listener = _bind(self._host, self.port)
            for connection in self._connections:
                connection.end(reset=True)

    def freeze(self) -> None:
        """Half-open: connections stay, and new ones are accepted, but not a byte arrives any more, until `heal`."""
        with self._change():
            self._faults.frozen = True

    def delay(self, seconds: float) -> None:
        """Let bytes that are sent from now on arrive so much later, in both directions."""
        with self._change():
            self._faults.delay = seconds

    def limit_bandwidth(self, bytes_per_second: float) -> None:
        """No connection carries more than this in either direction."""
        if bytes_per_second <= 0:
            raise IllegalArgumentError(f"bytes_per_second is {bytes_per_second}; it must be positive")
        with self._change():
            self._faults.bandwidth = bytes_per_second

    def garble(self, garbage: bytes, direction: Direction = "to_client") -> None:
        """Instead of what comes next in this direction, and of all that follows, these bytes arrive, until `heal`."""
        with self._change():
            self._faults.garbage = (Side(direction), garbage)

    def heal(self) -> None:
        """No more faults. What a frozen connection held back arrives now."""
        with self._change():
            self._faults.clear()
            if not self._is_listening:
                self._is_listening = True
                self._listener.listen(_BACKLOG)
                self._selector.register(self._listener, selectors.EVENT_READ)

    def close(self) -> None:
        """End every connection and the proxy; closing twice is harmless."""
        if self._is_closed:
            return
        with self._change():
            self._is_closed = True
        self._thread.join()
        for connection in self._connections:
            connection.close(self._selector)
        self._listener.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        upstream = "nobody" if self._upstream is None else "{}:{}".format(*self._upstream)
        return f"<FaultProxy {self.address} to {upstream}, {self.connection_count} connections, {self._faults}>"

    # The thread.

    def _change(self) -> _Change:
        if self._is_closed:
            raise IllegalStateError("the proxy is closed")
        return _Change(self._lock, self._wake_in)

    def _run(self) -> None:
        wait = 0.0
        while not self._is_closed:
            events = self._selector.select(wait)
            with self._lock:
                try:
                    wait = self._do(events)
                except Exception:
                    # A test would else wait for connections that no thread serves any more.
                    log.exception("%r: its connections are ended, by a fault of the proxy", self)
                    wait = self._end_all()

    def _do(self, events: list[tuple[selectors.SelectorKey, int]]) -> float:
        now = time.monotonic()
        for key, mask in events:
            if key.fileobj is self._wake_out:
                self._wake_out.recv(4096)
            elif key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, ProxiedConnection):
                key.data.ready(key.fileobj, mask, now, self._faults)
        return self._turn(now)

    def _end_all(self) -> float:
        for connection in self._connections:
            connection.close(self._selector)
        self._connections.clear()
        return _STEP_SECONDS

    def _turn(self, now: float) -> float:
        wait = _STEP_SECONDS
        for connection in list(self._connections):
            wait = min(wait, connection.turn(now, self._faults, self._selector))
            if connection.is_over:
                connection.close(self._selector)
                self._connections.remove(connection)
        return wait

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it gave up while it waited
        self._accepted += 1
        if self._upstream is None:
            client.close()
            return
        try:
            broker = socket.create_connection(self._upstream, 1.0)
        except OSError:
            client.close()
            return
        self._connections.append(ProxiedConnection(client, broker))


class _Change:
    """Holds the lock, and wakes the thread at the end."""

    def __init__(self, lock: threading.RLock, wake: socket.socket) -> None:
        self._lock = lock
        self._wake = wake

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()
        self._wake.send(b"\0")


def _bind(host: str, port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise IllegalArgumentError(f"{text!r} is not an address; write host:port")
    return host, int(port)
