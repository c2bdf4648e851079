"""One connection of a client: its socket, what is being sent on it and what is being received (KafkaChannel)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.network.network_receive import NetworkReceive

if TYPE_CHECKING:
    import socket

    from barnabas.network.resolver import Address
    from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator
    from barnabas.network.security.ssl_transport_layer import SslTransportLayer
    from barnabas.network.selectable import Buffer

# Before the API versions are known a peer may be anything; nothing that Kafka says until then is longer.
FIRST_RECEIVE_SIZE = 1024 * 1024


class KafkaChannel:
    """A socket of the Selector, which does all that is done to it.

    `is_connected` says that the socket is, `is_ready` that TLS and SASL are done; while the session is being renewed it
    is not. `sending` is NetworkClient's, `own_sending` the authenticator's, which goes first; `is_begun` says that
    something of `sending` is in progress, which nothing may interrupt.
    """

    __slots__ = (
        "address",
        "addresses",
        "authenticator",
        "handshaking",
        "host",
        "interest",
        "is_begun",
        "is_connected",
        "is_last_word",
        "is_ready",
        "node_id",
        "own_sending",
        "receive",
        "renewal_began",
        "sending",
        "socket",
        "target",
    )

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.target = f"{host}:{port}"
        self.address = self.target
        self.addresses: deque[Address] = deque()
        self.socket: socket.socket | SslTransportLayer | None = None
        self.handshaking: SslTransportLayer | None = None
        self.authenticator: SaslClientAuthenticator | None = None
        self.interest = 0
        self.is_begun = False
        self.is_connected = False
        self.is_last_word = False
        self.is_ready = False
        self.receive = NetworkReceive(FIRST_RECEIVE_SIZE)
        self.renewal_began: float | None = None
        self.sending: list[Buffer] = []
        self.own_sending: list[Buffer] = []
