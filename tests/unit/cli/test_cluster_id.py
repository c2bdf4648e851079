"""`barnabas up --environment` takes CLUSTER_ID as Kafka's container does: where storage belongs to no cluster yet."""

from __future__ import annotations

import random

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.node import BrokerNode, Disk
from barnabas.cli.broker_settings import cluster_id_of_environment
from barnabas.errors import ConfigError

ID, OTHER = "4L6g3nShT-eMCtK--X86sw", "5L6g3nShT-eMCtK--X86sw"


def started(filesystem: MemoryFileSystem, store: MemoryStore, cluster_id: str | None) -> tuple[str, list[str]]:
    said: list[str] = []
    node = BrokerNode(BrokerConfig({}), Disk(["/data"], filesystem), store, random.Random(1), said.append)
    node.wanted_cluster_id = cluster_id
    node.start(Instant(1.0, 1))
    found = node.state.cluster_id
    node.logs.close()
    node.metadata.close()
    return found, said


def test_new_storage_takes_the_id_and_keeps_it() -> None:
    filesystem, store = MemoryFileSystem(random.Random(1)), MemoryStore()

    assert started(filesystem, store, ID) == (ID, [])
    assert started(filesystem, store, None) == (ID, [])
    # The metadata may be lost: the data directory knows the cluster, too.
    assert started(filesystem, MemoryStore(), ID) == (ID, [])


def test_storage_of_another_cluster_keeps_its_id_and_says_so() -> None:
    filesystem, store = MemoryFileSystem(random.Random(1)), MemoryStore()
    started(filesystem, store, ID)

    found, said = started(filesystem, store, OTHER)

    assert found == ID
    assert said == [f"the cluster id {OTHER} is not taken: the data directory belongs to cluster {ID}"]


def test_what_cannot_be_an_id_is_refused_by_name() -> None:
    assert cluster_id_of_environment({}) is None
    assert cluster_id_of_environment({"CLUSTER_ID": " "}) is None
    for wrong in ("two words", "line\nbreak", "x" * 250):
        with pytest.raises(ConfigError, match="CLUSTER_ID="):
            cluster_id_of_environment({"CLUSTER_ID": wrong})
