"""The start of a broker whose metadata lie in ZooKeeper, as far as no server is needed for it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.membership.membership import Membership
from barnabas.broker.zookeeper.zookeeper_security import ZooKeeperSecurity
from barnabas.config.properties_file import read_properties
from barnabas.errors import ConfigError, KafkaTimeoutError
from tests.support.stock_configurations import STOCK_3_9_ZOOKEEPER
from tests.support.zookeeper_member import ZooKeeperBroker

ZOOKEEPER = {"zookeeper.connect": "zk1:2181,zk2:2181/flights", "broker.id": 3}


class SilentSession:
    """A session that no server answers."""

    problem = ""

    def __init__(self, servers: str, chroot: str, session_timeout: float, security: ZooKeeperSecurity) -> None:
        self.given = servers, chroot, session_timeout
        self.is_closed = False

    def start(self, listener: Any) -> None:
        """Nothing comes of it."""

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[SilentSession]:
    from barnabas.broker.zookeeper import kazoo_session

    made: list[SilentSession] = []

    def make(*given: Any) -> SilentSession:
        made.append(SilentSession(*given))
        return made[-1]

    monkeypatch.setattr(kazoo_session, "KazooSession", make)
    return made


async def start(tmp_path: Path, settings: dict[str, Any]) -> None:
    membership = Membership(BrokerConfig({**ZOOKEEPER, **settings}), str(tmp_path), None, print)
    try:
        await membership.read_metadata(asyncio.Event())
    finally:
        membership.close()


@pytest.mark.parametrize("setting", ["zookeeper.connection.timeout.ms", "zookeeper.session.timeout.ms"])
def test_a_start_without_an_answer_ends_after_the_time_that_is_set(
    tmp_path: Path, sessions: list[SilentSession], setting: str
) -> None:
    with pytest.raises(KafkaTimeoutError, match=r"zk1:2181,zk2:2181/flights did not answer in 0\.02 s"):
        asyncio.run(start(tmp_path, {setting: 20}))
    assert sessions[0].is_closed


def test_the_session_has_the_timeout_that_is_set(tmp_path: Path, sessions: list[SilentSession]) -> None:
    settings = {"zookeeper.session.timeout.ms": 7000, "zookeeper.connection.timeout.ms": 1}
    with pytest.raises(KafkaTimeoutError):
        asyncio.run(start(tmp_path, settings))
    assert sessions[0].given == ("zk1:2181,zk2:2181", "/flights", 7.0)


def test_without_kazoo_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(ConfigError, match=r"pip install 'barnabas\[zookeeper\]'"):
        asyncio.run(start(tmp_path, {}))


def test_the_file_that_39_brings_with_what_an_operator_changes_in_it_makes_a_member(tmp_path: Path) -> None:
    changes = {
        "broker.id=0": "broker.id=3",
        "zookeeper.connect=localhost:2181": "zookeeper.connect=zk1:2181,zk2:2181/flights",
        "log.dirs=/tmp/kafka-logs": "log.dirs=/disk1/kafka,/disk2/kafka",
    }
    text = STOCK_3_9_ZOOKEEPER
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    text += "inter.broker.protocol.version=3.9\nauthorizer.class.name=kafka.security.authorizer.AclAuthorizer\n"
    path = tmp_path / "server.properties"
    path.write_text(f"{text}super.users=User:admin\n", encoding="utf-8")
    config = BrokerConfig(read_properties(str(path)))
    assert (config.node_id, config.zookeeper) == (3, ("zk1:2181,zk2:2181", "/flights"))
    assert config.data_directories == ["/disk1/kafka", "/disk2/kafka"]
    assert config.is_member
    found = ZooKeeperBroker(settings=read_properties(str(path)) | {"log.dirs": "/data"})
    assert found.node.state.authorization is not None
