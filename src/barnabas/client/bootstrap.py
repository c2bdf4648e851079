"""Reads `bootstrap.servers`."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.errors import ConfigError
from barnabas.network.node import Node


def parse_bootstrap_servers(servers: Iterable[str]) -> list[Node]:
    """The servers to start from, as nodes with ids -1, -2, ...: their real ids are not known yet.

    Each is `host:port`; an IPv6 address stands in brackets, `[::1]:9092`. A listener's name in front, as in
    `PLAINTEXT://host:9092`, is allowed and means nothing.

    Raises:
        ConfigError: one cannot be read, or there is none.
    """
    nodes: list[Node] = []
    for server in servers:
        if not isinstance(server, str):
            raise ConfigError(f"bootstrap.servers: {server!r} must be a string like 'localhost:9092'")
        if server.strip():
            nodes.append(_parse_server(server.strip(), -1 - len(nodes)))
    if not nodes:
        raise ConfigError("bootstrap.servers is empty: give one or more host:port, such as 'localhost:9092'")
    return nodes


def _parse_server(server: str, node_id: int) -> Node:
    address = server.rpartition("://")[2]
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"bootstrap.servers: {server!r}: write an IPv6 address in brackets, like [::1]:9092")
    if not colon or not host:
        raise ConfigError(f"bootstrap.servers: {server!r} must be host:port, such as 'localhost:9092'")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"bootstrap.servers: {server!r}: the port must be a number from 1 to 65535")
    return Node(node_id, host, int(port))
