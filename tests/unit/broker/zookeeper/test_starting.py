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
from barnabas.errors import ConfigError, KafkaTimeoutError

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
