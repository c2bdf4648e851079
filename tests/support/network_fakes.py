"""Peers for tests of the client: a selector on virtual time, and a small scripted server on a real socket."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.errors import AuthenticationError
from barnabas.network.selectable import Authentication, Buffer, Disconnection
from barnabas.network.telemetry_sender import TELEMETRY_APIS
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.framing import FrameReader, decode_request, encode_response
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Handler = Callable[[Any], "Message | None"]
"""Takes a request message and gives the response; None for "do not answer"."""


def all_api_versions(*, telemetry: bool = False) -> ApiVersionsResponse:
    """What a broker that knows everything we know says; of telemetry only one with a receiver for it speaks."""
    known = []
    for key in ApiKey:
        if key in TELEMETRY_APIS and not telemetry:
            continue
        try:
            low, high = stable_versions(key)
        except ValueError:
            continue
        known.append(ApiVersion(api_key=int(key), min_version=low, max_version=high))
    return ApiVersionsResponse(api_keys=known)


def metadata_response(
    brokers: Sequence[tuple[int, str, int]],
    topics: dict[str, int] | None = None,
    *,
    leader: int | None = None,
    leader_epoch: int = 0,
    errors: dict[str, int] | None = None,
    controller_id: int | None = None,
) -> MetadataResponse:
    """A response with these brokers (id, host, port), topics (name: partition count) and topics' errors."""
    leader = brokers[0][0] if leader is None and brokers else leader
    found = [
        MetadataResponseTopic(
            name=name,
            topic_id=name.encode().ljust(16, b"\1")[:16],
            is_internal=name.startswith("__"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=leader or 0,
                    leader_epoch=leader_epoch,
                    replica_nodes=[leader or 0],
                )
                for number in range(count)
            ],
        )
        for name, count in (topics or {}).items()
    ]
    found += [MetadataResponseTopic(name=name, error_code=code) for name, code in (errors or {}).items()]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=host, port=port) for n, host, port in brokers],
        cluster_id="cluster",
        controller_id=(leader or 0) if controller_id is None else controller_id,
        topics=found,
    )


class FakeSelector:
    """A `Selectable` without sockets: tests say what happens, and `poll` lets virtual time pass.

    A connection succeeds in the poll after `connect` unless its port is in `refusing`, `silent` or `denying`. Requests
    that reach a node are decoded to `received`; `respond` answers the oldest one. With `handlers` set they are answered
    at once.
    """

    def __init__(self) -> None:
        self.connected: list[int] = []
        self.authentications: list[Authentication] = []
        self.disconnected: dict[int, Disconnection] = {}
        self.completed_sends: list[int] = []
        self.completed_receives: list[tuple[int, Buffer]] = []
        self.refusing: set[int] = set()
        self.silent: set[int] = set()
        self.denying: dict[int, AuthenticationError] = {}
        self.is_sending_stuck = False
        self.handlers: dict[int, Handler] | None = None
        self.connects: list[tuple[int, str, int, int]] = []
        self.received: list[tuple[int, Any, Any]] = []
        self.waiting: dict[int, deque[tuple[Any, Any]]] = {}
        self.closed: list[int] = []
        self.polled: list[float] = []
        self.max_receive_sizes: dict[int, int] = {}
        self.wakeups = 0
        self._connecting: dict[int, int] = {}
        self._open: set[int] = set()
        self._sending: dict[int, tuple[bytes, bool]] = {}
        self._arriving: list[tuple[int, Buffer]] = []
        self._breaking: dict[int, Disconnection] = {}
        self.is_closed = False

    def connect(self, node_id: int, host: str, port: int, attempt: int) -> None:
        self.connects.append((node_id, host, port, attempt))
        self._connecting[node_id] = port

    def is_channel_ready(self, node_id: int) -> bool:
        return node_id in self._open

    def is_send_in_progress(self, node_id: int) -> bool:
        return node_id in self._sending

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        assert node_id in self._open
        assert node_id not in self._sending
        self._sending[node_id] = b"".join(bytes(buffer) for buffer in buffers), expect_response

    def local_port(self, node_id: int) -> int:
        return 0

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        self.max_receive_sizes[node_id] = size

    def poll(self, timeout: float, now: float) -> float:
        self.polled.append(timeout)
        self.deliver()
        happened = self.connected or self.disconnected or self.completed_sends or self.completed_receives
        return now if happened else now + timeout

    @property
    def has_something_to_deliver(self) -> bool:
        """Whether `poll` would not wait."""
        is_connecting = any(port not in self.silent for port in self._connecting.values())
        is_sending = bool(self._sending) and not self.is_sending_stuck
        return bool(is_connecting or is_sending or self._arriving or self._breaking)

    def deliver(self) -> None:
        """Have everything happen that is due."""
        self.connected, self.completed_sends, self.completed_receives = [], [], []
        self.disconnected, self._breaking = self._breaking, {}
        for node_id, port in list(self._connecting.items()):
            if port in self.refusing:
                del self._connecting[node_id]
                self.disconnected[node_id] = Disconnection("Connection refused", f"host:{port}", was_connected=False)
            elif port in self.denying:
                del self._connecting[node_id]
                self.connected.append(node_id)
                self.disconnected[node_id] = self._denial(port)
            elif port not in self.silent:
                del self._connecting[node_id]
                self._open.add(node_id)
                self.connected.append(node_id)
        if not self.is_sending_stuck:
            self._finish_sends()
        self.completed_receives, self._arriving = self._arriving, []

    def _finish_sends(self) -> None:
        sending, self._sending = self._sending, {}
        for node_id, (data, expect_response) in sending.items():
            header, message = decode_request(memoryview(data)[4:])
            self.received.append((node_id, header, message))
            self.completed_sends.append(node_id)
            handler = None if self.handlers is None else self.handlers.get(header.request_api_key)
            answer = None if handler is None else handler(message)
            if answer is not None:
                self._arrive(node_id, header, answer)
            elif node_id in self._open and expect_response:
                self.waiting.setdefault(node_id, deque()).append((header, message))

    def _arrive(
        self,
        node_id: int,
        header: Any,
        message: Message,
        *,
        version: int | None = None,
        correlation_id: int | None = None,
    ) -> None:
        version = header.request_api_version if version is None else version
        correlation_id = header.correlation_id if correlation_id is None else correlation_id
        frame = b"".join(bytes(part) for part in encode_response(message, version, correlation_id))
        self._arriving.append((node_id, frame[4:]))

    def respond(self, node_id: int, message: Message, **overrides: int) -> None:
        """Answers the oldest request that waits at a node."""
        header, _ = self.waiting[node_id].popleft()
        self._arrive(node_id, header, message, **overrides)

    def respond_bytes(self, node_id: int, frame: bytes) -> None:
        """Answers the oldest request that waits at a node with these bytes."""
        self.waiting[node_id].popleft()
        self._arriving.append((node_id, frame))

    def break_connection(self, node_id: int, reason: str = "the peer closed the connection") -> None:
        """Ends a connection from the other side, if there is one."""
        if node_id not in self._open:
            return
        self._drop(node_id)
        self._breaking[node_id] = Disconnection(reason, "host:1", was_connected=True)

    def deny(self, node_id: int, port: int) -> None:
        """Ends a connection because the renewal of its session failed."""
        self._drop(node_id)
        self._breaking[node_id] = self._denial(port)

    def _denial(self, port: int) -> Disconnection:
        error = self.denying[port]
        return Disconnection(str(error), f"host:{port}", was_connected=True, authentication_error=error)

    def _drop(self, node_id: int) -> None:
        self._open.discard(node_id)
        self._connecting.pop(node_id, None)
        self._sending.pop(node_id, None)
        self.waiting.pop(node_id, None)

    def wakeup(self) -> None:
        self.wakeups += 1

    def close(self, node_id: int) -> None:
        self.closed.append(node_id)
        self._drop(node_id)

    def close_all(self) -> None:
        self.is_closed = True
        for node_id in list(self._open):
            self.close(node_id)


class ScriptedBroker:
    """A server on a real socket that answers requests by a table of handlers, one thread for each connection."""

    def __init__(self, handlers: dict[int, Handler] | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.handlers: dict[int, Handler] = {
            ApiKey.API_VERSIONS: lambda request: all_api_versions(),
            **(handlers or {}),
        }
        self.received: list[tuple[Any, Any]] = []
        self.connections = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=16)
        self.host = host
        self.port: int = self._listening.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        reader = FrameReader(2**31 - 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while data := connection.recv(1 << 20):
                reader.feed(data)
                while (frame := reader.next_frame()) is not None:
                    self._answer(connection, frame)
        except OSError:
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answer(self, connection: socket.socket, frame: memoryview) -> None:
        header, message = decode_request(frame)
        self.received.append((header, message))
        answer = self.handlers[header.request_api_key](message)
        if answer is not None:
            for part in encode_response(answer, header.request_api_version, header.correlation_id):
                connection.sendall(part)

    def drop_connections(self) -> None:
        """Ends all connections; the port goes on listening."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        """Ends everything and frees the port."""
        try:
            self._listening.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listening.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(timeout=5)

    def __enter__(self) -> ScriptedBroker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
