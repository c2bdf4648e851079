"""The settings of a client's connections, and of the requests on them (ConnectionSettings)."""

from __future__ import annotations

from typing import NamedTuple


class ConnectionSettings(NamedTuple):
    """How a NetworkClient treats its connections; times in seconds, Kafka's defaults.

    `max_in_flight_requests` is per connection.
    """

    max_in_flight_requests: int = 5
    reconnect_backoff: float = 0.05
    reconnect_backoff_max: float = 1.0
    request_timeout: float = 30.0
    connection_setup_timeout: float = 10.0
    connection_setup_timeout_max: float = 30.0
    connections_max_idle: float = 540.0
