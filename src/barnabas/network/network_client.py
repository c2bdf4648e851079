"""`NetworkClient`: requests and responses with all brokers of a cluster, driven by the caller of `poll`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

from barnabas import anatomy
from barnabas.errors import (
    AuthenticationError,
    DisconnectError,
    IllegalStateError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
)
from barnabas.network.broker_connections import BrokerConnections
from barnabas.network.client_request import LAST_CORRELATION_ID, ClientRequest, ClientResponse
from barnabas.network.cluster_connection_states import ClusterConnectionStates
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.exponential_backoff import RandomSource
from barnabas.network.in_flight_requests import InFlightRequest, InFlightRequests
from barnabas.network.internal_ports import InternalRequests
from barnabas.network.log_context import enter_client
from barnabas.network.metadata_updater import MetadataUpdater
from barnabas.network.network_metrics import NetworkMetrics
from barnabas.network.node import Node
from barnabas.network.node_api_versions import NodeApiVersions
from barnabas.network.node_choice import NodeChoice
from barnabas.network.poll_result import PollResult
from barnabas.network.selectable import Buffer, Selectable
from barnabas.network.silent_nodes import SilentNodes, kept_for
from barnabas.network.telemetry_sender import TELEMETRY_APIS, TelemetrySender
from barnabas.network.throttling import throttle_seconds
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_response, encode_request_parts

if TYPE_CHECKING:
    from barnabas.network.client_request import Request

log = logging.getLogger("barnabas.network")

_SIZE_PREFIX = 4
_CLOSED_HERE = "this client closed it"


class NetworkClient:
    """Kafka's NetworkClient. It has no thread: one owner calls it, and only `wakeup` may come from another thread.

    It makes connections when `ready` asks for them, learns each broker's API versions, keeps the metadata fresh
    through its `metadata_updater`, answers every request exactly once (by `poll`, with a response, a disconnection or
    a version mismatch), and after a failure leaves a broker alone for a growing time before it tries again.
    Durations are seconds, `now` is monotonic.

    Raises (all methods):
        IllegalStateError: after `close`.
    """

    def __init__(
        self,
        selector: Selectable,
        metadata_updater: MetadataUpdater,
        client_id: str,
        settings: ConnectionSettings | None = None,
        *,
        random: RandomSource,
        metrics: NetworkMetrics | None = None,
    ) -> None:
        self.selector = selector
        self._metadata_updater = metadata_updater
        #: Pushes the client's metrics (KIP-714), for a client that does.
        self.telemetry_sender: TelemetrySender | None = None
        self.client_id = client_id
        settings = ConnectionSettings() if settings is None else settings
        self.request_timeout = settings.request_timeout
        self.reconnect_backoff = settings.reconnect_backoff
        self.metrics = NetworkMetrics() if metrics is None else metrics
        self.in_flight_requests = InFlightRequests(settings.max_in_flight_requests)
        self._states = ClusterConnectionStates(settings, random)
        self._silent = SilentNodes(self.in_flight_requests, self._states, is_watched=metadata_updater.can_doubt)
        max_idle = settings.connections_max_idle
        self._connections = BrokerConnections(selector, self._states, client_id, self.metrics, max_idle)
        self._api_versions = self._connections.api_versions
        self._choice = NodeChoice(
            self._connections,
            self.in_flight_requests,
            self._silent,
            metadata_updater,
            random,
            self.can_send_request,
        )
        self._aborted_sends: list[ClientResponse] = []
        self._correlation_id = 0
        self._is_closed = False
        # Requests of callers that no response was made for yet, by correlation id.
        self._unanswered: dict[int, ClientRequest] = {}
        # An exception from outside (a signal handler's, say) ended the work on the network in its middle.
        self._is_torn = False

    def ready(self, node: Node, now: float) -> bool:
        """Whether a request can be sent to the node now; when there is no connection to it, one is begun."""
        if self._is_closed:
            raise self._closed_error()
        if self.is_ready(node, now):
            return True
        if self._states.can_connect(node.id, now):
            self.initiate_connect(node, now)
        return False

    def is_ready(self, node: Node, now: float) -> bool:
        """Whether a request can be sent to the node now; no node is ready while a metadata request must go first."""
        return not self._metadata_updater.is_update_due(now) and self.can_send_request(node.id, now)

    def can_send_request(self, node_id: int, now: float) -> bool:
        """Whether the connection is ready, not throttled, and has room for one more request in flight."""
        return self._connections.can_carry(node_id, now) and self.in_flight_requests.has_room(node_id)

    def can_connect(self, node_id: int, now: float) -> bool:
        """Whether there is no connection and its backoff is over."""
        return self._states.can_connect(node_id, now)

    def initiate_connect(self, node: Node, now: float) -> None:
        """Begin to connect to a node that `connection_states` allows to be connected to."""
        was_torn, self._is_torn = self._is_torn, True
        self._connections.connect(node, now)
        self._silent.expect_connection(node.id, now)
        self._is_torn = was_torn

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds to wait before the node is worth another look; infinite when only an event can change something."""
        return self._states.connection_delay(node.id, now)

    def poll_delay(self, node: Node, now: float) -> float:
        """Like `connection_delay`, with the time that the broker throttles this client."""
        return self._states.poll_delay(node.id, now)

    def connection_failed(self, node: Node) -> bool:
        """Whether the last connection, or attempt, ended."""
        return self._states.is_disconnected(node.id)

    def authentication_error(self, node: Node) -> AuthenticationError | None:
        """Why the node did not let this client in, if that is what happened last."""
        return self._states.authentication_error(node.id)

    def api_versions(self, node_id: int) -> NodeApiVersions | None:
        """Return what the node understands; None while there is no ready connection."""
        return self._api_versions.get(node_id)

    def connection_number(self, node_id: int) -> int:
        """Which of all the connections of this client the node's last one is, from 1 on; 0 when it had none."""
        return self._states.number(node_id)

    def least_loaded_node(self, now: float) -> Node | None:
        """Return the node to ask when any will do, see `NodeChoice.least_loaded`."""
        return self._choice.least_loaded(now)

    def ready_node_with(self, api_key: int, now: float) -> Node | None:
        """Return the least loaded node that can be sent to, one with an API if there is any."""
        return self._choice.ready_with(api_key, now)

    def has_ready_connection(self, now: float) -> bool:
        """Whether any known node has a ready connection, busy or not."""
        return self._choice.is_any_ready(now)

    def is_any_node_connecting(self, now: float) -> bool:
        """Whether a connection to any known node is being made, and not for too long yet."""
        return self._choice.is_any_connecting(now)

    def new_client_request(
        self,
        node_id: int,
        message: Request,
        now: float,
        expect_response: bool = True,
        timeout: float | None = None,
        callback: Callable[[ClientResponse], None] | None = None,
    ) -> ClientRequest:
        """Return a request for `send`: `message` is a request message or a `RequestBuilder`.

        `timeout` is in seconds.
        """
        correlation_id = self._correlation_id
        self._correlation_id = 0 if correlation_id == LAST_CORRELATION_ID else correlation_id + 1
        if timeout is None:
            timeout = self.request_timeout
        return ClientRequest(node_id, message, correlation_id, now, expect_response, timeout, callback)

    def send(self, request: ClientRequest, now: float) -> None:
        """Queue a request for the next `poll`, which transmits it and in time returns its response.

        Raises `IllegalStateError` when the node is not ready.

        """
        if self._is_closed:
            raise self._closed_error()
        if not self.can_send_request(request.destination, now):
            raise IllegalStateError(
                f"{self.client_id}: cannot send to node {request.destination}, which is not ready; "
                "ask `ready` first and poll until it is"
            )
        self._do_send(request, is_internal=False, now=now)

    def send_internal_request(self, node_id: int, message: Request, now: float) -> None:
        """Send a request of the client's own; its outcome goes to whom `_owner` names, not to `poll`'s caller."""
        self._do_send(self.new_client_request(node_id, message, now), is_internal=True, now=now)

    def _owner(self, request: ClientRequest) -> InternalRequests | None:
        """Return what is told of the outcome of an internal request; None for ApiVersions, the client's own."""
        if request.api_key in TELEMETRY_APIS:
            return self.telemetry_sender
        return None if request.api_key == ApiKey.API_VERSIONS else self._metadata_updater

    def _do_send(self, request: ClientRequest, *, is_internal: bool, now: float) -> None:
        was_torn, self._is_torn = self._is_torn, True
        if not is_internal:
            self._unanswered[request.correlation_id] = request
        try:
            message, version = self._api_versions.build(request)
            parts = encode_request_parts(message, version, request.correlation_id, self.client_id)
        except Exception as error:  # noqa: BLE001  what cannot be written fails this request, and nothing else
            self._abort(request, is_internal, _as_kafka_error(request, error), now)
        else:
            self.in_flight_requests.add(InFlightRequest(request, version, is_internal, now, kept_for(message)))
            self._silent.expect(now)
            if anatomy.active is not None:
                self._tell_in_flight(anatomy.active, request, sum(map(len, parts)))
            self._connections.on_used(request.destination, now)
            self.metrics.on_sent(request.destination, sum(map(len, parts)), now)
            self.selector.send(request.destination, parts, expect_response=request.expect_response)
        self._is_torn = was_torn

    def _tell_in_flight(self, recorder: anatomy.Recorder, request: ClientRequest, size: int) -> None:
        api, correlation = ApiKey(request.api_key).name, request.correlation_id
        names = self.client_id, recorder.number_of(self.selector), request.destination, api, correlation
        recorder.record(anatomy.events.RequestInFlight(*names, size, self.selector.local_port(request.destination)))

    def _tell_answered(self, recorder: anatomy.Recorder, request: ClientRequest, error: str = "") -> None:
        api, correlation = ApiKey(request.api_key).name, request.correlation_id
        names = self.client_id, recorder.number_of(self.selector), request.destination, api, correlation
        recorder.record(anatomy.events.RequestAnswered(*names, error))

    def _abort(self, request: ClientRequest, is_internal: bool, error: KafkaError, now: float) -> None:
        log.debug("%s: %r cannot be sent to node %s: %s", self.client_id, request, request.destination, error)
        if is_internal:
            self._fail_internal(request, error, now)
            if request.api_key == ApiKey.API_VERSIONS:
                # Without an answer the connection would never be ready.
                self.disconnect(request.destination, now)
            return
        is_mismatch = isinstance(error, UnsupportedVersionError)
        self._aborted_sends.append(ClientResponse(request, now, error=error, version_mismatch=is_mismatch))

    def _fail_internal(self, request: ClientRequest, error: KafkaError | None, now: float) -> None:
        owner = self._owner(request)
        if owner is not None:
            owner.handle_failed_request(now, error)

    def _fail_in_flight(self, in_flight: InFlightRequest, now: float) -> None:
        if not in_flight.is_given_up:
            self._fail_internal(in_flight.request, None, now)

    def poll(self, timeout: float, now: float) -> list[ClientResponse]:
        """Transmit and receive.

        Wait up to `timeout` seconds for something to happen, and run the callbacks of what was completed; the
        same responses are returned.
        """
        enter_client(self.client_id)
        if self._is_closed:
            raise self._closed_error()
        if self._is_torn:
            self.recover(now)
        if self._aborted_sends:
            responses, self._aborted_sends = self._aborted_sends, []
            self._complete_responses(responses)
            return responses
        self._is_torn = True
        until_update = self._metadata_updater.maybe_update(now, self)
        if self.telemetry_sender is not None:
            until_update = min(until_update, self.telemetry_sender.maybe_update(now, self))
        began, until_timeout = now, self._time_to_next_timeout(now)
        try:
            now = self.selector.poll(min(timeout, until_update, until_timeout) if timeout > 0 else timeout, now)
        except BaseException:
            self._is_torn = not getattr(self.selector, "is_only_waiting", False)
            raise
        result = PollResult(now)
        self._handle_selected(result)
        if now - began >= until_timeout:
            self._handle_timed_out_connections(result)
            self._handle_timed_out_requests(result)
        if now >= self._silent.next_look:
            self._handle_silent_nodes(result)
        if self._metadata_updater.needs_rebootstrap(now):
            self._rebootstrap(result)
        self._connections.close_idle(now, self.in_flight_requests.count)
        if result.responses:
            self._complete_responses(result.responses)
        self._is_torn = False
        return result.responses

    def _handle_selected(self, result: PollResult) -> None:
        """Act on what the last poll of the selector brought; most bring one thing."""
        selector, now = self.selector, result.now
        if selector.completed_sends:
            self._handle_completed_sends(result)
        if selector.completed_receives:
            self._handle_completed_receives(result)
        if selector.disconnected:
            self._handle_disconnections(result)
        if selector.connected or selector.authentications:
            for node_id in selector.connected:
                self._silent.heard(node_id)
            self._connections.on_opened(now)
        if self._api_versions.to_ask:
            self._ask_api_versions(now)

    def recover(self, now: float) -> None:
        """Begin anew after an exception from outside: every request in flight is answered as disconnected."""
        self._is_torn = True
        log.info("%s: closing all connections, for the last poll was interrupted in its middle", self.client_id)
        for node_id in self._states.nodes():
            self._connections.close_after_error(node_id, now)
            # An answer with metadata may have been taken in half.
            self._metadata_updater.handle_server_disconnect(now, node_id, None)
        self.in_flight_requests.drain()
        self._aborted_sends = []
        self._metadata_updater.handle_failed_request(now, None)
        if self.telemetry_sender is not None:
            self.telemetry_sender.handle_failed_request(now, None)
        error = DisconnectError("the connection was closed because the call that used it was interrupted")
        lost = [ClientResponse(request, now, error=error, disconnected=True) for request in self._unanswered.values()]
        self._complete_responses(lost)
        self._is_torn = False

    def _time_to_next_timeout(self, now: float) -> float:
        return min(
            self.request_timeout,
            self.in_flight_requests.time_to_next_timeout(now),
            self._states.time_to_next_setup_timeout(now),
            self._silent.next_look - now,
        )

    def _complete_responses(self, responses: list[ClientResponse]) -> None:
        for response in responses:
            try:
                response.on_complete()
            except Exception:
                log.exception("%s: the callback of %r failed", self.client_id, response.request)
            self._unanswered.pop(response.request.correlation_id, None)

    def _handle_completed_sends(self, result: PollResult) -> None:
        """Complete requests that expect no response, and take them out of flight, as soon as they are sent."""
        for node_id in self.selector.completed_sends:
            # Only the newest one can just have been sent: a node gets one send at a time.
            last = self.in_flight_requests.last_sent(node_id)
            if not last.request.expect_response:
                self.in_flight_requests.complete_last_sent(node_id)
                if anatomy.active is not None:
                    self._tell_answered(anatomy.active, last.request)
                result.answer(last, None)

    def _handle_completed_receives(self, result: PollResult) -> None:
        """Give each response to the oldest request in flight to its node, whose correlation id it must carry."""
        now = result.now
        for node_id, frame in self.selector.completed_receives:
            if not self.in_flight_requests.count(node_id):
                # Already given up on: what came before it on this connection could not be read.
                continue
            in_flight = self.in_flight_requests.complete_next(node_id, now)
            request = in_flight.request
            if anatomy.active is not None:
                self._tell_answered(anatomy.active, request)
            try:
                message = self._decode(in_flight, frame)
            except (ProtocolError, UnsupportedVersionError) as error:
                self._give_up_on(in_flight, error, result)
                continue
            self._connections.on_used(node_id, now)
            self.metrics.on_answered(node_id, len(frame) + _SIZE_PREFIX, in_flight.sent_at, now)
            pause = throttle_seconds(request.api_key, in_flight.version, message)
            if pause:
                self._states.throttle(node_id, now + pause)
            if not in_flight.is_internal:
                result.answer(in_flight, message)
            elif in_flight.is_given_up:
                self._metadata_updater.handle_late_response(now, request.message, message, in_flight.version)
                self._silent.look_at(now)
            elif (owner := self._owner(request)) is not None:
                owner.handle_successful_response(now, message, in_flight.version)
                # It may have said that a silent node is gone.
                self._silent.look_at(now)
            elif not self._connections.handle_api_versions(node_id, in_flight.version, message, now):
                self._disconnect(node_id, result)

    def _decode(self, in_flight: InFlightRequest, frame: Buffer) -> Any:
        request = in_flight.request
        correlation_id, message = decode_response(request.api_key, in_flight.version, frame)
        if correlation_id != request.correlation_id:
            raise ProtocolError(
                f"a response carries the correlation id {correlation_id} "
                f"where {request.correlation_id} is the oldest one waiting"
            )
        return message

    def _give_up_on(self, in_flight: InFlightRequest, error: KafkaError, result: PollResult) -> None:
        """End a connection whose bytes make no sense."""
        node_id = in_flight.request.destination
        log.error("%s: disconnecting from node %s: %s", self.client_id, node_id, error)
        if in_flight.is_internal:
            self._fail_in_flight(in_flight, result.now)
        else:
            result.fail(in_flight, error)
        self._disconnect(node_id, result)

    def _ask_api_versions(self, now: float) -> None:
        for node_id, request in self._api_versions.take_due(self.selector.is_channel_ready):
            self._states.checking_api_versions(node_id)
            self.send_internal_request(node_id, request, now)

    def _handle_disconnections(self, result: PollResult) -> None:
        for node_id, disconnection in self.selector.disconnected.items():
            self._silent.heard(node_id)
            unanswered = self.in_flight_requests.count(node_id)
            self._connections.broken(node_id, disconnection, result.now, unanswered)
            error = disconnection.authentication_error
            self._cancel_in_flight_requests(node_id, result, reason=disconnection.reason, authentication_error=error)
            self._metadata_updater.handle_server_disconnect(result.now, node_id, error)

    @property
    def failure_to_connect(self) -> str:
        """What to add to the message of an error for which broken connections may be the reason; mostly empty."""
        return f"; {self._connections.last_failure}" if self._connections.last_failure else ""

    def _cancel_in_flight_requests(
        self,
        node_id: int,
        result: PollResult,
        *,
        reason: str,
        timed_out: bool = False,
        authentication_error: AuthenticationError | None = None,
    ) -> None:
        for in_flight in self.in_flight_requests.clear_all(node_id):
            if anatomy.active is not None:
                self._tell_answered(anatomy.active, in_flight.request, reason)
            if in_flight.is_internal:
                self._fail_in_flight(in_flight, result.now)
            else:
                error = authentication_error or result.lost(in_flight, reason)
                result.fail(in_flight, error, timed_out=timed_out)

    def _disconnect(
        self, node_id: int, result: PollResult, reason: str = _CLOSED_HERE, *, timed_out: bool = False
    ) -> None:
        """End a connection, which is news about the cluster."""
        self._connections.close(node_id, result.now)
        if timed_out:
            self._silent.timed_out(node_id)
        self._cancel_in_flight_requests(node_id, result, reason=reason, timed_out=timed_out)
        self._metadata_updater.handle_server_disconnect(result.now, node_id, None)

    def _handle_timed_out_requests(self, result: PollResult) -> None:
        for node_id in self.in_flight_requests.nodes_with_timed_out_requests(result.now):
            log.info("%s: disconnecting from node %s: a request timed out", self.client_id, node_id)
            self._disconnect(node_id, result, "a request took longer than its timeout", timed_out=True)

    def _handle_timed_out_connections(self, result: PollResult) -> None:
        for node_id in self._states.nodes_with_setup_timeout(result.now):
            timeout = self._states.setup_timeout(node_id)
            log.info("%s: node %s did not accept a connection within %.3f s", self.client_id, node_id, timeout)
            self._disconnect(node_id, result, "the connection was not made in time", timed_out=True)

    def _handle_silent_nodes(self, result: PollResult) -> None:
        """Leave the silent nodes that the cluster does not list any more; ask others about those it does."""
        now, updater = result.now, self._metadata_updater
        waited_for = []
        for node_id, since in self._silent.look(now):
            if updater.is_gone(node_id, since):
                log.info("%s: leaving node %s: it is silent, and not listed any more", self.client_id, node_id)
                self._disconnect(node_id, result, "the cluster does not list this node any more")
            else:
                waited_for.append(node_id)
        if not waited_for:
            return
        if all(self._silent.is_silent(node.id, now) for node in updater.fetch_nodes()):
            # There is no other node to ask.
            self._silent.expect(now)
            return
        if updater.time_to_next_doubt(now) <= 0:
            self._give_up_metadata_of(waited_for, now)
            updater.doubt(now)
        self._silent.look_at(now + updater.time_to_next_doubt(now))

    def _give_up_metadata_of(self, silent: list[int], now: float) -> None:
        """Have another node asked for the metadata that a silent one was asked for."""
        for in_flight in chain.from_iterable(map(self.in_flight_requests.of_node, silent)):
            is_of_updater = in_flight.is_internal and self._owner(in_flight.request) is self._metadata_updater
            if is_of_updater and not in_flight.is_given_up:
                in_flight.is_given_up = True
                self._metadata_updater.give_up_request(now)

    def _rebootstrap(self, result: PollResult) -> None:
        for node in self._metadata_updater.fetch_nodes():
            if self._states.is_preparing(node.id) or self._states.is_connected(node.id):
                self._disconnect(node.id, result)
        self._metadata_updater.rebootstrap(result.now)

    def in_flight_request_count(self, node_id: int | None = None) -> int:
        """How many requests wait for their answer, from a node or from all."""
        return self.in_flight_requests.count(node_id)

    @property
    def unanswered_count(self) -> int:
        """How many requests of callers have neither been answered nor failed."""
        return len(self._unanswered)

    def has_ready_nodes(self, now: float) -> bool:
        """Whether any connection is ready."""
        return self._states.has_ready_nodes(now)

    def wakeup(self) -> None:
        """Make the current or next `poll` return without waiting; from any thread."""
        self.selector.wakeup()

    def disconnect(self, node_id: int, now: float) -> None:
        """End the connection to a node; what is in flight there is returned as disconnected by the next `poll`."""
        if self._states.state(node_id) is None or self._states.is_disconnected(node_id):
            return
        self._connections.close(node_id, now)
        result = PollResult(now)
        self._cancel_in_flight_requests(node_id, result, reason=_CLOSED_HERE)
        self._aborted_sends += result.responses

    def close(self) -> None:
        """End all connections; what is in flight is not answered. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.selector.close_all()
        if anatomy.active is not None:
            anatomy.active.forget(self.selector)
        self.metrics.on_all_closed()
        for in_flight in self.in_flight_requests.drain():
            # A consumer's other NetworkClient goes on with the telemetry, and must not wait for this one's answer.
            if in_flight.is_internal and in_flight.request.api_key in TELEMETRY_APIS:
                self._fail_internal(in_flight.request, None, in_flight.sent_at)
        self._metadata_updater.close()

    def _closed_error(self) -> IllegalStateError:
        return IllegalStateError(f"{self.client_id}: the network client is closed")


def _as_kafka_error(request: ClientRequest, error: Exception) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    wrapped = KafkaError(f"{request!r} cannot be written: {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
