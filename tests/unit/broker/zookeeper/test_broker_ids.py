"""The id of a broker under ZooKeeper whose settings name none."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.log.checkpoint_files import META_PROPERTIES
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.zookeeper.broker_ids import UNKNOWN, known_broker_id, next_broker_id, take_broker_id
from barnabas.broker.zookeeper.operations import RefusedError
from barnabas.errors import ConfigError, KafkaError, KafkaTimeoutError
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from tests.unit.broker.zookeeper.one_program import carried_out

_ZOOKEEPER = {"zookeeper.connect": "zk:2181/flights", "inter.broker.protocol.version": "3.9"}


def _taken(zookeeper: ModelZooKeeper) -> list[Any]:
    return carried_out(zookeeper, next_broker_id(1000))


def test_ids_are_counted_in_zookeeper_above_those_that_are_reserved() -> None:
    zookeeper = ModelZooKeeper()
    assert [_taken(zookeeper) for _ in range(3)] == [[1001], [1002], [1003]]
    assert zookeeper.nodes["/brokers/seqid"].version == 3


def _files(**texts: str) -> MemoryFileSystem:
    filesystem = MemoryFileSystem(random.Random(1))
    for path, text in texts.items():
        filesystem.make_directory(f"/{path}")
        filesystem.replace(f"/{path}/{META_PROPERTIES}", text.encode(), sync=True)
    return filesystem


@pytest.mark.parametrize(
    "text", ["version=0\nbroker.id=1002\ncluster.id=x\n", "version=1\nnode.id=1002\ncluster.id=x\n"]
)
def test_the_data_directory_of_either_software_says_whose_it_is(text: str) -> None:
    assert known_broker_id(_files(a=text), ["/a", "/empty"]) == 1002


def test_a_directory_without_an_id_needs_one() -> None:
    assert known_broker_id(_files(a="version=0\ncluster.id=x\n"), ["/a"]) is None
    assert known_broker_id(_files(), ["/a"]) is None


def test_directories_of_two_brokers_are_refused() -> None:
    files = _files(a="version=0\nbroker.id=1\n", b="version=0\nbroker.id=2\n")
    with pytest.raises(ConfigError, match="/a to broker 1, /b to broker 2"):
        known_broker_id(files, ["/a", "/b"])


@pytest.mark.parametrize("given", [{}, {"broker.id": "-1"}])
def test_a_broker_under_zookeeper_without_an_id_is_given_one(given: dict[str, str]) -> None:
    config = BrokerConfig({**_ZOOKEEPER, **given})
    assert config.node_id == UNKNOWN
    config.take_broker_id(1001)
    assert (config.node_id, config["broker.id"], config["node.id"]) == (1001, 1001, 1001)


def test_a_broker_without_a_cluster_needs_no_id() -> None:
    assert BrokerConfig({"broker.id": "-1"}).node_id == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"broker.id": "1001"}, "is above reserved.broker.max.id=1000, where ids are generated"),
        ({"broker.id": "8", "reserved.broker.max.id": "7"}, "is above reserved.broker.max.id=7"),
        ({"broker.id": "-2"}, "0 or higher, or -1"),
        ({"broker.id.generation.enable": "false"}, "broker.id is missing, and broker.id.generation.enable=false"),
    ],
)
def test_ids_that_could_be_generated_for_others_and_missing_ones_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        BrokerConfig({**_ZOOKEEPER, **given})


def test_without_generation_every_id_may_be_chosen() -> None:
    assert BrokerConfig({**_ZOOKEEPER, "broker.id": 2000, "broker.id.generation.enable": "false"}).node_id == 2000


class _Session:
    """Answers each operation with an error, or never."""

    def __init__(self, error: KafkaError | None) -> None:
        self.problem, self.is_closed, self._error = "", False, error

    def start(self, listener: Any) -> None:
        if self._error is not None:
            listener.connected(1)

    def submit(self, operation: Any, done: Any) -> None:
        done(self._error)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("answers", range(4))
def test_a_connection_that_is_lost_on_the_way_to_an_id_is_waited_for(answers: int) -> None:
    zookeeper = ModelZooKeeper()

    async def play() -> int:
        session = zookeeper.session()
        taking = asyncio.ensure_future(take_broker_id(session, 5.0, 1000))
        await asyncio.sleep(0)
        for _ in range(answers):
            session.deliver_one()
        session.disconnect()
        await asyncio.sleep(0)
        session.connect()
        zookeeper.deliver()
        return await taking

    # One that was given and not heard of is never used.
    assert asyncio.run(play()) in (1001, 1002)


def test_a_zookeeper_that_gives_no_id_ends_the_start() -> None:
    for error, kind in ((None, KafkaTimeoutError), (RefusedError("/", "no"), RefusedError)):
        session = _Session(error)
        with pytest.raises(kind):
            asyncio.run(take_broker_id(session, 0.01, 1000))  # type: ignore[arg-type]
        assert session.is_closed
