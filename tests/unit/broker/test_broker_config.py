from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig, Listener, is_loopback, join_address, parse_address
from barnabas.broker.runner import BrokerStartError, advertised_address, check_exposure
from barnabas.errors import ConfigError


def test_listeners_of_controllers_are_not_served() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://:9093"})
    assert config.listeners == (Listener("PLAINTEXT", "localhost", 9092),)


def test_a_listener_can_have_any_name_that_the_map_knows() -> None:
    config = BrokerConfig(
        {"listeners": "INSIDE://[::1]:0", "listener.security.protocol.map": "INSIDE:PLAINTEXT, OTHER:SSL"}
    )
    assert config.listeners == (Listener("INSIDE", "::1", 0),)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"listeners": "127.0.0.1:9092"}, "is not a listener"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "is not a listener"),
        ({"listeners": "PLAINTEXT://127.0.0.1:99999"}, "is not a listener"),
        ({"listeners": "CONTROLLER://:9093"}, "none for clients"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "may stand there once"),
        ({"listeners": "INSIDE://:1"}, "listener.security.protocol.map"),
        ({"listeners": "SSL://:1"}, "SSL, which is not supported yet"),
        ({"listener.security.protocol.map": "A:B"}, "NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect"),
        ({"process.roles": "controller"}, "role broker"),
    ],
)
def test_what_cannot_be_served_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig(settings)


def test_the_data_directory() -> None:
    assert BrokerConfig().data_directory is None
    assert BrokerConfig({"log.dir": "/a"}).data_directory == "/a"
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b"}).data_directory == "/b"
    with pytest.raises(ConfigError, match="keeps all data in one"):
        _ = BrokerConfig({"log.dirs": "/a,/b"}).data_directory


def test_the_old_name_of_the_node_id() -> None:
    assert BrokerConfig().node_id == 1
    assert BrokerConfig({"broker.id": 7}).node_id == 7
    assert BrokerConfig({"broker.id": 7, "node.id": 8}).node_id == 8


def test_topic_defaults_come_from_the_brokers_settings() -> None:
    defaults = BrokerConfig({"log.retention.hours": 2, "log.segment.bytes": 2_000_000}).topic_defaults
    assert (defaults["retention.ms"], defaults["segment.bytes"]) == (7_200_000, 2_000_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:2", ("::1", 2)), (":0", ("", 0)), ("a.b:3", ("a.b", 3))],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert parse_address(text) == found
    assert join_address(*found) == text


@pytest.mark.parametrize("text", ["", "9092", "a:b", "a:-1", "a:65536", "a:٣"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("", False), ("0.0.0.0", False),
     ("127.evil.example", False), ("10.0.0.1", False), ("::", False)],
)  # fmt: skip
def test_only_this_machine_may_connect_unless_that_is_wanted(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback
    config = BrokerConfig({"listeners": f"PLAINTEXT://{join_address(host, 0)}"})
    if loopback:
        check_exposure(config)
    else:
        with pytest.raises(BrokerStartError, match="--allow-remote"):
            check_exposure(config)


def test_clients_are_told_the_advertised_address_or_the_bound_one() -> None:
    bound = Listener("PLAINTEXT", "127.0.0.1", 4711)
    assert advertised_address(BrokerConfig(), bound) == ("127.0.0.1", 4711)
    config = BrokerConfig({"advertised.listeners": "PLAINTEXT://kafka.example:9092"})
    assert advertised_address(config, bound) == ("kafka.example", 9092)
    free = BrokerConfig({"advertised.listeners": "PLAINTEXT://kafka.example:0"})
    assert advertised_address(free, bound) == ("kafka.example", 4711)
