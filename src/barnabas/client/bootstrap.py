"""Reads `bootstrap.servers`, or `bootstrap.controllers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError
from barnabas.network.node import Node
from barnabas.network.resolver import canonical_names


def bootstrap_nodes(config: ClientConfig, names_of: Callable[[str], list[str]] = canonical_names) -> list[Node]:
    """Return the servers that a client starts from.

    As its `bootstrap.servers` (or `bootstrap.controllers`) and `client.dns.lookup` say.

    With `resolve_canonical_bootstrap_servers_only` the canonical names of all addresses of each server take its place,
    for which this waits for the name server; other servers than these first ones keep the names that brokers tell.

    Raises `ConfigError` when one cannot be read, or there is none, or its canonical names are asked for and it is
    not known.

    """
    setting = config.bootstrap_setting
    try:
        nodes = parse_bootstrap_servers(config.get_list(setting), setting)
    except ConfigError as error:
        config.raise_without_resolved(error)
    if config["client.dns.lookup"] != "resolve_canonical_bootstrap_servers_only":
        return nodes
    places = dict.fromkeys((name, node.port) for node in nodes for name in _names(node, names_of, setting))
    return [Node(-1 - number, name, port) for number, (name, port) in enumerate(places)]


def _names(node: Node, names_of: Callable[[str], list[str]], setting: str) -> list[str]:
    try:
        return names_of(node.host)
    except OSError as problem:
        raise ConfigError(
            f"{setting}: the host {node.host!r} is not known ({problem}), so it has no canonical name, which "
            "client.dns.lookup=resolve_canonical_bootstrap_servers_only asks for"
        ) from problem


def parse_bootstrap_servers(servers: Iterable[str], setting: str = "bootstrap.servers") -> list[Node]:
    """Return the servers to start from, as nodes with ids -1, -2, ...: their real ids are not known yet.

    Each is `host:port`; an IPv6 address stands in brackets, `[::1]:9092`. A listener's name in front, as in
    `PLAINTEXT://host:9092`, is allowed and means nothing.

    Raises `ConfigError` when one cannot be read, or there is none.

    """
    nodes: list[Node] = []
    for server in servers:
        if not isinstance(server, str):
            raise ConfigError(f"{setting}: {server!r} must be a string like 'localhost:9092'")
        if server.strip():
            nodes.append(_parse_server(server.strip(), -1 - len(nodes), setting))
    if not nodes:
        raise ConfigError(f"{setting} is empty: give one or more host:port, such as 'localhost:9092'")
    return nodes


def _parse_server(server: str, node_id: int, setting: str) -> Node:
    address = server.rpartition("://")[2]
    if "@" in address:
        # Not shown: what stands before the @ may be a password.
        raise ConfigError(
            f"{setting}: an address holds no user and no password: write host:port, and give sasl.username and "
            "sasl.password"
        )
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{setting}: {server!r}: write an IPv6 address in brackets, like [::1]:9092")
    if not colon or not host:
        raise ConfigError(f"{setting}: {server!r} must be host:port, such as 'localhost:9092'")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigError(f"{setting}: {server!r}: the port must be a number from 1 to 65535")
    return Node(node_id, host, int(port))
