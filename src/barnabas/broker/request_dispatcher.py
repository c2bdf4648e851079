"""The broker without sockets and clocks: frames in, responses out, time as an argument."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.client_quotas import REQUEST
from barnabas.broker.handlers.registry import SERVED, handler_for, shortcut_for
from barnabas.broker.network.client_connection import Buffers, ClientConnection
from barnabas.broker.network.request_buffer import RequestMemory
from barnabas.broker.purgatory import INFINITY, DelayedOperation
from barnabas.broker.repeated_warnings import RepeatedWarnings
from barnabas.broker.request_context import CloseConnection, Connection, RequestContext
from barnabas.errors import InvalidRequestError, KafkaError, ProtocolError
from barnabas.protocol.api import request_class
from barnabas.protocol.codec import MAX_ELEMENTS, Decoder
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler, Shortcut
    from barnabas.protocol.codec import Plan
    from barnabas.protocol.message import Message

_API_VERSIONS = 18
#: The first bytes of a request.
_KEY_AND_VERSION = 4
#: How long a service is left alone after it failed, in seconds.
_REST_AFTER_FAULT = 1.0


class Service(Protocol):
    """A state machine with timers of its own, such as the group coordinator."""

    def tick(self, now: float, now_ms: int) -> None:
        """Do what is due."""

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""


class RequestObserver(Protocol):
    """Who is told of every answered request: the metrics, the request log."""

    def completed(
        self, api: ServedApi, context: RequestContext, request: Message | None, response: Message | None, now: float
    ) -> None:
        """A request was answered at `now`; `response` is None where the client expects none."""


class ServedApi:
    """How requests of one API and version are read and answered, and how many there were."""

    __slots__ = ("empty_request", "handle", "key", "name", "plan", "requests", "response_version", "version")

    def __init__(self, key: int, version: int, handle: Handler, plan: Plan | None, response_version: int):
        self.key = key
        self.name = request_class(key).NAME.removesuffix("Request")
        self.version = version
        self.handle = handle
        self.plan = plan
        self.empty_request = None if plan is not None else request_class(key)()
        self.response_version = response_version
        self.requests = 0


class RequestDispatcher:
    """Takes requests to their handlers and responses back to their connections.

    `warn` gets one line for each thing that an operator should know. `timer` tells how long handlers take, in seconds;
    it is asked only while somebody wants to know: `observers`, or a quota for the time of requests.
    """

    def __init__(self, state: BrokerState, warn: Callable[[str], None]):
        self.state = state
        self.warn = warn
        self.services: list[Service] = []
        self.observers: list[RequestObserver] = []
        self.timer: Callable[[], float] = _no_time
        self._refusals = RepeatedWarnings(warn)
        self._resting: dict[Service, float] = {}
        self._muted: list[tuple[float, int, ClientConnection]] = []
        self._mutings = 0
        self._resumed: list[ClientConnection] = []
        self.connections: dict[int, ClientConnection] = {}
        self.spare_buffers: list[memoryview] = []
        self.request_memory = RequestMemory(state.config.get_int("queued.max.request.bytes"))
        self.now = 0.0
        self.now_ms = 0
        self._next_connection_id = 0
        self.apis: dict[tuple[int, int], ServedApi] = {}
        self._shortcuts: dict[bytes, tuple[ServedApi, Shortcut]] = {}
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
        port: int = 0,
        abort: Callable[[], None] | None = None,
    ) -> ClientConnection:
        """A new connection from `host`; the functions act on its socket (see ClientConnection)."""
        self._next_connection_id += 1
        info = Connection(self._next_connection_id, host, listener, client_port=port)
        connection = ClientConnection(
            self, info, write, close, resume_reading, abort or close, self._max_request_size, now
        )
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
        while self._muted and self._muted[0][0] <= now:
            heapq.heappop(self._muted)[-1].unmute()
        if self._next_idle_check <= now:
            self._close_idle(now)
        self.settle(now, now_ms)

    def settle(self, now: float, now_ms: int) -> None:
        """Answer what waits for something that happened since; to be called after requests were worked on."""
        self.now, self.now_ms = now, now_ms
        self.state.purgatory.complete_marked(now)
        while self._resumed:
            resumed, self._resumed = self._resumed, []
            for connection in resumed:
                connection.go_on()
            self.state.purgatory.complete_marked(now)

    def resume(self, connection: ClientConnection) -> None:
        """A parked request was answered: `settle` works on those of the connection that came after it."""
        self._resumed.append(connection)

    @property
    def needs_settling(self) -> bool:
        """Whether `settle` has anything to do."""
        return bool(self._resumed) or self.state.purgatory.has_marked

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""
        deadline = min(self.state.purgatory.next_deadline(), self._next_idle_check)
        if self._muted:
            deadline = min(deadline, self._muted[0][0])
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
        measuring = bool(self.observers) or self.state.client_quotas.enabled
        if not measuring and self._answered_at_once(connection, frame):
            return
        try:
            header, offset = decode_request_header(frame)
            version = header.request_api_version
            api = self.apis.get((header.request_api_key, version)) or self._load(header.request_api_key, version)
            # What follows the message is not looked at, like in Apache Kafka: librdkafka 2.11 sends three bytes more
            # than Metadata version 13 has.
            request = (
                api.empty_request if api.plan is None else Decoder(frame, offset, -1, MAX_ELEMENTS).message(api.plan)
            )
        except (ProtocolError, InvalidRequestError) as problem:
            self.refuse(connection, f"a request cannot be understood: {problem}", "malformed")
            return
        except Exception as problem:  # noqa: BLE001 - a handler that cannot be imported must not end the broker
            self._report_fault(connection, "loading a request's handler", problem)
            return
        context = RequestContext(
            header.request_api_key,
            version,
            header.correlation_id,
            header.client_id,
            connection.info,
            self.now,
            self.now_ms,
            len(frame),
        )
        api.requests += 1
        try:
            if measuring:
                started = self.timer()
                response = api.handle(self.state, context, request)
                context.handler_seconds = self.timer() - started
            else:
                response = api.handle(self.state, context, request)
        except CloseConnection as reason:
            self.refuse(connection, str(reason))
            return
        except Exception as problem:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._report_fault(connection, request_class(header.request_api_key).NAME, problem)
            return
        if isinstance(response, DelayedOperation):
            connection.park(response, api, context, request if self.observers else None)
        else:
            self.respond(connection, api, context, request, response)

    def _answered_at_once(self, connection: ClientConnection, frame: memoryview) -> bool:
        """Whether a shortcut has answered; one is looked for only while nobody wants to know more of the request."""
        found = self._shortcuts.get(bytes(frame[:_KEY_AND_VERSION]))
        if found is None:
            return False
        api, shortcut = found
        try:
            answer = shortcut(self.state, frame, self.now_ms)
        except Exception as problem:  # noqa: BLE001 - as for handlers
            self._report_fault(connection, request_class(api.key).NAME, problem)
            return True
        if answer is None:
            return False
        api.requests += 1
        connection.put((answer,))
        return True

    def respond(
        self,
        connection: ClientConnection,
        api: ServedApi,
        context: RequestContext,
        request: Message | None,
        message: Message | None,
    ) -> None:
        """Give a response to a connection's socket, and let the client wait if it has used too much."""
        if self.state.client_quotas.enabled:
            self._throttle(connection, context, message)
        if message is not None:
            try:
                buffers = encode_response(message, api.response_version, context.correlation_id)
            except KafkaError as problem:
                self._report_fault(connection, type(message).NAME, problem)
                return
            connection.put(buffers)
        for observer in self.observers:
            observer.completed(api, context, request, message, self.now)

    def _throttle(self, connection: ClientConnection, context: RequestContext, message: Message | None) -> None:
        """KIP-219: the answer goes at once and says how long to wait; a client that does not is not listened to."""
        quotas = self.state.client_quotas
        wait = quotas.use(context, REQUEST, context.handler_seconds * 100, self.now)
        wait = max(context.throttle, min(wait, quotas.window_seconds))
        if wait <= 0:
            return
        milliseconds = int(wait * 1000 + 0.5)
        if message is not None and hasattr(message, "throttle_time_ms"):
            message.throttle_time_ms = milliseconds
        connection.mute()
        self._mutings += 1
        heapq.heappush(self._muted, (self.now + milliseconds / 1000, self._mutings, connection))

    def refuse(self, connection: ClientConnection, reason: str, kind: str = "") -> None:
        """End a connection, for a reason that the operator should know; of one kind, at most once a second."""
        text = f"closing the connection from {connection.info.client_host}: {reason}"
        self._refusals.say(kind or reason, text, self.now)
        connection.end()

    def _load(self, api_key: int, version: int) -> ServedApi:
        served = SERVED.get(api_key)
        name = request_class(api_key).NAME
        if served is None:
            raise InvalidRequestError(f"{name} is not served")
        if served[1] <= version <= served[2]:
            api = ServedApi(api_key, version, handler_for(api_key), plan_of(request_class(api_key), version), version)
        elif api_key == _API_VERSIONS:
            # A client that is newer than we gets an answer in version 0, from which it learns what to ask (KIP-511).
            return ServedApi(api_key, version, handler_for(api_key), None, 0)
        else:
            raise InvalidRequestError(f"version {version} of {name} is not served")
        self.apis[api_key, version] = api
        shortcut = shortcut_for(api_key, version)
        if shortcut is not None:
            self._shortcuts[api_key.to_bytes(2, "big") + version.to_bytes(2, "big")] = api, shortcut
        return api

    def _report_fault(self, connection: ClientConnection, api: str, problem: Exception) -> None:
        self.refuse(connection, f"the broker failed at {api}; please report this\n{_trace(problem)}")

    def _close_idle(self, now: float) -> None:
        for connection in list(self.connections.values()):
            if connection.is_idle and now - connection.last_used > self._max_idle:
                connection.end()
        self._next_idle_check = now + self._max_idle / 4 if self.connections else INFINITY


def _no_time() -> float:
    return 0.0


def _trace(problem: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(problem)).rstrip()
