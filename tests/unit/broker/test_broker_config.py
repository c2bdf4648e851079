from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig, Listener, advertised_address, is_loopback, join_address, parse_address
from barnabas.broker.runner import BrokerStartError, check_exposure
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
        ({"listener.security.protocol.map": "A:B"}, "NAME:PROTOCOL"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect"),
        ({"process.roles": "controller"}, "has none for controllers"),
    ],
)
def test_what_cannot_be_served_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig(settings)


def test_the_data_directory() -> None:
    assert BrokerConfig().data_directory is None
    assert BrokerConfig({"log.dir": "/a"}).data_directory == "/a"
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b"}).data_directory == "/b"
    assert BrokerConfig({"log.dirs": "/a, /b,/a"}).data_directories == ["/a", "/b"]


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


@pytest.mark.parametrize(
    ("protocol", "more", "authenticates"),
    [
        ("PLAINTEXT", {}, False),
        ("SSL", {}, False),
        ("SSL", {"listener.name.a.ssl.client.auth": "required"}, True),
        ("SASL_PLAINTEXT", {}, True),
    ],
)
def test_who_authenticates_may_come_from_anywhere(protocol: str, more: dict[str, Any], authenticates: bool) -> None:
    config = BrokerConfig({"listeners": "A://:0", "listener.security.protocol.map": f"A:{protocol}", **more})
    assert config.authenticates(config.listeners[0]) == authenticates
    if authenticates:
        check_exposure(config)


def test_clients_are_told_the_advertised_address_or_the_bound_one() -> None:
    bound = Listener("PLAINTEXT", "127.0.0.1", 4711)
    assert advertised_address(BrokerConfig(), bound) == ("127.0.0.1", 4711)
    config = BrokerConfig({"advertised.listeners": "PLAINTEXT://kafka.example:9092"})
    assert advertised_address(config, bound) == ("kafka.example", 9092)
    free = BrokerConfig({"advertised.listeners": "PLAINTEXT://kafka.example:0"})
    assert advertised_address(free, bound) == ("kafka.example", 4711)


BOTH = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CONTROLLER://:9093"
NAMES = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"


def both(**more: Any) -> BrokerConfig:
    given = {"listeners": BOTH, "listener.security.protocol.map": NAMES}
    return BrokerConfig({**given, **{name.replace("__", "."): value for name, value in more.items()}})


def test_brokers_reach_each_other_through_the_listener_that_is_named() -> None:
    assert BrokerConfig().inter_broker_listener == "PLAINTEXT"
    assert both(inter__broker__listener__name="OUTSIDE").inter_broker_listener == "OUTSIDE"
    with pytest.raises(ConfigError, match="INSIDE, OUTSIDE"):
        both(inter__broker__listener__name="CONTROLLER")


def test_or_through_one_of_the_protocol_that_is_named() -> None:
    assert both(security__inter__broker__protocol="PLAINTEXT").inter_broker_listener == "INSIDE"
    with pytest.raises(ConfigError, match="no listener for brokers has it"):
        both(security__inter__broker__protocol="SSL")
    with pytest.raises(ConfigError, match="both given"):
        both(security__inter__broker__protocol="PLAINTEXT", inter__broker__listener__name="INSIDE")


class TestSettingsOfOneListener:
    def config(self, settings: dict[str, Any]) -> BrokerConfig:
        return BrokerConfig({"listeners": BOTH, "listener.security.protocol.map": NAMES, **settings})

    def test_they_go_before_the_brokers(self) -> None:
        config = self.config({"max.connections": 9, "listener.name.outside.max.connections": "5"})
        assert [config.listener_config(name)["max.connections"] for name in ("INSIDE", "OUTSIDE")] == [9, 5]
        assert config["max.connections"] == 9

    def test_those_of_a_mechanism_go_before_the_listeners(self) -> None:
        of_listener, of_mechanism = "listener.name.inside.max.connections", "listener.name.inside.plain.max.connections"
        config = self.config({of_mechanism: "3", of_listener: "5"})
        found = [config.listener_config("INSIDE", name)["max.connections"] for name in (None, "PLAIN", "OAUTHBEARER")]
        assert found == [5, 3, 5]
        assert config.listener_config("INSIDE", "PLAIN").is_own("max.connections")
        assert not config.listener_config("INSIDE", "OAUTHBEARER").is_own("max.connections")

    def test_they_go_before_what_is_set_for_the_broker_while_it_runs(self) -> None:
        config = self.config({"listener.name.outside.max.connections": "5"})
        config.apply_dynamic({"max.connections": "7"}, {})
        assert [config.listener_config(name)["max.connections"] for name in ("INSIDE", "OUTSIDE")] == [7, 5]
        config.apply_dynamic({"max.connections": "7"}, {"listener.name.outside.max.connections": "6"})
        assert config.listener_config("OUTSIDE")["max.connections"] == 6

    def test_the_name_of_a_listener_may_be_the_beginning_of_another(self) -> None:
        given = {
            "listeners": "A://:0,A.B://:1",
            "listener.security.protocol.map": "A:PLAINTEXT,A.B:PLAINTEXT",
            "listener.name.a.b.max.connections": "2",
        }
        config = BrokerConfig(given)
        assert config.listener_config("A.B")["max.connections"] == 2
        assert config.listener_config("A")["max.connections"] == BrokerConfig()["max.connections"]

    def test_what_cannot_be_used_is_told_by_its_whole_name(self) -> None:
        for name, value in (("max.connections", "many"), ("max.conections", "1"), ("remote.log.reader.threads", "77")):
            with pytest.raises(ConfigError, match=rf"listener\.name\.inside\.{name}"):
                self.config({f"listener.name.inside.{name}": value})

    def test_those_of_controllers_are_left_aside_and_strangers_are_told(self, caplog: pytest.LogCaptureFixture) -> None:
        self.config({"listener.name.controller.ssl.client.auth": "required"})
        assert not caplog.records
        self.config({"listener.name.nowhere.max.connections": "1"})
        assert "listener.name.nowhere.max.connections" in caplog.text


MEMBER = {"process.roles": "broker", "controller.quorum.bootstrap.servers": "c:9093,d:9093"}


class TestMembersOfACluster:
    def test_the_controllers_are_named_and_the_listener_for_brokers_is_known(self) -> None:
        config = BrokerConfig(MEMBER)
        assert config.is_member
        assert config.controllers == [("c", 9093), ("d", 9093)]
        assert config.inter_broker_listener == "PLAINTEXT"
        assert not BrokerConfig({}).is_member

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"controller.quorum.bootstrap.servers": ""}, "name them in controller.quorum.bootstrap.servers"),
            ({"controller.quorum.bootstrap.servers": "c"}, "'c' is not an address"),
            (
                {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL"},
                "listener CONTROLLER wants that",
            ),
        ],
    )
    def test_what_a_member_cannot_do_is_refused(self, settings: dict[str, str], problem: str) -> None:
        with pytest.raises(ConfigError, match=problem):
            BrokerConfig({**MEMBER, **settings})
