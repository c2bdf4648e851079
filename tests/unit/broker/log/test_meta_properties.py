"""Whose data a directory holds, in which format, and who may use it (meta.properties)."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log.checkpoint_files import encode_uuid
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.errors import KafkaStorageError
from tests.support.core_broker import CoreBroker

PATH = "/data/meta.properties"
DIRECTORY_ID = encode_uuid(bytes(range(16)))


@pytest.fixture
def disk() -> MemoryFileSystem:
    disk = MemoryFileSystem(Random(0))
    disk.make_directory("/data")
    return disk


def start(disk: MemoryFileSystem, cluster_id: str = "ours", node_id: int = 1) -> LogManager:
    manager = LogManager("/data", disk, random_bytes=disk.random.randbytes)
    manager.start(identify=lambda found: (cluster_id, node_id))
    return manager


def fields(disk: MemoryFileSystem) -> dict[str, str]:
    return dict(line.split("=") for line in disk.read(PATH).decode().splitlines())


def test_the_first_broker_writes_whose_the_directory_is(disk: MemoryFileSystem) -> None:
    start(disk).close()
    found = fields(disk)
    assert len(found.pop("directory.id")) == 22
    assert found == {"version": "1", "cluster.id": "ours", "node.id": "1", "barnabas.data.format": "1"}
    before = disk.read(PATH)
    start(disk).close()
    assert disk.read(PATH) == before


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("cluster.id=theirs", r"belongs to the cluster theirs, and this broker to ours"),
        ("node.id=7", r"belongs to node 7, and this is node 1: set node.id=7"),
        ("version=2", r"was written by a newer version .*upgrade barnabas"),
        ("barnabas.data.format=2", r"was written by a newer version .*upgrade barnabas"),
        ("directory.id=short", r"meta.properties is malformed: .* cannot be told"),
        ("node.id=one", r"meta.properties is malformed: .* cannot be told"),
    ],
)
def test_foreign_data_is_refused_and_left_as_it_is(disk: MemoryFileSystem, line: str, complaint: str) -> None:
    name, _, value = line.partition("=")
    content = {"version": "1", "cluster.id": "ours", "node.id": "1", "directory.id": DIRECTORY_ID, name: value}
    text = "".join(f"{key}={item}\n" for key, item in content.items()).encode()
    disk.replace(PATH, text, sync=True)
    with pytest.raises(KafkaStorageError, match=complaint):
        start(disk)
    assert disk.read(PATH) == text
    assert not disk.locks


def test_a_file_of_apache_kafka_is_taken_over(disk: MemoryFileSystem) -> None:
    text = f"#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=ours\ndirectory.id={DIRECTORY_ID}\nnode.id=1\nversion=1\n"
    disk.replace(PATH, text.encode(), sync=True)
    start(disk).close()
    assert fields(disk)["directory.id"] == DIRECTORY_ID
    assert fields(disk)["barnabas.data.format"] == "1"


def test_a_broker_without_metadata_takes_the_cluster_id_of_its_data(disk: MemoryFileSystem) -> None:
    disk.replace(PATH, b"version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\n", sync=True)
    broker = CoreBroker({"node.id": 1}, filesystem=disk)
    assert broker.state.cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    broker.stop()
    other = {"node.id": 2}
    with pytest.raises(KafkaStorageError, match="belongs to node 1"):
        CoreBroker(other, filesystem=disk, store=broker.store)
