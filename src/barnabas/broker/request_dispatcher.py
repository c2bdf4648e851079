"""Takes requests to their handlers and answers back to their connections (KafkaApis); no sockets, no clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from barnabas import anatomy
from barnabas.broker.faults import fault_text
from barnabas.broker.network.request_channel import RequestChannel
from barnabas.broker.node_apis import BrokerApis
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.request import Request, ServedApi
from barnabas.broker.request_context import CloseConnection, RequestContext
from barnabas.broker.request_events import tell_answered_at_once, tell_parked, tell_received, tell_sent
from barnabas.config.quota_config import REQUEST
from barnabas.errors import InvalidRequestError, KafkaError, ProtocolError
from barnabas.protocol.api import request_class
from barnabas.protocol.codec import MAX_ELEMENTS, Decoder
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.plan import plan_of

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Shortcut
    from barnabas.broker.instant import Instant
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.broker.network.transport import Buffers
    from barnabas.broker.node_apis import NodeApis
    from barnabas.broker.request import RequestObserver, ShortcutObserver
    from barnabas.protocol.message import Message

_PRODUCE, _FETCH, _API_VERSIONS = 0, 1, 18
#: The first bytes of a request.
_KEY_AND_VERSION = 4
#: How long a service is left alone after it failed, in seconds.
_REST_AFTER_FAULT = 1.0
#: Requests of which nothing is kept while they are parked, as there may be many and with records.
_LARGE_REQUESTS = (_PRODUCE, _FETCH)


class Service(Protocol):
    """A state machine with timers of its own, such as the group coordinator."""

    def tick(self, instant: Instant) -> None:
        """Do what is due."""

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""


class RequestDispatcher:
    """Has each request handled, and answers it or parks it; gives services and parked requests their time.

    `warn` gets one line for each thing that an operator should know. `timer` tells how long handlers take, in seconds;
    it is asked only while something uses that: `observers`, or a quota for the time of requests. Each request that
    may have moved `next_deadline` sets `has_new_deadlines`: all but those that took a shortcut. Shortcuts answer where
    no observer wants to know of requests, or only an observer that is the `shortcut_observer`, too.
    """

    def __init__(self, state: BrokerState, warn: Callable[[str], None], apis: NodeApis | None = None):
        self.state = state
        self._node_apis = apis or BrokerApis(state)
        self.warn = warn
        self.channel = RequestChannel(state, warn, self.handle_frame)
        self.faults = self.channel.faults
        state.purgatory.on_fault = lambda operation, problem: self.faults.tell(type(operation).__name__, problem)
        self.services: list[Service] = []
        self.observers: list[RequestObserver] = []
        self.shortcut_observer: ShortcutObserver | None = None
        self.timer: Callable[[], float] = _no_time
        self.has_new_deadlines = False
        self.apis: dict[tuple[int, int], ServedApi] = {}
        self._turn: Instant | None = None
        self._turn_began = 0.0
        self._resting: dict[Service, float] = {}
        self._shortcuts: dict[bytes, tuple[ServedApi, Shortcut]] = {}

    @property
    def instant(self) -> Instant:
        """The time of the present turn."""
        return self.channel.instant

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, instant: Instant) -> None:
        """Answer what is past its deadline, and let the services do what is due."""
        self.channel.instant = instant
        for service in self.services:
            if self._due(service) <= instant.now:
                self._run(service)
        self.state.purgatory.tick(instant.now)
        self.channel.tick()
        self.settle(instant)

    def settle(self, instant: Instant) -> None:
        """Answer what waits for something that happened since; to be called after requests were worked on."""
        self.channel.instant = instant
        self.state.purgatory.complete_marked(instant.now)
        while self.channel.resumed:
            self.channel.go_on()
            self.state.purgatory.complete_marked(instant.now)

    @property
    def needs_settling(self) -> bool:
        """Whether `settle` has anything to do."""
        return bool(self.channel.resumed or self.state.purgatory.marked)

    def next_deadline(self) -> float:
        """When `tick` is needed next, in monotonic seconds; infinity if it is not."""
        deadline = min(self.state.purgatory.next_deadline(), self.channel.next_deadline())
        for service in self.services:
            deadline = min(deadline, self._due(service))
        return deadline

    def _due(self, service: Service) -> float:
        try:
            due = service.next_deadline()
        except Exception as problem:  # noqa: BLE001 - a fault in one service must not end the others' time
            self._failed_at(service, problem)
            due = self.instant.now
        return max(due, self._resting.get(service, 0.0)) if self._resting else due

    def _run(self, service: Service) -> None:
        instant = self.instant
        try:
            service.tick(instant)
        except Exception as problem:  # noqa: BLE001 - a fault in one service must not end the broker
            self._failed_at(service, problem)
        else:
            self._resting.pop(service, None)

    def _failed_at(self, service: Service, problem: Exception) -> None:
        self._resting[service] = self.instant.now + _REST_AFTER_FAULT
        self.faults.tell(type(service).__name__, problem)

    # -- requests ----------------------------------------------------------------------------------------------------

    def handle_frame(self, connection: ClientConnection, frame: memoryview) -> None:
        """Work on one request: answer it, park it, or end the connection if it makes no sense."""
        if anatomy.active is not None:
            tell_received(anatomy.active, self.state.node_id, connection.info, frame)
        measuring = bool(self.observers) or self.state.client_quotas.enabled
        if not measuring:
            if self._answered_at_once(connection, frame):
                return
        elif self._may_take_shortcuts() and self._answered_and_counted(connection, frame):
            return
        self.has_new_deadlines = True
        request = self._read(connection, frame)
        if request is None:
            return
        request.api.requests += 1
        started = self._note_queue_time(request) if measuring else 0.0
        try:
            response = request.api.handle(self.state, request.context, request.message)
        except Exception as problem:  # noqa: BLE001 - a fault in one handler must not end the broker
            self._failed(request, problem)
            return
        if measuring:
            request.context.handler_seconds = self.timer() - started
        if isinstance(response, DelayedOperation):
            if not self.observers and request.api.key in _LARGE_REQUESTS:
                request.message = None
            if anatomy.active is not None:
                tell_parked(anatomy.active, self.state.node_id, request.context)
            connection.park(response, request.answer, lambda problem: self._failed_later(request, problem))
        else:
            request.answer(response)

    def _may_take_shortcuts(self) -> bool:
        observer = self.shortcut_observer
        if observer is None or self.state.client_quotas.enabled:
            return False
        return len(self.observers) == 1 and cast("object", self.observers[0]) is observer

    def _note_queue_time(self, request: Request) -> float:
        """Note how long a request waited: since its bytes came, and for the others of this turn; the time it is."""
        now = self.timer()
        instant = self.channel.instant
        if self._turn is not instant:
            self._turn, self._turn_began = instant, now
        request.context.queue_seconds = max(0.0, instant.now - request.connection.last_used) + now - self._turn_began
        return now

    def _answered_and_counted(self, connection: ClientConnection, frame: memoryview) -> bool:
        """Whether a shortcut has answered; its observer is notified."""
        found = self._shortcuts.get(bytes(frame[:_KEY_AND_VERSION]))
        if found is None:
            return False
        started = self.timer()
        answer = self._ask_shortcut(connection, frame, *found)
        if answer and self.shortcut_observer is not None:
            self.shortcut_observer.answered_at_once(found[0], answer, self.timer() - started, self.instant.now)
        return answer is not None

    def _answered_at_once(self, connection: ClientConnection, frame: memoryview) -> bool:
        """Whether a shortcut has answered."""
        found = self._shortcuts.get(bytes(frame[:_KEY_AND_VERSION]))
        return found is not None and self._ask_shortcut(connection, frame, *found) is not None

    def _ask_shortcut(
        self, connection: ClientConnection, frame: memoryview, api: ServedApi, shortcut: Shortcut
    ) -> bytes | None:
        """Return what a shortcut has answered, b"" if that ended the connection; None where it cannot answer."""
        try:
            answer = shortcut(self.state, connection.info, frame, self.channel.instant.now_ms)
        except Exception as problem:  # noqa: BLE001 - as for handlers
            self._report_fault(connection, request_class(api.key).NAME, problem)
            return b""
        if answer is not None:
            api.requests += 1
            if anatomy.active is not None:
                tell_answered_at_once(anatomy.active, self.state.node_id, connection.info, frame, answer)
            connection.put((answer,))
        return answer

    def _read(self, connection: ClientConnection, frame: memoryview) -> Request | None:
        """Return the request in a frame; None if it cannot be understood, upon which its connection has been ended."""
        try:
            header, offset = decode_request_header(frame)
            version = header.request_api_version
            api = self.apis.get((header.request_api_key, version)) or self._load(header.request_api_key, version)
            # What follows the message is not looked at, like in Apache Kafka: librdkafka 2.11 sends three bytes more
            # than Metadata version 13 has.
            message = (
                api.empty_request if api.plan is None else Decoder(frame, offset, -1, MAX_ELEMENTS).message(api.plan)
            )
        except (ProtocolError, InvalidRequestError) as problem:
            self.channel.refuse(connection, f"a request cannot be understood: {problem}", "malformed")
            return None
        except Exception as problem:  # noqa: BLE001 - a handler that cannot be imported must not end the broker
            self._report_fault(connection, "loading a request's handler", problem)
            return None
        context = RequestContext(header, connection.info, self.channel.instant, len(frame))
        return Request(api, message, connection, context, self._respond)

    def _respond(self, request: Request, message: Message | None) -> None:
        """Give a response to a connection's socket, and let the client wait if it has used too much."""
        if request.context.amend is not None and message is not None:
            message = request.context.amend(message)
        if self.state.client_quotas.enabled:
            self._throttle(request, message)
        buffers: Buffers = ()
        if message is not None:
            try:
                buffers = encode_response(message, request.api.response_version, request.context.correlation_id)
            except KafkaError as problem:
                self._report_fault(request.connection, type(message).NAME, problem)
                return
        if anatomy.active is not None:
            tell_sent(anatomy.active, self.state.node_id, request.context, buffers)
        if buffers:
            request.connection.put(buffers)
        if self.observers:
            for observer in self.observers:
                observer.completed(request, message, self.instant.now)
            made_at = self.timer()
            request.connection.when_sent(lambda: self._sent(request, made_at))

    def _sent(self, request: Request, made_at: float) -> None:
        seconds = self.timer() - made_at
        for observer in self.observers:
            observer.sent(request, seconds, self.instant.now)

    def _throttle(self, request: Request, message: Message | None) -> None:
        """KIP-219: the answer goes at once and says how long to wait; a client that does not is not listened to."""
        quotas = self.state.client_quotas
        context = request.context
        wait = quotas.use(context, REQUEST, context.handler_seconds * 100, self.instant.now)
        wait = max(context.throttle, min(wait, quotas.window_seconds))
        if wait <= 0:
            return
        milliseconds = int(wait * 1000 + 0.5)
        if message is not None and hasattr(message, "throttle_time_ms"):
            message.throttle_time_ms = milliseconds
        self.channel.mute(request.connection, milliseconds / 1000)

    def _load(self, api_key: int, version: int) -> ServedApi:
        name, served = request_class(api_key).NAME, self._node_apis.versions(api_key)
        if served is None:
            raise InvalidRequestError(f"{name} is not served")
        if served[0] <= version <= served[1]:
            handle = self._node_apis.handler(api_key)
            api = ServedApi(api_key, version, handle, plan_of(request_class(api_key), version), version)
        elif api_key == _API_VERSIONS:
            # A client that is newer than we gets an answer in version 0, from which it learns what to ask (KIP-511).
            return ServedApi(api_key, version, self._node_apis.handler(api_key), None, 0)
        else:
            raise InvalidRequestError(f"version {version} of {name} is not served")
        self.apis[api_key, version] = api
        shortcut = self._node_apis.shortcut(api_key, version)
        if shortcut is not None:
            self._shortcuts[api_key.to_bytes(2, "big") + version.to_bytes(2, "big")] = api, shortcut
        return api

    def _failed(self, request: Request, problem: Exception) -> None:
        """End the connection of a request whose handler has raised."""
        if isinstance(problem, CloseConnection):
            self.channel.refuse(request.connection, str(problem))
            return
        self._report_fault(request.connection, request_class(request.api.key).NAME, problem)
        self._recover(request)

    def _failed_later(self, request: Request, problem: Exception) -> None:
        """Answer a parked request that has failed with UNKNOWN_SERVER_ERROR, where the response has a place for it."""
        from barnabas.broker.error_responses import fault_response

        api, response = request.api, None
        if not isinstance(problem, CloseConnection):
            response = fault_response(api.key, request.message, api.response_version)
        if response is None:
            self._failed(request, problem)
            return
        self.faults.tell(request_class(api.key).NAME, problem)
        self._recover(request)
        request.answer(response)

    def _recover(self, request: Request) -> None:
        if request.message is None:
            return
        try:
            self._node_apis.recover(request.message, self.instant.now)
        except Exception as problem:  # noqa: BLE001 - the request that has failed is to be answered all the same
            self.faults.tell("recovering from a fault", problem)

    def _report_fault(self, connection: ClientConnection, api: str, problem: Exception) -> None:
        self.channel.refuse(connection, fault_text(api, problem), is_fault=True)


def _no_time() -> float:
    return 0.0
