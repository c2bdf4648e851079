"""Many plain connections in one thread, each with one request in flight: a load that costs the machine little."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from barnabas.protocol.framing import FrameReader, encode_request
from barnabas.protocol.message import Message


class Connection:
    """One connection; `on_frame` is called with every response."""

    def __init__(self, address: str, selector: selectors.BaseSelector, on_frame: Callable[[memoryview], None]) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = FrameReader(100 << 20)
        self.on_frame = on_frame
        selector.register(self.socket, selectors.EVENT_READ, self)

    def send(self, message: Message, version: int) -> None:
        """Send a request."""
        self.send_bytes(encode_request(message, version, 1, "bench"))

    def send_bytes(self, request: bytes) -> None:
        """Send an encoded request."""
        self.socket.sendall(request)

    def receive(self) -> None:
        """Take what has arrived."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise SystemExit("the broker closed a connection")
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self.on_frame(frame)


class Clients:
    """Connections to one broker; a context manager."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.connections: list[Connection] = []

    def connect(self, address: str, on_frame: Callable[[memoryview], None]) -> Connection:
        """One more connection."""
        connection = Connection(address, self.selector, on_frame)
        self.connections.append(connection)
        return connection

    def run(self, until: Callable[[], bool], seconds: float) -> None:
        """Handle responses until `until()`, at most so long."""
        deadline = time.monotonic() + seconds
        while not until() and time.monotonic() < deadline:
            for key, _ in self.selector.select(0.05):
                key.data.receive()

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *exception: object) -> None:
        for connection in self.connections:
            connection.socket.close()
        self.selector.close()
