"""Takes the consumer's requests to the `NetworkClient`, and the answers back."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.client.consumer.request_future import RequestFuture
from barnabas.errors import DisconnectError, KafkaError, KafkaTimeoutError, ProtocolError, WakeupError
from barnabas.network.sampled_stat import DEFAULT, MetricConfig, Statistic
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.network.client_request import ClientRequest, ClientResponse, Request
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.node import Node


class RequestFutureCompletionHandler:
    """Stands between `NetworkClient` and a future: an answer only puts it into `pending_completion`.

    The future itself is completed by `fire_completion`, from `ConsumerNetworkClient.poll`, so that no listener runs in
    the middle of the `NetworkClient`'s work.
    """

    __slots__ = ("_error", "_latencies", "_pending_completion", "_response", "correlation_id", "future")

    def __init__(
        self, pending_completion: deque[RequestFutureCompletionHandler], latencies: Mapping[int, Statistic]
    ) -> None:
        self._latencies = latencies
        self.future: RequestFuture[ClientResponse] = RequestFuture()
        self._pending_completion = pending_completion
        self._response: ClientResponse | None = None
        self.correlation_id = -1
        self._error: KafkaError | None = None

    def on_complete(self, response: ClientResponse) -> None:
        """Note that the `NetworkClient` has finished with the request, one way or the other."""
        self._response = response
        self._pending_completion.append(self)

    def on_failure(self, error: KafkaError) -> None:
        """Note that the request was never sent, or is cancelled."""
        self._error = error
        self._pending_completion.append(self)

    def fire_completion(self) -> None:
        """Complete the future."""
        response = self._response
        if self._error is not None or response is None:
            self.future.raise_error(self._error or DisconnectError())
        elif response.error is not None:
            self.future.raise_error(_as_lost_connection(response.error))
        else:
            self._latencies[response.request.api_key].record(response.latency * 1000, response.received_at)
            self.future.complete(response)


def _as_lost_connection(error: KafkaError) -> KafkaError:
    """Turn an answer that makes no sense into the end of its connection, which callers get over like any other."""
    if not isinstance(error, ProtocolError):
        return error
    lost = DisconnectError(f"the connection was ended because an answer cannot be read: {error}")
    lost.__cause__ = error
    return lost


class _Tearing:
    """Held during work that an exception must not leave half done unnoticed."""

    __slots__ = ("_client",)

    def __init__(self, client: ConsumerNetworkClient) -> None:
        self._client = client

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._client.note_torn()


class ConsumerNetworkClient:
    """Queues requests per node, transmits them in `poll`, and completes their futures there.

    One thread owns it: each core of the consumer has its own. Only `wakeup` may be called from elsewhere. Because it is
    where a core waits, it is given the clock, to tell how long it waited.
    """

    def __init__(
        self,
        client: NetworkClient,
        clock: Callable[[], float],
        *,
        retry_backoff: float,
        request_timeout: float,
        metric_config: MetricConfig = DEFAULT,
    ) -> None:
        self.client = client
        self._clock = clock
        self._retry_backoff = retry_backoff
        self.request_timeout = request_timeout
        # The time that the poll in progress knows of, for the listeners that run in it.
        self.now = 0.0
        # Node id to its requests that have not been handed over yet, the oldest first.
        self._unsent: dict[int, deque[tuple[ClientRequest, RequestFutureCompletionHandler]]] = {}
        self._nodes: dict[int, Node] = {}
        self._pending_completion: deque[RequestFutureCompletionHandler] = deque()
        # API key to what its answered requests took, in milliseconds; for the metrics, which other threads may read.
        self.latencies: defaultdict[int, Statistic] = defaultdict(partial(Statistic, metric_config))
        # Those whose futures are not completed, even if their requests are.
        self._outstanding: set[RequestFutureCompletionHandler] = set()
        # An exception from outside ended a call in its middle; `on_torn` are told when that is put right.
        self._is_torn = False
        self._tearing = _Tearing(self)
        self.on_torn: list[Callable[[], object]] = []
        self._wakeup_requested = False
        self._wakeups_disabled = False

    def send(
        self, node: Node, message: Request, now: float, timeout: float | None = None
    ) -> RequestFuture[ClientResponse]:
        """Prepare a request and queue it; nothing is transmitted before `poll`.

        `timeout` is in seconds, request.timeout.ms when it is not given. `message` is a message or a builder of one.
        """
        handler = RequestFutureCompletionHandler(self._pending_completion, self.latencies)
        request = self.client.new_client_request(
            node.id,
            message,
            now,
            expect_response=True,
            timeout=self.request_timeout if timeout is None else timeout,
            callback=handler.on_complete,
        )
        self._nodes[node.id] = node
        self._outstanding.add(handler)
        self._unsent.setdefault(node.id, deque()).append((request, handler))
        if anatomy.active is not None:
            handler.correlation_id = request.correlation_id
            core, api = anatomy.active.number_of(self.client.selector), ApiKey(request.api_key).name
            names = self.client.client_id, core, node.id, api, request.correlation_id
            anatomy.active.record(anatomy.events.RequestUnsent(*names))
        return handler.future

    def poll(
        self,
        timeout: float,
        now: float,
        *,
        should_block: Callable[[], bool] | None = None,
    ) -> float:
        """Transmit what is queued, take answers in, complete futures; returns the time after it.

        Waits at most `timeout` seconds, and not at all when it had answers to tell of, which may change what the
        caller wants to wait for, or when `should_block` says no.
        Raises `WakeupError` after `wakeup`.
        """
        self.now = now
        if self._is_torn:
            self.recover()
        with self._tearing:
            has_news = self.fire_pending_completed_requests()
            delay = self._try_send(now)
            if has_news or self._pending_completion or (should_block is not None and not should_block()):
                timeout = 0.0
            elif self._unsent and not self.client.in_flight_request_count():
                timeout = min(timeout, delay, self._retry_backoff)
            else:
                timeout = min(timeout, delay)
        self.client.poll(max(0.0, timeout), now)
        self.now = now = self._clock()
        self.maybe_trigger_wakeup()
        with self._tearing:
            self._check_disconnects(now)
            self._try_send(now)
            self._fail_expired_requests(now)
            self.fire_pending_completed_requests()
            waiting = sum(not handler.future.is_done for handler in self._outstanding)
            if waiting != self.client.unanswered_count + sum(map(len, self._unsent.values())):
                # An exception came between an answer and its handler, which would wait for ever.
                self._is_torn = True
        return now

    def transmit_sends(self, now: float) -> None:
        """Hand over what is queued, without waiting and without completing anything."""
        if self._is_torn:
            self.recover()
        with self._tearing:
            self._try_send(now)
        self.client.poll(0.0, now)

    def complete_answered(self, now: float) -> None:
        """Complete the futures of what was answered, without sending or reading anything."""
        self.now = now
        if self._is_torn:
            self.recover()
        with self._tearing:
            self.fire_pending_completed_requests()

    def note_torn(self) -> None:
        """Begin anew with the next `poll`."""
        self._is_torn = True

    def recover(self) -> None:
        """Fail all requests and begin anew: an exception left the core's state half changed."""
        self._is_torn = True
        self.client.recover(self.now)
        self._unsent.clear()
        self._pending_completion.clear()
        for begin_anew in self.on_torn:
            begin_anew()
        for handler in list(self._outstanding):
            if not handler.future.is_done:
                handler.future.raise_error(DisconnectError("The request was given up: the call was interrupted"))
            self._outstanding.discard(handler)
        self._is_torn = False

    def fire_pending_completed_requests(self) -> bool:
        """Complete the futures of all requests that are finished; tells whether there were any."""
        pending = self._pending_completion
        has_news = bool(pending)
        while pending:
            handler = pending.popleft()
            if anatomy.active is not None:
                names = self.client.client_id, anatomy.active.number_of(self.client.selector)
                anatomy.active.record(anatomy.events.RequestCompleted(*names, handler.correlation_id))
            handler.fire_completion()
            self._outstanding.discard(handler)
        return has_news

    def wakeup(self) -> None:
        """End the `poll` in progress, or the next one, with `WakeupError`. From any thread or signal handler."""
        self._wakeup_requested = True
        self.client.wakeup()

    def maybe_trigger_wakeup(self) -> None:
        """Raise `WakeupError` if `wakeup` was called since."""
        if self._wakeup_requested and not self._wakeups_disabled:
            self._wakeup_requested = False
            raise WakeupError("wakeup() was called; the consumer can be used on, or closed")

    def disable_wakeups(self) -> None:
        """From now on `wakeup` ends nothing: the consumer is being closed."""
        self._wakeups_disabled = True

    @property
    def has_pending_requests(self) -> bool:
        """Whether anything is queued, on its way or finished and not told of."""
        return bool(self._unsent or self._pending_completion or self.client.in_flight_request_count())

    def pending_request_count(self, node: Node) -> int:
        """Count the requests of a node that are queued or in flight."""
        return len(self._unsent.get(node.id, ())) + self.client.in_flight_request_count(node.id)

    def is_unavailable(self, node: Node, now: float) -> bool:
        """Whether the connection failed and it is too early to try again."""
        return self.client.connection_failed(node) and self.client.connection_delay(node, now) > 0

    def disconnect(self, node: Node) -> None:
        """Drop the connection; what is queued or on its way there fails with `DisconnectError`."""
        self._fail_unsent(node.id, DisconnectError(f"The connection to broker {node.id} was given up"))
        self.client.disconnect(node.id, self.now)

    def _try_send(self, now: float) -> float:
        """Walk the queues and hand over all requests of nodes that are ready; returns seconds until one may be."""
        delay = inf
        for node_id in list(self._unsent):
            node = self._nodes[node_id]
            queue = self._unsent[node_id]
            while queue and self.client.ready(node, now):
                request, handler = queue.popleft()
                try:
                    self.client.send(request, now)
                except KafkaError as error:
                    handler.on_failure(DisconnectError(f"The request was not sent: {error}"))
            if queue:
                delay = min(delay, self.client.connection_delay(node, now))
            else:
                del self._unsent[node_id]
        return delay

    def _check_disconnects(self, now: float) -> None:
        """Fail what is queued for nodes whose connection failed, so that another node can be asked at once."""
        for node_id in list(self._unsent):
            node = self._nodes[node_id]
            if self.client.connection_failed(node):
                error = self.client.authentication_error(node) or DisconnectError(
                    f"No connection to broker {node.id} at {node.host}:{node.port}"
                )
                self._fail_unsent(node_id, error)

    def _fail_expired_requests(self, now: float) -> None:
        for node_id, queue in list(self._unsent.items()):
            while queue and now - queue[0][0].created_at > queue[0][0].timeout:
                request, handler = queue.popleft()
                handler.on_failure(
                    KafkaTimeoutError(
                        f"The request could not be sent to broker {node_id} within {request.timeout:g} s: "
                        "no connection was ready"
                    )
                )
            if not queue:
                del self._unsent[node_id]

    def _fail_unsent(self, node_id: int, error: KafkaError) -> None:
        for _, handler in self._unsent.pop(node_id, ()):
            handler.on_failure(error)
