"""What the files of a partition hold, entry by entry, and what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from barnabas.broker.log.checkpoint_files import encode_uuid, read_partition_metadata
from barnabas.broker.log.file_records import CorruptSegmentError, FileRecords
from barnabas.broker.log.leader_epoch_file_cache import LeaderEpochFileCache
from barnabas.broker.log.log_file_utils import offset_from_file_name
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.log.producer_state_manager import decode_snapshot
from barnabas.broker.log.transaction_index import TransactionIndex
from barnabas.errors import CorruptRecordError
from barnabas.records.record_batch import RecordBatch

BATCH, RECORD, ENTRY, PROBLEM = "batch", "record", "entry", "problem"

_INDEX_ENTRY = Struct(">II")
_TIME_INDEX_ENTRY = Struct(">qI")
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


class Item(NamedTuple):
    """Something in a file: a BATCH, RECORD or ENTRY with its fields, or a PROBLEM with its `reason`.

    `content` is the `RecordBatch` of a BATCH and the `Record` of a RECORD.
    """

    kind: str
    fields: dict[str, Any]
    content: Any = None


def read_file(filesystem: OsFileSystem, path: str, *, records: bool) -> Iterator[Item]:
    """Return the items of a file of any kind. Raises OSError, and KafkaError for a file that is damaged as a whole."""
    name = os.path.basename(path)
    if name == "leader-epoch-checkpoint":
        return _epochs(filesystem, path)
    if name == "partition.metadata":
        return _metadata(filesystem, path)
    suffix = os.path.splitext(name)[1]
    if suffix == ".log":
        return segment(filesystem, path, records=records)
    return READERS[suffix](filesystem, path)


def segment(filesystem: OsFileSystem, path: str, *, records: bool) -> Iterator[Item]:
    """Return the batches of a segment, with their records if wanted.

    Behind a damaged place it goes on with the next batch.
    """
    file = FileRecords(filesystem, path, os.path.getsize(path))
    position: int | None = 0
    try:
        while position is not None and position < file.size:
            try:
                for header, chunk in file.batches(position, check=True):
                    yield from _batch(RecordBatch(chunk, header), position, records=records)
                    position += header.size_in_bytes
                return
            except CorruptSegmentError as damage:
                position = file.next_sound_batch(damage.position)
                rest = "nothing sound follows" if position is None else f"going on at byte {position}"
                yield Item(PROBLEM, {"position": damage.position, "reason": f"{damage}; {rest}"})
    finally:
        file.close()


def _batch(batch: RecordBatch, position: int, *, records: bool) -> Iterator[Item]:
    fields = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "position": position,
        "timestampType": _TIMESTAMP_TYPES[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp,
        "size": batch.size_in_bytes,
        "magic": batch.magic,
        "compression": batch.compression,
        "crc": batch.crc,
    }
    yield Item(BATCH, fields, batch)
    if not records:
        return
    try:
        for number, record in enumerate(batch):
            fields = {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
                "sequence": -1 if batch.base_sequence < 0 else (batch.base_sequence + number) & 0x7FFFFFFF,
            }
            yield Item(RECORD, fields, record)
    except CorruptRecordError as damage:
        yield Item(PROBLEM, {"position": position, "reason": str(damage)})


def index_entries(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    """Return the entries of an offset index."""
    base = offset_from_file_name(os.path.basename(path))
    for relative, position in _unpack(_INDEX_ENTRY, filesystem.read(path)):
        yield Item(ENTRY, {"offset": base + relative, "position": position})


def time_index_entries(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    """Return the entries of a time index."""
    base = offset_from_file_name(os.path.basename(path))
    for timestamp, relative in _unpack(_TIME_INDEX_ENTRY, filesystem.read(path)):
        yield Item(ENTRY, {"timestamp": timestamp, "offset": base + relative})


def _unpack(entry: Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    # A running Apache Kafka has its index files preallocated: zeros behind the last entry are no entries.
    used = -(-len(data.rstrip(b"\0")) // entry.size)
    yield from entry.iter_unpack(data[: min(used, len(data) // entry.size) * entry.size])


def _transactions(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    base = offset_from_file_name(os.path.basename(path))
    for aborted in TransactionIndex(filesystem, path, base, exists=True).transactions:
        fields = {
            "producerId": aborted.producer_id,
            "firstOffset": aborted.first_offset,
            "lastOffset": aborted.last_offset,
            "lastStableOffset": aborted.last_stable_offset,
        }
        yield Item(ENTRY, fields)


def _producers(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    for entry in decode_snapshot(filesystem.read(path)):
        fields = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.current_txn_first_offset,
            "lastTimestamp": entry.last_timestamp,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_data_offset,
            "offsetDelta": entry.last_offset_delta,
        }
        yield Item(ENTRY, fields)


def _epochs(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    cache = LeaderEpochFileCache(filesystem, path)
    cache.load()
    for entry in cache.entries:
        yield Item(ENTRY, {"epoch": entry.epoch, "startOffset": entry.start_offset})


def _metadata(filesystem: OsFileSystem, path: str) -> Iterator[Item]:
    topic_id = read_partition_metadata(filesystem, path)
    if topic_id is not None:
        yield Item(ENTRY, {"topicId": encode_uuid(topic_id)})


#: What reads a file, by its suffix.
READERS: dict[str, Callable[[OsFileSystem, str], Iterator[Item]]] = {
    ".log": lambda filesystem, path: segment(filesystem, path, records=False),
    ".index": index_entries,
    ".timeindex": time_index_entries,
    ".txnindex": _transactions,
    ".snapshot": _producers,
}
