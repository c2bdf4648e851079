"""Delegation tokens in ZooKeeper: read, written, announced, and taken away by the controller."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.broker.security.delegation_tokens import DelegationToken
from barnabas.broker.zookeeper import token_znodes
from barnabas.broker.zookeeper.znodes import MalformedZnodeError
from barnabas.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.core_broker import CoreClient
from tests.support.zookeeper_member import ZooKeeperBroker

_SETTINGS = {"delegation.token.secret.key": "the key of tokens"}
_TOKEN = DelegationToken("xyz", "User:al ice", "User:bob", ("User:carol", "User:dave,1"), 1, 300, 200)
#: As DelegationTokenManagerZk of Apache Kafka 3.9 makes it.
_JAVAS = (
    b'{"expiryTimestamp":200,"tokenRequester":"User%3Abob","renewers":["User%3Acarol","User%3Adave%2C1"],'
    b'"issueTimestamp":1,"maxTimestamp":300,"tokenId":"xyz","owner":"User%3Aal%20ice","version":3}'
)


def test_a_token_stands_in_its_znode_as_java_writes_it() -> None:
    assert json.loads(token_znodes.encode_token(_TOKEN)) == json.loads(_JAVAS)
    assert token_znodes.decode_token("/x", _JAVAS) == _TOKEN


def test_before_version_3_a_token_was_of_who_had_asked_for_it() -> None:
    value = json.loads(_JAVAS)
    del value["tokenRequester"]
    found = token_znodes.decode_token("/x", json.dumps({**value, "version": 2}).encode())
    assert found == _TOKEN._replace(requester="User:al ice")


@pytest.mark.parametrize("change", [{"version": 4}, {"owner": 7}, {"maxTimestamp": "soon"}, {"renewers": None}])
def test_what_kafka_does_not_write_is_told_with_its_path(change: dict[str, Any]) -> None:
    data = json.dumps({**json.loads(_JAVAS), **change}).encode()
    with pytest.raises(MalformedZnodeError, match="/delegation_token/tokens/xyz"):
        token_znodes.decode_token("/delegation_token/tokens/xyz", data)


def _user(broker: ZooKeeperBroker, name: str = "alice") -> CoreClient:
    client = broker.connect()
    client.connection.info.principal = f"User:{name}"
    client.connection.info.security_protocol = "SASL_PLAINTEXT"
    return client


def _ask(broker: ZooKeeperBroker, client: CoreClient, request: Any, version: int) -> Any:
    client.request(request, version)
    for _ in range(3):
        broker.zookeeper.deliver()
        broker.advance(0)
        broker.node.core.settle(broker.instant)
    return client.responses[-1]


def _make(broker: ZooKeeperBroker, lifetime: int = -1) -> Any:
    renewers = [CreatableRenewers(principal_type="User", principal_name="bob")]
    request = CreateDelegationTokenRequest(
        owner_principal_type=None, owner_principal_name=None, renewers=renewers, max_lifetime_ms=lifetime
    )
    return _ask(broker, _user(broker), request, 3)


def _known(broker: ZooKeeperBroker) -> dict[str, DelegationToken]:
    return {token.id: token for token in broker.state.delegation_tokens.all()}


def _stored(zookeeper: ModelZooKeeper) -> dict[str, DelegationToken]:
    root = f"{token_znodes.TOKENS}/"
    return {
        path.removeprefix(root): token_znodes.decode_token(path, node.data)
        for path, node in zookeeper.nodes.items()
        if path.startswith(root)
    }


def test_a_token_is_written_and_announced_and_known_to_the_other_brokers_as_it_changes() -> None:
    zookeeper = ModelZooKeeper()
    found = ZooKeeperBroker(zookeeper, _SETTINGS).register()
    other = ZooKeeperBroker(zookeeper, {**_SETTINGS, "broker.id": 4})
    made = _make(found)
    assert made.error_code == 0
    [token] = _stored(zookeeper).values()
    assert (token.id, token.owner, token.renewers) == (made.token_id, "User:alice", ("User:bob",))
    assert _known(found) == _known(other) == {token.id: token}
    assert other.state.delegation_tokens.by_hmac(made.hmac) == token

    renewed = _ask(found, _user(found, "bob"), RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=5000), 2)
    assert renewed.expiry_timestamp_ms == found.now_ms + 5000
    changed = token._replace(expiry_ms=renewed.expiry_timestamp_ms)
    assert _stored(zookeeper) == _known(found) == _known(other) == {token.id: changed}

    ended = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    assert _ask(found, _user(found), ended, 2).error_code == 0
    assert _stored(zookeeper) == _known(found) == _known(other) == {}
    announced = [
        node.data for path, node in zookeeper.nodes.items() if path.startswith(token_znodes.TOKEN_CHANGES + "/")
    ]
    assert announced == [token.id.encode()] * 3


def test_tokens_that_were_there_or_changed_while_zookeeper_was_away_are_known() -> None:
    zookeeper = ModelZooKeeper()
    for name in ("kept", "gone"):
        token = _TOKEN._replace(id=name)
        zookeeper.put(token_znodes.token_path(name), token_znodes.encode_token(token))
    found = ZooKeeperBroker(zookeeper, _SETTINGS)
    assert _known(found).keys() == {"kept", "gone"}
    found.session.disconnect()
    del zookeeper.nodes[token_znodes.token_path("gone")]
    zookeeper.put(token_znodes.token_path("new"), token_znodes.encode_token(_TOKEN._replace(id="new")))
    found.session.connect()
    zookeeper.deliver()
    assert _known(found).keys() == {"kept", "new"}


def test_a_token_that_kafka_does_not_write_is_told_and_the_others_go_on() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.put(token_znodes.token_path("bad"), b"{}")
    zookeeper.put(token_znodes.token_path("xyz"), _JAVAS)
    found = ZooKeeperBroker(zookeeper, _SETTINGS)
    assert _known(found).keys() == {"xyz"}
    assert any("/delegation_token/tokens/bad" in told for told in found.warnings)


def test_without_the_key_nothing_is_read_or_made() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.put(token_znodes.token_path("xyz"), _JAVAS)
    found = ZooKeeperBroker(zookeeper)
    assert not _known(found)
    assert token_znodes.TOKEN_CHANGES not in zookeeper.nodes


def test_the_controller_takes_away_what_has_expired_and_others_do_not() -> None:
    for is_controller in (False, True):
        found = ZooKeeperBroker(
            settings={**_SETTINGS, "delegation.token.expiry.check.interval.ms": 1000}, has_controller=not is_controller
        )
        if is_controller:
            found.take_office()
        else:
            found.register()
        _make(found, lifetime=500)
        assert len(_stored(found.zookeeper)) == 1
        found.advance(2)
        found.settle()
        assert len(_stored(found.zookeeper)) == (0 if is_controller else 1)
