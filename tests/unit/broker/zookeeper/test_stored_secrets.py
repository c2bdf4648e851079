"""Secrets among a broker's settings in ZooKeeper: encrypted there, in force here."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.password_encoder import EncoderSettings, PasswordEncoder, UndecodableSecretError
from barnabas.broker.zookeeper.stored_secrets import StoredSecrets
from barnabas.errors import ConfigError
from barnabas.protocol.messages.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.support.zookeeper_member import ME, SETTINGS, ZooKeeperBroker

_SECRET = "listener.name.plaintext.ssl.key.password"
_NEW = {"password.encoder.secret": "new"}
_BOTH = {**_NEW, "password.encoder.old.secret": "old"}
_MINE = f"/config/brokers/{ME}"


def _encoder(secret: str) -> PasswordEncoder:
    return PasswordEncoder(secret, EncoderSettings(), random.Random(5).randbytes)


def _stored(zookeeper: ModelZooKeeper) -> dict[str, str]:
    found: dict[str, str] = json.loads(zookeeper.nodes[_MINE].data or b"")["config"]
    return found


def _put(zookeeper: ModelZooKeeper, **values: str) -> ModelZooKeeper:
    zookeeper.put(_MINE, znodes.encode_config({name.replace("_", "."): value for name, value in values.items()}))
    return zookeeper


def _with_secret(secret: str, text: str = "key", **others: str) -> ModelZooKeeper:
    return _put(ModelZooKeeper(), **{_SECRET: _encoder(secret).encode(text)}, **others)


def _alter(found: ZooKeeperBroker, name: str, values: dict[str, str]) -> Any:
    configs = [AlterableConfig(name=key, value=value) for key, value in values.items()]
    resource = AlterConfigsResource(resource_type=4, resource_name=name, configs=configs)
    client = found.connect()
    client.request(AlterConfigsRequest(resources=[resource]), 2)
    for _ in range(3):
        found.zookeeper.deliver()
        found.advance(0)
        found.node.core.settle(found.instant)
    return client.responses[-1].responses[0]  # type: ignore[attr-defined]


def _in_force(found: ZooKeeperBroker) -> dict[str, str]:
    return dict(found.node.config.dynamic)


def test_a_secret_is_written_encrypted_and_is_in_force_as_it_is() -> None:
    zookeeper = ModelZooKeeper()
    found, other = ZooKeeperBroker(zookeeper, _NEW).register(), ZooKeeperBroker(zookeeper, {**_NEW, "broker.id": 4})
    assert _alter(found, str(ME), {_SECRET: "key", "log.retention.ms": "5"}).error_code == 0
    stored = _stored(zookeeper)
    assert stored["log.retention.ms"] == "5"
    assert _encoder("new").decode(stored[_SECRET]) == "key"
    assert _in_force(found) == {_SECRET: "key", "log.retention.ms": "5"}
    # It is of no use to others, who cannot be asked for it either.
    assert other.control.image.configs[4, str(ME)] == {"log.retention.ms": "5"}


def test_a_secret_that_was_there_before_the_start_is_in_force() -> None:
    found = ZooKeeperBroker(_with_secret("new"), _NEW)
    assert _in_force(found) == {_SECRET: "key"}
    assert not found.warnings


def test_what_the_old_secret_opens_is_encrypted_with_the_new_one_at_the_start() -> None:
    zookeeper = _with_secret("old", log_retention_ms="5")
    found = ZooKeeperBroker(zookeeper, _BOTH)
    zookeeper.deliver()
    stored = _stored(zookeeper)
    assert _encoder("new").decode(stored[_SECRET]) == "key"
    assert stored["log.retention.ms"] == "5"
    assert _in_force(found) == {_SECRET: "key", "log.retention.ms": "5"}
    # The next start finds nothing to do, and needs the old one no more.
    written = zookeeper.nodes[_MINE].version
    for settings in (_BOTH, _NEW):
        assert _in_force(ZooKeeperBroker(zookeeper, settings)) == _in_force(found)
        zookeeper.deliver()
    assert zookeeper.nodes[_MINE].version == written


@pytest.mark.parametrize(("settings", "why"), [(_NEW, "another secret"), ({}, "has no password.encoder.secret")])
def test_a_secret_that_cannot_be_read_is_told_once_and_stays_as_it_is(settings: dict[str, str], why: str) -> None:
    zookeeper = _with_secret("old", log_retention_ms="5")
    before = _stored(zookeeper)[_SECRET]
    found = ZooKeeperBroker(zookeeper, settings).register()
    assert _in_force(found) == {"log.retention.ms": "5"}
    [told] = found.warnings
    assert _SECRET in told
    assert why in told
    assert _alter(found, str(ME), {"log.retention.ms": "6"}).error_code == 0
    assert _stored(zookeeper) == {_SECRET: before, "log.retention.ms": "6"}
    assert found.warnings == [told]


@pytest.mark.parametrize("mode", ["CBC", "CFB", "OFB", "GCM"])
def test_whatever_is_damaged_in_a_secret_it_is_one_that_cannot_be_read(mode: str) -> None:
    padding = "NoPadding" if mode == "GCM" else "PKCS5Padding"
    settings = EncoderSettings(cipher=f"AES/{mode}/{padding}", iterations=2)
    encoder = PasswordEncoder("new", settings, random.Random(5).randbytes)
    fields = dict(part.split(":", 1) for part in encoder.encode("key").split(","))
    for name in fields.keys() - {"authenticationTagLength"}:
        for value in ("", "0", "-1", "x", "=", "AAAA", "é", "2147483647", "99999999999999", "AES//", "PBKDF2WithHmac"):
            damaged = ",".join(f"{one}:{value if one == name else text}" for one, text in fields.items())
            with pytest.raises(UndecodableSecretError):
                encoder.decode(damaged)


def test_a_secret_that_cannot_be_read_may_be_set_anew() -> None:
    zookeeper = _with_secret("old")
    found = ZooKeeperBroker(zookeeper, _NEW).register()
    assert _alter(found, str(ME), {_SECRET: "another"}).error_code == 0
    assert _in_force(found) == {_SECRET: "another"}
    assert _encoder("new").decode(_stored(zookeeper)[_SECRET]) == "another"
    assert _alter(found, str(ME), {}).error_code == 0
    assert _stored(zookeeper) == {}


def test_secrets_are_refused_without_one_to_encrypt_them_and_for_all_brokers() -> None:
    found = ZooKeeperBroker().register()
    refused = _alter(found, str(ME), {_SECRET: "key"})
    assert refused.error_code == errors.InvalidRequestError.code
    assert "this broker has no password.encoder.secret" in refused.error_message
    assert _MINE not in found.zookeeper.nodes
    with pytest.raises(errors.InvalidRequestError, match="settings of one broker each"):
        StoredSecrets(BrokerConfig({**SETTINGS, **_NEW}), random.randbytes, print).stored(
            "brokers/<default>", {_SECRET: "key"}
        )


def test_how_secrets_are_encrypted_is_set() -> None:
    given = {"keyfactory.algorithm": "PBKDF2WithHmacSHA1", "cipher.algorithm": "AES/GCM/NoPadding"}
    numbers = {"key.length": "256", "iterations": "1025"}
    settings = {f"password.encoder.{name}": value for name, value in (given | numbers).items()}
    secrets = StoredSecrets(BrokerConfig({**SETTINGS, **_NEW, **settings}), random.Random(1).randbytes, print)
    fields = dict(part.split(":", 1) for part in secrets.stored(f"brokers/{ME}", {_SECRET: "key"})[_SECRET].split(","))
    chosen = [fields[name] for name in ("keyFactoryAlgorithm", "cipherAlgorithm", "keyLength", "iterations")]
    assert chosen == [*given.values(), *numbers.values()]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("cipher.algorithm", "Camellia/CBC/PKCS5Padding", "it is one of AES/CBC/PKCS5Padding, "),
        ("keyfactory.algorithm", "PBKDF1", "it is one of PBKDF2WithHmacSHA1, "),
        ("key.length", 64, "it is 128, 192 or 256"),
        ("iterations", 1, "1024"),
    ],
)
def test_what_secrets_cannot_be_encrypted_with_ends_the_start(name: str, value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ZooKeeperBroker(settings={**_NEW, f"password.encoder.{name}": value})
