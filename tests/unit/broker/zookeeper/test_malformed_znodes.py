"""Znodes that Kafka does not write are told, and hold up nothing that comes after them."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.security.delegation_tokens import DelegationToken
from barnabas.broker.zookeeper import acl_znodes, token_znodes, znodes
from barnabas.broker.zookeeper.acl_znodes import Pattern
from barnabas.broker.zookeeper.operations import Create, Get, RefusedError
from barnabas.protocol.kinds import AclOperation, AclPermissionType, ConfigResourceType, PatternType, ResourceType
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ZooKeeperBroker, has_topic, known, leading

FLIGHTS, DELAYS = bytes(15) + b"\x01", bytes(15) + b"\x02"
_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "delegation.token.secret.key": "the key of tokens",
}


def _acl(topic: str, who: str) -> AclBinding:
    kinds = AclOperation.READ.value, AclPermissionType.DENY.value
    return AclBinding(ResourceType.TOPIC.value, topic, PatternType.LITERAL.value, f"User:{who}", "*", *kinds)


def _token(name: str, expiry_ms: int) -> DelegationToken:
    return DelegationToken(name, "User:alice", "User:alice", (), 1, 10**15, expiry_ms)


def _broker() -> ZooKeeperBroker:
    return ZooKeeperBroker(ModelZooKeeper(), _SETTINGS).register()


def _announced(found: ZooKeeperBroker, path: str, data: bytes) -> None:
    found.zookeeper.carry_out(0, Create(path, data, sequential=True))
    found.zookeeper.deliver()


def _setting(found: ZooKeeperBroker, entity: str, data: bytes) -> None:
    found.zookeeper.put(f"{znodes.CONFIG}/{entity}", data)
    found.zookeeper.carry_out(0, Create(_CONFIG_CHANGE, znodes.encode_config_change(entity), sequential=True))


def _retention(found: ZooKeeperBroker, topic: str) -> Any:
    return found.control.image.configs.get((ConfigResourceType.TOPIC.value, topic), {}).get("retention.ms")


def _is_told(found: ZooKeeperBroker, path: str) -> bool:
    assert not [line for line in found.warnings if "please report" in line]
    return any(path in line for line in found.warnings)


_CONFIG_CHANGE = f"{znodes.CONFIG_CHANGES}/config_change_"
_GOOD = znodes.encode_config({"retention.ms": "7"})


@pytest.mark.parametrize("data", [b"x", b"[]", b"\xff", b'{"version":2}', b'{"version":2,"entity_path":"of/it"}', b""])
def test_an_announcement_of_settings_that_says_nothing_holds_up_no_other(data: bytes) -> None:
    found = _broker()
    found.zookeeper.carry_out(0, Create(_CONFIG_CHANGE, data, sequential=True))
    _setting(found, "topics/flights", _GOOD)
    found.zookeeper.deliver()
    assert _retention(found, "flights") == "7"
    _setting(found, "topics/delays", _GOOD)
    found.zookeeper.deliver()
    assert _retention(found, "delays") == "7"
    assert b"of/it" in data or _is_told(found, znodes.CONFIG_CHANGES)


@pytest.mark.parametrize(
    ("entity", "data"),
    [("topics/delays", b"x"), ("topics/delays", b"\xff"), ("clients/a", b'{"config":{"producer_byte_rate":"many"}}')],
)
def test_settings_that_kafka_does_not_write_hold_up_no_others(entity: str, data: bytes) -> None:
    found = _broker()
    _setting(found, entity, data)
    _setting(found, "topics/flights", _GOOD)
    found.zookeeper.deliver()
    assert _retention(found, "flights") == "7"
    assert _is_told(found, f"{znodes.CONFIG}/{entity}")
    found.session.disconnect()
    _setting(found, "topics/flights", znodes.encode_config({"retention.ms": "8"}))
    found.session.connect()
    found.zookeeper.deliver()
    assert _retention(found, "flights") == "8"


@pytest.mark.parametrize("data", [b"x", b"FOO:flights", b"\xff", b""])
@pytest.mark.parametrize("folder", acl_znodes.ACL_CHANGES)
def test_an_announcement_of_acls_that_says_nothing_holds_up_no_other(folder: str, data: bytes) -> None:
    found, acl = _broker(), _acl("flights", "alice")
    pattern = Pattern.of(acl)
    found.zookeeper.put(acl_znodes.acl_path(pattern), acl_znodes.encode_acls([acl]))
    found.zookeeper.carry_out(0, Create(f"{folder}/acl_changes_", data, sequential=True))
    _announced(found, f"{acl_znodes.encode_change(pattern)[0]}/acl_changes_", acl_znodes.encode_change(pattern)[1])
    assert len(found.control.image.acls) == 1
    assert _is_told(found, folder)


def test_acls_that_kafka_does_not_write_leave_those_that_were_known() -> None:
    found, acls = _broker(), [_acl(topic, "alice") for topic in ("flights", "delays")]
    for content in (None, b"x"):
        for acl in acls:
            pattern = Pattern.of(acl)
            data = acl_znodes.encode_acls([acl, _acl(acl.resource_name, "bob")])
            is_bad = content is not None and acl is acls[0]
            found.zookeeper.put(acl_znodes.acl_path(pattern), b"x" if is_bad else data)
            folder, announcement = acl_znodes.encode_change(pattern)
            found.zookeeper.carry_out(0, Create(f"{folder}/acl_changes_", announcement, sequential=True))
        found.zookeeper.deliver()
        assert len(found.control.image.acls) == 4
    assert _is_told(found, acl_znodes.acl_path(Pattern.of(acls[0])))


@pytest.mark.parametrize("data", [b"\xff", b"", b"a/b", b".."])
def test_an_announcement_of_a_token_that_names_none_holds_up_no_other(data: bytes) -> None:
    found = _broker()
    found.zookeeper.put(token_znodes.token_path("x"), token_znodes.encode_token(_token("x", 10**12)))
    for name in (data, b"x"):
        found.zookeeper.carry_out(0, Create(f"{token_znodes.TOKEN_CHANGES}/token_change_", name, sequential=True))
    found.zookeeper.deliver()
    assert list(found.control.image.delegation_tokens) == ["x"]
    assert _is_told(found, token_znodes.TOKEN_CHANGES)


# -- what controllers tell meanwhile ---------------------------------------------------------------------------------


def test_a_topic_whose_settings_cannot_be_read_has_none_and_holds_up_no_request_of_the_controller() -> None:
    found = _broker()
    has_topic(found.zookeeper, "flights", FLIGHTS, [3, 1])
    found.zookeeper.put(f"{znodes.CONFIG}/topics/flights", b"x")
    assert found.lead(leading("flights", FLIGHTS, [3, 1])).error_code == 0
    assert found.partition("flights").is_leader
    assert _is_told(found, f"{znodes.CONFIG}/topics/flights")


def test_a_topic_whose_settings_may_not_be_read_is_refused_and_holds_up_no_request_of_the_controller() -> None:
    found = _broker()
    carry_out = found.zookeeper.carry_out

    def refuse(session: int, operation: Any) -> Any:
        if operation == Get(f"{znodes.CONFIG}/topics/flights"):
            return RefusedError(operation.path, "this client may not")
        return carry_out(session, operation)

    found.zookeeper.carry_out = refuse  # type: ignore[method-assign]
    has_topic(found.zookeeper, "flights", FLIGHTS, [3, 1])
    assert found.lead(leading("flights", FLIGHTS, [3, 1])).error_code == errors.UnknownServerError.code
    assert found.update(known("flights", FLIGHTS, [3, 1])).error_code == errors.UnknownServerError.code
    assert found.lead(leading("delays", DELAYS, [3, 1])).error_code == 0
    assert found.partition("delays").is_leader


def test_a_reading_that_fails_holds_up_no_request_of_the_controller() -> None:
    found = _broker()
    found.session.disconnect()
    assert found.lead(leading("flights", FLIGHTS, [3, 1])) is None
    found.zookeeper.put(znodes.topic_path("bad"), b"x")
    found.session.connect()
    found.zookeeper.deliver()
    assert found.partition("flights").is_leader
    assert _is_told(found, znodes.topic_path("bad"))
