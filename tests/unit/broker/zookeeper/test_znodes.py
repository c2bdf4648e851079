"""Kafka's znodes: the tree of a cluster of Apache Kafka 3.9 is read and written as it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.metadata.metadata_image import Endpoint
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.metadata_znodes import ANNOUNCEMENTS
from barnabas.broker.zookeeper.znodes import MalformedZnodeError

TREE: dict[str, str | None] = {
    found["path"].removeprefix("/alpha"): found["data"]
    for found in map(json.loads, Path(__file__).with_name("znodes-3.9.jsonl").read_text().splitlines())
    if found["path"].startswith("/alpha/")
}


def data(path: str) -> bytes:
    found = TREE[path]
    assert found is not None
    return found.encode()


def below(prefix: str, depth: int) -> list[str]:
    return [path for path in TREE if path.startswith(prefix) and path.count("/") == depth and TREE[path]]


def same(path: str, written: bytes) -> bool:
    found: Any = json.loads(data(path))
    return bool(json.loads(written) == found) and len(written) == len(data(path))


@pytest.mark.parametrize("path", below("/brokers/topics/", 3))
def test_topics_are_written_as_they_were_read(path: str) -> None:
    assert same(path, znodes.encode_topic(znodes.decode_topic(path, data(path))))


@pytest.mark.parametrize("path", [path for path in TREE if path.endswith("/state")])
def test_states_are_written_as_they_were_read(path: str) -> None:
    written = znodes.encode_state(znodes.decode_state(path, data(path)))
    assert written == data(path)


@pytest.mark.parametrize("path", below("/brokers/ids/", 3))
def test_registrations_are_written_as_they_were_read(path: str) -> None:
    listeners, rack = znodes.decode_broker(path, data(path))
    written = znodes.encode_broker(listeners, rack, int(json.loads(data(path))["timestamp"]))
    assert written == data(path)


def test_settings_and_their_announcements_are_written_as_they_were_read() -> None:
    changes = below("/config/changes/", 3)
    settings = [path for path in TREE if path.startswith("/config/") and TREE[path] and path not in changes]
    assert len(changes) > 3
    assert len(settings) > 5
    for path in settings:
        assert same(path, znodes.encode_config(znodes.decode_config(path, data(path))))
    for path in changes:
        assert znodes.encode_config_change(znodes.decode_config_change(path, data(path))) == data(path)
        assert path.startswith(f"{ANNOUNCEMENTS.folder}/{ANNOUNCEMENTS.prefix}")
    assert znodes.encode_cluster_id(znodes.decode_cluster_id(data("/cluster/id"))) == data("/cluster/id")


def test_all_that_kafka_makes_at_its_start_is_made() -> None:
    made = {path for path in TREE if path in znodes.PERSISTENT}
    assert made == set(znodes.PERSISTENT)
    for path in znodes.PERSISTENT:
        parent = path.rpartition("/")[0]
        assert not parent or znodes.PERSISTENT.index(parent) < znodes.PERSISTENT.index(path)


def test_names_of_users_and_clients_are_encoded() -> None:
    for name in ("alice", "CN=a b,O=x/y", "ä+~*", None, "<default>"):
        assert znodes.desanitized(znodes.sanitized(name)) == name
        assert "/" not in znodes.sanitized(name)
    assert znodes.sanitized("a b~*") == "a%20b%7E%2A"


def test_an_address_of_version_six_stands_in_brackets() -> None:
    written = znodes.encode_broker({"PLAINTEXT": Endpoint("::1", 9092)}, None, 1)
    assert json.loads(written)["endpoints"] == ["PLAINTEXT://[::1]:9092"]
    assert "rack" not in json.loads(written)
    assert znodes.decode_broker("/brokers/ids/1", written) == ({"PLAINTEXT": Endpoint("::1", 9092)}, None)


@pytest.mark.parametrize("content", [None, b"", b"x", b"[]", b"1", b'{"version":1}', b'{"endpoints":1,"leader":"x"}'])
def test_what_kafka_does_not_write_is_an_error_that_names_the_znode(content: bytes | None) -> None:
    for decode in (znodes.decode_broker, znodes.decode_topic, znodes.decode_state, znodes.decode_config_change):
        with pytest.raises(MalformedZnodeError, match="/some/where"):
            decode("/some/where", content)
    with pytest.raises(MalformedZnodeError, match="/cluster/id"):
        znodes.decode_cluster_id(content)
