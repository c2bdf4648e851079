"""A way from this broker to other nodes, on its event loop: one request in flight (InterBrokerSendThread)."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.faults import Faults
from barnabas.broker.guarded_requester import GuardedRequester
from barnabas.broker.network.socket_server import read_clocks
from barnabas.broker.operator_log import report
from barnabas.network.bound_loop import BoundLoop
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.loop_driver import LoopDriver
from barnabas.network.loop_port import LoopPort
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.network_client import NetworkClient
from barnabas.network.selector import Selector

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.requester import Requester
    from barnabas.broker.security.outgoing_security import OutgoingSecurity
    from barnabas.network.client_request import ClientResponse
    from barnabas.network.exponential_backoff import RandomSource
    from barnabas.network.node import Node
    from barnabas.network.selectable import Selectable
    from barnabas.protocol.message import Message


_CONNECTION_SETUP_TIMEOUT = ConnectionSettings().connection_setup_timeout


class Home(NamedTuple):
    """Where a channel lives: its loop and sockets, chance, both clocks, and who is told of faults of this program.

    `security` is that of the listener at the other end, None for a plain one.
    """

    loop: BoundLoop
    sockets: Selectable
    random: RandomSource
    clocks: Callable[[], Instant]
    report: Callable[[str], None]
    security: OutgoingSecurity | None = None


def home_here(random: RandomSource, security: OutgoingSecurity | None = None) -> Home:
    """Return the running loop, with sockets of the system."""
    return Home(BoundLoop(), Selector(channel_builder=security), random, read_clocks, report, security)


class NodeChannel:
    """Carries the requests of one `Requester`, on connections of its own; a fault there costs one request.

    `wake` has the requester asked soon. `on_answer` is called on the loop after each turn that brought the requester
    something: what it changed in the broker may let others be answered.
    """

    def __init__(
        self,
        requester: Requester,
        client_id: str,
        home: Home,
        *,
        request_timeout: float,
        on_answer: Callable[[], None],
    ) -> None:
        self._requester = GuardedRequester(requester, Faults(home.report, time.monotonic).tell)
        self._clocks = home.clocks
        self._on_answer = on_answer
        self._security = home.security
        self._port = LoopPort(home.loop, home.sockets, sends_are_news=False)
        self._client = NetworkClient(
            self._port,
            ManualMetadataUpdater(),
            client_id,
            ConnectionSettings(
                request_timeout=request_timeout,
                reconnect_backoff=0.02,
                reconnect_backoff_max=0.5,
                connection_setup_timeout=min(request_timeout, _CONNECTION_SETUP_TIMEOUT),
            ),
            random=home.random,
        )
        self._addresses: dict[int, Node] = {}
        self._waiting: tuple[Node, Message] | None = None
        #: Whom the request in flight was sent to.
        self._in_flight: Node | None = None
        #: The only node whose answer counts from now on, until that is so.
        self._only: Node | None = None
        self._has_news = False
        self._driver = LoopDriver(home.loop, self._port, self._turn, client_id)

    def start(self) -> None:
        """Begin, in the running loop."""
        self._driver.start()

    def wake(self) -> None:
        """Ask the requester soon."""
        if self._driver.is_started:
            # Not the driver: during a turn it hears nothing but this.
            self._port.wakeup()

    def leave_others(self, node: Node) -> None:
        """Wait for no answer but this node's: what another one was asked has no response, as if it had gone."""
        self._only = node
        self.wake()

    def close(self) -> None:
        """End all connections; the requester hears nothing more."""
        self._driver.stop()
        self._client.close()

    def _turn(self, now: float) -> None:
        self._has_news = False
        self._leave(now)
        self._ask_and_hear(now)
        has_told = self._has_news
        if self._port.take_news() or has_told:
            # What follows upon an answer goes out with it, and not with the loop's next turn: it may be the Fetch by
            # which a leader learns that records are here.
            self._has_news = False
            self._ask_and_hear(now)
            if self._has_news:
                has_told = True
                self._port.wakeup()
        if has_told:
            self._on_answer()

    def _ask_and_hear(self, now: float) -> None:
        """Send what is due, and take what has come."""
        self._send_next(now)
        deadline = self._requester.next_deadline() if self._in_flight is None else inf
        if self._waiting is not None:
            deadline = now + self._client.poll_delay(self._waiting[0], now)
        self._client.poll(max(0.0, deadline - now), now)

    def _leave(self, now: float) -> None:
        only, self._only = self._only, None
        asked = self._in_flight if self._waiting is None else self._waiting[0]
        if only is None or asked is None or (asked.host, asked.port) == (only.host, only.port):
            return
        self._client.disconnect(asked.id, now)
        if self._waiting is not None:
            self._waiting = None
            self._lost(now)

    def _send_next(self, now: float) -> None:
        if self._waiting is None and self._in_flight is None:
            self._waiting = self._requester.next_request(now)
        if self._waiting is None:
            return
        node, message = self._waiting
        self._go_to(node, now)
        if self._client.ready(node, now):
            self._waiting, self._in_flight = None, node
            self._client.send(self._client.new_client_request(node.id, message, now, callback=self._answered), now)
        elif self._client.connection_failed(node):
            self._waiting = None
            refusal = self._client.authentication_error(node)
            if refusal is not None and self._security is not None:
                self._security.refused(node, refusal, now)
            self._lost(now)

    def _go_to(self, node: Node, now: float) -> None:
        """Drop the connection to a node that has another address now."""
        known = self._addresses.get(node.id)
        if known is not None and known != node:
            self._client.disconnect(node.id, now)
        self._addresses[node.id] = node

    def _answered(self, response: ClientResponse) -> None:
        self._in_flight = None
        if response.message is None:
            self._lost(response.received_at)
            return
        self._has_news = True
        self._requester.receive(response.message, self._clocks())

    def _lost(self, now: float) -> None:
        self._has_news = True
        self._requester.disconnected(now)
