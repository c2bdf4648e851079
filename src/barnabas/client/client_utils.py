"""Puts a client's network part together from its settings."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas.client.bootstrap import bootstrap_nodes
from barnabas.client.default_metadata_updater import DefaultMetadataUpdater
from barnabas.client.metadata import Metadata
from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError
from barnabas.network.connection_settings import ConnectionSettings
from barnabas.network.exponential_backoff import RandomSource
from barnabas.network.network_client import NetworkClient
from barnabas.network.network_metrics import NetworkMetrics
from barnabas.network.sampled_stat import MetricConfig
from barnabas.network.selectable import Selectable
from barnabas.network.selector import Selector

if TYPE_CHECKING:
    from barnabas.network.security.channel_builder import ChannelBuilder

# Kafka's consumers and admin clients set no bound of their own to the requests in flight to one broker.
DEFAULT_MAX_IN_FLIGHT = 100


def create_selector(config: ClientConfig, client_id: str | None = None) -> Selector:
    """Return the sockets of one client, secured as its settings ask for; `client_id` is `client.id` if it is not given.

    Raises `ConfigError` when the settings for TLS or SASL are wrong.

    """
    return Selector(
        send_buffer=config.get_int("send.buffer.bytes"),
        receive_buffer=config.get_int("receive.buffer.bytes"),
        channel_builder=channel_builder(config, client_id or config.get_str("client.id")),
    )


def channel_builder(config: ClientConfig, client_id: str) -> ChannelBuilder | None:
    """TLS and SASL as the settings ask for them; None, and nothing loaded, for plain connections.

    Raises `ConfigError`: settings for them are missing, contradict each other or cannot be used.

    """
    if config["security.protocol"] == "PLAINTEXT" and not any(
        name.startswith(("ssl.", "sasl.")) for name in config.given
    ):
        return None
    from barnabas.network.security.channel_builder import create_channel_builder

    try:
        return create_channel_builder(config, client_id)
    except ConfigError as error:
        config.raise_without_resolved(error)


def metric_config(config: ClientConfig) -> MetricConfig:
    """Return the window of averages, extremes and rates. All that is measured has Kafka's recording level INFO."""
    return MetricConfig(config.get_int("metrics.num.samples"), config.get_seconds("metrics.sample.window.ms"))


def bootstrap(metadata: Metadata, config: ClientConfig) -> None:
    """Let the metadata start from `bootstrap.servers`, if it has no nodes yet.

    Raises `ConfigError` when `bootstrap.servers` cannot be read.
    """
    if not metadata.fetch().nodes:
        metadata.bootstrap(bootstrap_nodes(config))


def create_network_client(
    config: ClientConfig,
    client_id: str,
    metadata: Metadata,
    *,
    max_in_flight_requests_per_connection: int = DEFAULT_MAX_IN_FLIGHT,
    random: RandomSource | None = None,
    selector: Selectable | None = None,
) -> NetworkClient:
    """Return a NetworkClient that keeps `metadata` fresh, from `bootstrap.servers` on if it has no nodes yet.

    `selector` and `random` are for event loops and simulators.

    Raises `ConfigError`: `bootstrap.servers` cannot be read; the settings for TLS or SASL are wrong.

    """
    bootstrap(metadata, config)
    if selector is None:
        selector = create_selector(config, client_id)
    request_timeout = config.get_seconds("request.timeout.ms")
    does_rebootstrap = config.get_str("metadata.recovery.strategy").lower() == "rebootstrap"
    updater = DefaultMetadataUpdater(
        metadata,
        request_timeout=request_timeout,
        rebootstrap_trigger=(
            config.get_seconds("metadata.recovery.rebootstrap.trigger.ms") if does_rebootstrap else None
        ),
    )
    metrics = NetworkMetrics(metric_config(config))
    return NetworkClient(
        selector,
        updater,
        client_id,
        ConnectionSettings(
            max_in_flight_requests=max_in_flight_requests_per_connection,
            reconnect_backoff=config.get_seconds("reconnect.backoff.ms"),
            reconnect_backoff_max=config.get_seconds("reconnect.backoff.max.ms"),
            request_timeout=request_timeout,
            connection_setup_timeout=config.get_seconds("socket.connection.setup.timeout.ms"),
            connection_setup_timeout_max=config.get_seconds("socket.connection.setup.timeout.max.ms"),
            connections_max_idle=config.get_seconds("connections.max.idle.ms"),
        ),
        random=Random() if random is None else random,
        metrics=metrics,
    )
