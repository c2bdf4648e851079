"""Who can log in to a new cluster under ZooKeeper: users that are there before its brokers."""

from __future__ import annotations

import asyncio
import json

import pytest

from barnabas.broker.zookeeper.first_users import admit_users, write_users
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.network.security.scram import StoredCredential
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.unit.broker.zookeeper.one_program import carried_out

_MECHANISM = "SCRAM-SHA-512"


def _credential(text: str) -> StoredCredential:
    return StoredCredential(salt=text.encode(), stored_key=b"stored", server_key=b"server", iterations=4096)


def _write(zookeeper: ModelZooKeeper, name: str, text: str, *, replace: bool = False) -> list[KafkaError | None]:
    return carried_out(zookeeper, write_users({(name, _MECHANISM): _credential(text)}, replace=replace))


def _salt_of(zookeeper: ModelZooKeeper, name: str) -> str:
    values: dict[str, str] = json.loads(zookeeper.nodes[f"/config/users/{name}"].data or b"")["config"]
    return dict(part.split("=", 1) for part in values[_MECHANISM].split(","))["salt"]


def test_a_user_is_written_once_and_keeps_its_password() -> None:
    zookeeper = ModelZooKeeper()
    assert _write(zookeeper, "admin", "first") == [None]
    first = _salt_of(zookeeper, "admin")
    assert _write(zookeeper, "admin", "second") == [None]
    assert _salt_of(zookeeper, "admin") == first


def test_a_new_password_takes_the_place_of_one_that_is_lost() -> None:
    zookeeper = ModelZooKeeper()
    _write(zookeeper, "admin", "first")
    first = _salt_of(zookeeper, "admin")
    _write(zookeeper, "admin", "second", replace=True)
    assert _salt_of(zookeeper, "admin") != first


def test_what_a_user_has_besides_stays_and_brokers_hear_of_the_change() -> None:
    zookeeper = ModelZooKeeper()
    zookeeper.put("/config/users/admin", b'{"version":1,"config":{"producer_byte_rate":"1000"}}')
    _write(zookeeper, "admin", "first")
    config = json.loads(zookeeper.nodes["/config/users/admin"].data or b"")["config"]
    assert sorted(config) == [_MECHANISM, "producer_byte_rate"]
    announced = [node.data for path, node in zookeeper.nodes.items() if path.startswith("/config/changes/")]
    assert [json.loads(data or b"")["entity_path"] for data in announced] == ["users/admin"]


def test_a_zookeeper_that_does_not_answer_is_told_with_what_was_to_be_done() -> None:
    session = ModelZooKeeper().session()
    with pytest.raises(KafkaTimeoutError, match="the first users were not written"):
        asyncio.run(admit_users(session, 0.05, {}, replace=False))
