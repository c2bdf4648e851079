"""The broker without sockets and clocks: frames in, responses out, time as an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.client_connection import Buffers, ClientConnection
from barnabas.broker.handlers.registry import SERVED, handler_for
from barnabas.broker.purgatory import INFINITY, DelayedOperation
from barnabas.broker.request_context import CloseConnection, Connection, RequestContext
from barnabas.errors import InvalidRequestError, KafkaError, ProtocolError
from barnabas.protocol.api import request_class
from barnabas.protocol.codec import Decoder
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.protocol.codec import Plan
    from barnabas.protocol.message import Message

_API_VERSIONS = 18
#: How long a service is left alone after it failed, in seconds.
_REST_AFTER_FAULT = 1.0


class Service(Protocol):
    """A state machine with timers of its own, such as the group coordinator."""

    def tick(self, now: float, now_ms: int) -> None:
        """Do what is due."""

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""


class _ServedApi(NamedTuple):
    """How requests of one API and version are read and answered."""

    handle: Handler
    plan: Plan | None
    empty_request: Message | None
    response_version: int


class BrokerCore:
    """Takes requests to their handlers and responses back to their connections.

    `warn` gets one line for each thing that an operator should know.
    """

    def __init__(self, state: BrokerState, warn: Callable[[str], None]):
        self.state = state
        self.warn = warn
        self.services: list[Service] = []
        self._resting: dict[Service, float] = {}
        self.connections: dict[int, ClientConnection] = {}
        self.now = 0.0
        self.now_ms = 0
        self._next_connection_id = 0
        self._apis: dict[tuple[int, int], _ServedApi] = {}
        self._max_request_size = state.config.get_int("socket.request.max.bytes")
        self._max_idle = state.config["connections.max.idle.ms"] / 1000
        self._next_idle_check = INFINITY

    def connect(
        self,
        host: str,
        listener: str,
        now: float,
        write: Callable[[Buffers], None],
        close: Callable[[], None],
        resume_reading: Callable[[], None],
    ) -> ClientConnection:
        """A new connection from `host`; the functions act on its socket (see ClientConnection)."""
        self._next_connection_id += 1
        info = Connection(self._next_connection_id, host, listener)
        connection = ClientConnection(self, info, write, close, resume_reading, self._max_request_size, now)
        self.connections[info.id] = connection
        if self._next_idle_check == INFINITY and self._max_idle >= 0:
            self._next_idle_check = now + self._max_idle / 4
        return connection

    def disconnected(self, connection: ClientConnection) -> None:
        """The socket of a connection is gone."""
        self.connections.pop(connection.info.id, None)
        connection.lost()

    def tick(self, now: float, now_ms: int) -> None:
        """Answer what is past its deadline, and let the services do what is due."""
        self.now, self.now_ms = now, now_ms
        for service in self.services:
            if self._due(service) <= now:
                self._run(service)
        self.state.purgatory.tick(now)
        if self._next_idle_check <= now:
            self._close_idle(now)
        self.settle(now, now_ms)

    def settle(self, now: float, now_ms: int) -> None:
        """Answer what waits for something that happened since; to be called after requests were worked on."""
        self.now, self.now_ms = now, now_ms
        self.state.purgatory.complete_marked(now)

    @property
    def needs_settling(self) -> bool:
        """Whether `settle` has anything to do."""
        return self.state.purgatory.has_marked

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""
        deadline = min(self.state.purgatory.next_deadline(), self._next_idle_check)
        for service in self.services:
            deadline = min(deadline, self._due(service))
        return deadline

    def _due(self, service: Service) -> float:
        return (
            max(service.next_deadline(), self._resting.get(service, 0.0)) if self._resting else service.next_deadline()
        )

    def _run(self, service: Service) -> None:
        try:
            service.tick(self.now, self.now_ms)
        except Exception as problem:  # noqa: BLE001 - a fault in one service must not end the broker
            self._resting[service] = self.now + _REST_AFTER_FAULT
            self.warn(f"the broker failed at {type(service).__name__}; please report this\n{_trace(problem)}")
        else:
            self._resting.pop(service, None)

    def handle_frame(self, connection: ClientConnection, frame: memoryview) -> None:
        """Work on one request: answer it, park it, or end the connection if it makes no sense."""
        try:
            header, offset = decode_request_header(frame)
            version = header.request_api_version
            api = self._apis.get((header.request_api_key, version)) or self._load(header.request_api_key, version)
            # What follows the message is not looked at, like in Apache Kafka: librdkafka 2.11 sends three bytes more
            # than Metadata version 13 has.
            request = Decoder(frame, offset, -1).message(api.plan) if api.plan is not None else api.empty_request
        except (ProtocolError, InvalidRequestError) as problem:
            self.refuse(connection, f"a request cannot be understood: {problem}")
            return
        context = RequestContext(
            header.request_api_key,
            version,
            header.correlation_id,
            header.client_id,
            connection.info,
            self.now,
            self.now_ms,
        )
        try:
            response = api.handle(self.state, context, request)
        except CloseConnection as reason:
            self.refuse(connection, str(reason))
            return
        except Exception as problem:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._report_fault(connection, request_class(header.request_api_key).NAME, problem)
            return
        if response is None:
            return
        if isinstance(response, DelayedOperation):
            connection.park(response, api.response_version, header.correlation_id)
        else:
            self.send(connection, response, api.response_version, header.correlation_id)

    def send(self, connection: ClientConnection, message: Message, api_version: int, correlation_id: int) -> None:
        """Give a response to a connection's socket."""
        try:
            buffers = encode_response(message, api_version, correlation_id)
        except KafkaError as problem:
            self._report_fault(connection, type(message).NAME, problem)
            return
        connection.put(buffers)

    def refuse(self, connection: ClientConnection, reason: str) -> None:
        """End a connection, for a reason that the operator should know."""
        self.warn(f"closing the connection from {connection.info.client_host}: {reason}")
        connection.end()

    def _load(self, api_key: int, version: int) -> _ServedApi:
        served = SERVED.get(api_key)
        name = request_class(api_key).NAME
        if served is None:
            raise InvalidRequestError(f"{name} is not served")
        if served[1] <= version <= served[2]:
            api = _ServedApi(handler_for(api_key), plan_of(request_class(api_key), version), None, version)
        elif api_key == _API_VERSIONS:
            # A client that is newer than we gets an answer in version 0, from which it learns what to ask (KIP-511).
            return _ServedApi(handler_for(api_key), None, request_class(api_key)(), 0)
        else:
            raise InvalidRequestError(f"version {version} of {name} is not served")
        self._apis[api_key, version] = api
        return api

    def _report_fault(self, connection: ClientConnection, api: str, problem: Exception) -> None:
        self.refuse(connection, f"the broker failed at {api}; please report this\n{_trace(problem)}")

    def _close_idle(self, now: float) -> None:
        for connection in list(self.connections.values()):
            if connection.is_idle and now - connection.last_used > self._max_idle:
                connection.end()
        self._next_idle_check = now + self._max_idle / 4 if self.connections else INFINITY


def _trace(problem: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(problem)).rstrip()
