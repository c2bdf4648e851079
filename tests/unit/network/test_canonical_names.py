"""`client.dns.lookup=resolve_canonical_bootstrap_servers_only`."""

from __future__ import annotations

import socket
from random import Random
from typing import Any

import pytest

from barnabas.client import client_utils
from barnabas.client.bootstrap import bootstrap_nodes
from barnabas.client.metadata import Metadata, MetadataRefresh
from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError
from barnabas.network.node import Node
from barnabas.network.resolver import Address, canonical_names

ADDRESSES = {
    "kafka": ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1"],
    "one.example": ["10.0.0.1", "10.0.0.2"],
    "six.example": ["fd00::1"],
    "elsewhere.example": ["192.0.2.1"],
    "10.0.0.1": ["10.0.0.1"],
}
NAMES = {
    "10.0.0.1": "one.example",
    "10.0.0.2": "one.example",
    "10.0.0.3": "elsewhere.example",
    "fd00::1": "six.example",
}
CANONICAL = {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}


def look_up(host: str) -> list[Address]:
    if host not in ADDRESSES:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [
        (socket.AF_INET6, (address, 0, 0, 0)) if ":" in address else (socket.AF_INET, (address, 0))
        for address in ADDRESSES[host]
    ]


def name_of(sockaddr: tuple[Any, ...]) -> str:
    if sockaddr[0] not in NAMES:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return NAMES[sockaddr[0]]


def names_of(host: str) -> list[str]:
    return canonical_names(host, look_up, name_of)


def config_of(section: str, servers: str, **settings: str) -> ClientConfig:
    return ClientConfig(section, {"bootstrap.servers": servers, **settings})


def test_a_host_has_the_names_of_its_addresses_and_addresses_where_the_name_does_not_lead_back() -> None:
    assert names_of("kafka") == ["one.example", "10.0.0.3", "10.0.0.4", "six.example"]
    assert names_of("10.0.0.1") == ["one.example"]


@pytest.mark.parametrize("section", ["producer", "consumer", "admin"])
def test_canonical_names_take_the_place_of_bootstrap_servers_where_they_are_asked_for(section: str) -> None:
    servers = "kafka:9092,one.example:9092,10.0.0.1:9093"

    assert bootstrap_nodes(config_of(section, servers, **CANONICAL), names_of) == [
        Node(-1, "one.example", 9092),
        Node(-2, "10.0.0.3", 9092),
        Node(-3, "10.0.0.4", 9092),
        Node(-4, "six.example", 9092),
        Node(-5, "one.example", 9093),
    ]
    assert [node.host for node in bootstrap_nodes(config_of(section, servers), names_of)] == [
        *("kafka", "one.example", "10.0.0.1")
    ]


def test_a_server_that_is_not_known_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"'kafak' is not known .*Name or service not known"):
        bootstrap_nodes(config_of("admin", "kafka:1,kafak:1", **CANONICAL), names_of)


def test_a_name_that_cannot_be_one_is_not_known_either() -> None:
    with pytest.raises(OSError, match="is not a host name"):
        canonical_names("x" * 300 + ".y")


def test_an_unknown_way_to_look_up_is_an_error() -> None:
    with pytest.raises(ConfigError, match="must be one of use_all_dns_ips, resolve_canonical"):
        config_of("admin", "kafka:1", **{"client.dns.lookup": "default"})


def test_clients_start_from_the_canonical_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_utils, "bootstrap_nodes", lambda config: bootstrap_nodes(config, names_of))
    metadata = Metadata(MetadataRefresh(0.05, 0.2, 300.0, Random(1)))

    client_utils.create_network_client(config_of("admin", "10.0.0.1:9092", **CANONICAL), "me", metadata).close()

    assert metadata.fetch().nodes == [Node(-1, "one.example", 9092)]
