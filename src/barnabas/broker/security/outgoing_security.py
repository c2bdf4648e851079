"""TLS and SASL of the connections that this broker opens, to other brokers and to controllers (ChannelBuilders)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.repeated_warnings import RepeatedWarnings
from barnabas.broker.security.server_ssl_context import stamps_of_stores
from barnabas.config.config import Config
from barnabas.config.config_def import definitions
from barnabas.errors import ConfigError
from barnabas.network.security.channel_builder import ChannelBuilder, create_channel_builder

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from barnabas.broker.config import BrokerConfig, PeerListener
    from barnabas.broker.security.server_ssl_context import Stamp
    from barnabas.errors import KafkaError
    from barnabas.network.node import Node
    from barnabas.network.security.blocking_worker import Worker
    from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator
    from barnabas.network.security.ssl_transport_layer import SslTransportLayer

#: What a client's settings are called that a listener has, too; by the part of the protocol that makes use of them.
_OF_TLS, _OF_SASL = "ssl.", "sasl."


class OutgoingSecurity:
    """Secures what goes to one listener of other nodes; a `ChannelSecurity`, for all connections to it.

    It goes by the settings that hold for the listener here, `listener.name.*` before the others: its key store is
    this broker's certificate there, `sasl.jaas.config` of the mechanism has its user and password. Stores whose files
    were replaced hold from the next connection on. `warn` gets a line for what an operator has to mend.

    Raises `ConfigError` when the settings cannot be used; the message names the listener.
    """

    def __init__(self, config: BrokerConfig, listener: PeerListener, warn: Callable[[str], None]) -> None:
        self._config = config
        self._listener = listener
        self._warn = warn
        self._refusals = RepeatedWarnings(warn)
        self._stamps: tuple[Stamp, ...] = ()
        self._builder = self._make()

    def _make(self) -> ChannelBuilder:
        # Before they are read: what is replaced meanwhile is read once more.
        self._stamps = self._stamps_now()
        try:
            settings = client_settings(self._config, self._listener)
            found = create_channel_builder(settings, f"broker-{self._config.node_id}")
        except ConfigError as problem:
            raise ConfigError(f"connections to other nodes' listener {self._listener.name}: {problem}") from None
        assert found is not None, "a plain listener has no security"
        return found

    def _stamps_now(self) -> tuple[Stamp, ...]:
        return stamps_of_stores(self._config.listener_config(self._listener.name))

    def reload(self) -> None:
        """Take over settings and files as they are now; those that cannot be used are told, and the old ones hold."""
        try:
            self._builder = self._make()
        except ConfigError as problem:
            self._warn(f"{problem}; it goes on with the settings that it has")

    def refused(self, node: Node, error: KafkaError, now: float) -> None:
        """Tell that a node does not let this broker in, or is not who it should be."""
        text = f"the connection to node {node.id} at {node.host}:{node.port} ({self._listener.name}) failed: {error}"
        self._refusals.say(f"{node.id}", text, now)

    # -- what a Selector asks ----------------------------------------------------------------------------------------

    @property
    def worker(self) -> Worker:
        """See `ChannelBuilder`."""
        return self._builder.worker

    def transport_layer(self, plain: socket.socket, host: str, target: str) -> SslTransportLayer | None:
        """See `ChannelBuilder`."""
        if self._stamps != self._stamps_now():
            self.reload()
        return self._builder.transport_layer(plain, host, target)

    def authenticator(self, target: str) -> SaslClientAuthenticator | None:
        """See `ChannelBuilder`."""
        return self._builder.authenticator(target)


def client_settings(config: BrokerConfig, listener: PeerListener) -> Config:
    """Return the settings of a client of a listener: those that hold for the listener itself here."""
    does_sasl = listener.protocol.startswith("SASL")
    used = (_OF_TLS,) * listener.protocol.endswith("SSL") + (_OF_SASL,) * does_sasl
    own = config.listener_config(listener.name, listener.mechanism if does_sasl else None)
    known = definitions("admin").keys
    given = {name: value for name, value in own.given.items() if name in known and name.startswith(used)}
    if does_sasl:
        given["sasl.mechanism"] = listener.mechanism
    return Config("admin", {**given, "security.protocol": listener.protocol})
