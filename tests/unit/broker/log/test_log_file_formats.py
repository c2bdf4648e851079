"""The files of the log, byte for byte as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.log.checkpoint_files import (
    CorruptCheckpointError,
    MetaProperties,
    OffsetCheckpointFile,
    decode_uuid,
    encode_uuid,
    read_meta_properties,
    read_partition_metadata,
)
from barnabas.broker.log.leader_epoch_file_cache import EpochEntry, LeaderEpochFileCache
from barnabas.broker.log.log_file_utils import file_name, marked_directory_name, parse_directory_name
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.log.producer_append_info import BatchMetadata, ProducerStateEntry
from barnabas.broker.log.producer_state_manager import CorruptSnapshotError, decode_snapshot, encode_snapshot
from barnabas.broker.log.transaction_index import AbortedTxn, TransactionIndex
from barnabas.protocol.messages.producer_snapshot import ProducerEntry, ProducerSnapshot
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, crc32c
from tests.support.sole_replica import append

NOW = 1_700_000_000_000
TOPIC_ID = bytes(range(16))


def batch(timestamp: int, size: int = 100) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(timestamp, None, bytes(size), [])
    builder.try_append(timestamp + 1, None, bytes(size), [])
    return builder.close()


def test_a_closed_log_leaves_these_files(tmp_path: Path) -> None:
    manager = LogManager(str(tmp_path), config={"index.interval.bytes": "300"})
    manager.start()
    log = manager.create_log(TopicPartition("flights", 3), TOPIC_ID)
    size = len(batch(NOW))
    for at in range(4):
        append(log, batch(NOW + 10 * at), now_ms=NOW)
    manager.close()

    directory = tmp_path / "flights-3"
    zeros = "0" * 20
    content = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert size == 279
    assert sorted(content) == [
        f"{zeros}.index",
        f"{zeros}.log",
        f"{zeros}.timeindex",
        f"{8:020d}.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    # An entry for the third batch, before which more than 300 bytes lie: its last offset 5, its position.
    assert content[f"{zeros}.index"] == (5).to_bytes(4, "big") + (2 * size).to_bytes(4, "big")
    # The largest timestamp so far with that entry, and the largest of all on closing.
    assert content[f"{zeros}.timeindex"] == b"".join(
        (NOW + time).to_bytes(8, "big") + offset.to_bytes(4, "big") for time, offset in ((21, 5), (31, 7))
    )
    assert content["leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
    assert content["partition.metadata"] == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert content[f"{8:020d}.snapshot"] == bytes.fromhex("0001") + crc32c(bytes(4)).to_bytes(4, "big") + bytes(4)
    assert (tmp_path / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\nflights 3 8\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_bytes() == b"0\n0\n"
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":-1}'


def test_a_preallocated_segment_is_trimmed_when_it_is_closed(tmp_path: Path) -> None:
    manager = LogManager(str(tmp_path), config={"preallocate": "true", "segment.bytes": "10000"})
    manager.start()
    log = manager.create_log(TopicPartition("t", 0))
    file = tmp_path / "t-0" / f"{0:020d}.log"
    append(log, batch(NOW), now_ms=NOW)

    assert file.stat().st_size == 10000
    manager.close()
    assert file.stat().st_size == 279


def test_a_producer_snapshot_is_the_message_of_that_name() -> None:
    entries = [
        ProducerStateEntry(7, 2, -1, NOW, -1, [BatchMetadata(40, 100, 9, NOW)]),
        ProducerStateEntry(8, 0, 3, NOW + 1, 55, []),
    ]
    message = ProducerSnapshot(
        producer_entries=[
            ProducerEntry(7, 2, 40, 100, 9, NOW, -1, -1),
            ProducerEntry(8, 0, -1, -1, 0, NOW + 1, 3, 55),
        ]
    )
    encoded = bytes.fromhex("0001") + message.encode(1)
    expected = encoded[:2] + crc32c(encoded[6:]).to_bytes(4, "big") + encoded[6:]

    data = encode_snapshot(entries)

    assert data == expected
    first, second = decode_snapshot(data)
    assert (first.producer_id, first.batches, second.current_txn_first_offset) == (7, entries[0].batches, 55)


@pytest.mark.parametrize("damage", [slice(0, 2), slice(2, 6), slice(6, 10), slice(20, 21)])
def test_a_damaged_snapshot_is_refused(damage: slice) -> None:
    data = bytearray(encode_snapshot([ProducerStateEntry(7, 2, -1, NOW, -1, [BatchMetadata(40, 100, 9, NOW)])]))
    data[damage] = b"\x5a" * len(data[damage])

    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(data))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(b"\0\1")


def test_a_transaction_index_has_34_bytes_an_entry(tmp_path: Path) -> None:
    path = tmp_path / f"{5:020d}.txnindex"
    index = TransactionIndex(OsFileSystem(), str(path), 5, exists=False)
    index.append(AbortedTxn(1, 6, 9, 10))
    index.append(AbortedTxn(2, 7, 12, 13))

    assert path.read_bytes() == b"".join(
        b"\0\0" + b"".join(number.to_bytes(8, "big") for number in entry) for entry in ((1, 6, 9, 10), (2, 7, 12, 13))
    )
    reread = TransactionIndex(OsFileSystem(), str(path), 5, exists=True)
    assert reread.collect_aborted_txns(0, 7) == ([AbortedTxn(1, 6, 9, 10)], True)
    assert reread.collect_aborted_txns(10, 100) == ([AbortedTxn(2, 7, 12, 13)], False)


def test_leader_epochs_are_written_by_a_flush_and_when_they_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    cache = LeaderEpochFileCache(OsFileSystem(), str(path))
    for epoch, offset in ((0, 0), (0, 5), (2, 10), (3, 20), (4, 20)):
        cache.assign(epoch, offset)
    assert not path.exists()
    cache.flush()

    assert path.read_bytes() == b"0\n3\n0 0\n2 10\n4 20\n"
    again = LeaderEpochFileCache(OsFileSystem(), str(path))
    again.load()
    assert again.entries == cache.entries
    ends = {epoch: again.end_offset_for(epoch, 99) for epoch in (-1, 0, 1, 2, 4, 5)}
    assert ends == {-1: (-1, -1), 0: (0, 10), 1: (0, 10), 2: (2, 20), 4: (4, 99), 5: (-1, -1)}
    again.truncate_from_start(12)
    assert again.drop_beyond(20)
    again.flush()
    assert again.entries == (EpochEntry(2, 12),)
    assert [again.epoch_for_offset(offset) for offset in (11, 12, 50)] == [-1, 2, 2]


@pytest.mark.parametrize(
    "content", [b"1\n0\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\n1\nt 0 x\n", b"\xff\xfe", b"0\n1\nt zero 5\n"]
)
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)

    with pytest.raises(CorruptCheckpointError, match="checkpoint"):
        OffsetCheckpointFile(OsFileSystem(), str(path)).read()


def test_a_checkpoint_that_is_missing_or_empty_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = OffsetCheckpointFile(OsFileSystem(), str(path))

    assert checkpoint.read() == {}
    path.write_bytes(b"")
    assert checkpoint.read() == {}
    checkpoint.write({TopicPartition("a-b", 1): 5, TopicPartition("c", 0): 0})
    assert checkpoint.read() == {("a-b", 1): 5, ("c", 0): 0}


def test_meta_properties_of_both_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(MetaProperties("cluster", 1, TOPIC_ID).encode())
    assert path.read_bytes() == b"cluster.id=cluster\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=1\nversion=1\n"
    found = read_meta_properties(OsFileSystem(), str(path))
    assert found is not None
    assert (found.cluster_id, found.node_id, found.directory_id, found.version) == ("cluster", 1, TOPIC_ID, 1)

    path.write_bytes(b"#\n#Tue Nov 21 09:00:00 UTC 2023\nversion=0\nbroker.id=3\n")
    old = read_meta_properties(OsFileSystem(), str(path))
    assert old is not None
    assert (old.cluster_id, old.node_id, old.version) == (None, 3, 0)
    assert read_meta_properties(OsFileSystem(), str(tmp_path / "none")) is None
    path.write_bytes(b"version=1\nnode.id=one\n")
    with pytest.raises(CorruptCheckpointError):
        read_meta_properties(OsFileSystem(), str(path))


def test_partition_metadata_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert read_partition_metadata(OsFileSystem(), str(path)) is None
    for content in (
        b"",
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAE",
        b"version: 0\n",
    ):
        path.write_bytes(content)
        with pytest.raises(CorruptCheckpointError, match=r"partition\.metadata"):
            read_partition_metadata(OsFileSystem(), str(path))


def test_names_are_those_of_apache_kafka() -> None:
    name = TopicPartition("a-topic.with-dots", 12)

    assert file_name(42, ".log") == "00000000000000000042.log"
    assert marked_directory_name(name, "0f" * 16, "-delete") == f"a-topic.with-dots-12.{'0f' * 16}-delete"
    assert len(marked_directory_name(TopicPartition("t" * 249, 1), "0f" * 16, "-delete")) == 255
    assert parse_directory_name("a-topic.with-dots-12") == name
    assert parse_directory_name(f"a-topic.with-dots-12.{'0f' * 16}-delete") == name
    for other in ("remote-log-index-cache", "topic", "-1", "topic-", "lost+found", "-delete", "x-delete"):
        assert parse_directory_name(other) is None
    assert decode_uuid(encode_uuid(bytes([255] * 16))) == bytes([255] * 16)
