"""The producers of one log: idempotence, open transactions, and the snapshots of both (ProducerStateManager).

A snapshot, `<offset>.snapshot`, holds what the log up to that offset says of every producer: version (16 bits, 1),
CRC-32C of what follows (32 bits), number of entries, entries (Kafka's message ProducerSnapshot).
"""

from __future__ import annotations

from math import inf
from struct import Struct
from struct import error as StructError  # noqa: N812 - struct's only exception, named as one
from typing import TYPE_CHECKING

from barnabas.broker.log.append_origin import REPLICATION
from barnabas.broker.log.filesystem import FileSystem
from barnabas.broker.log.log_file_utils import (
    DELETED_FILE_SUFFIX,
    PRODUCER_SNAPSHOT_FILE_SUFFIX,
    file_name,
)
from barnabas.broker.log.producer_append_info import (
    NO_OFFSET,
    BatchMetadata,
    CompletedTxn,
    ProducerAppendInfo,
    ProducerStateEntry,
)
from barnabas.broker.log.transaction_index import AbortedTxn
from barnabas.errors import KafkaError
from barnabas.records.checksum import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.broker.log.filesystem import Buffer
    from barnabas.records.batch_header import BatchHeader

SNAPSHOT_VERSION = 1
PRODUCER_ID_EXPIRATION_MS = 86_400_000
#: A log remembers at most so many producers. Beyond that the half that wrote longest ago is forgotten early, but for
#: those with open transactions: their next batches are taken, only a repetition is no longer recognised.
MAX_PRODUCERS = 100_000
#: All logs together remember at most so many, about 100 MB; `BackgroundWork` sees to it every few seconds.
MAX_PRODUCERS_OF_ALL_LOGS = 200_000
_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshotError(KafkaError):
    """A producer snapshot cannot be read; the state must be rebuilt from the log."""


def encode_snapshot(entries: list[ProducerStateEntry]) -> bytes:
    """Return the content of a snapshot file."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    return _HEADER.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Return the producers in a snapshot file; `CorruptSnapshotError`."""
    try:
        version, crc = _HEADER.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEADER.size)
    except StructError as error:
        raise CorruptSnapshotError(f"only {len(data)} bytes") from error
    body = memoryview(data)[_HEADER.size :]
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshotError(f"version {version}; only {SNAPSHOT_VERSION} is known")
    if crc != crc32c(body) or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshotError("its checksum or length is wrong")
    entries = []
    for fields in _ENTRY.iter_unpack(body[_COUNT.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
        batches = [BatchMetadata(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else []
        entry = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, txn_first_offset, batches)
        entry.lacks_batches = True
        entries.append(entry)
    return entries


class ProducerStateManager:
    """What one log knows about its producers, up to `map_end_offset`."""

    __slots__ = (
        "_directory",
        "_filesystem",
        "_last_snapshot_offset",
        "_partition",
        "expiration_ms",
        "is_rebuilding",
        "map_end_offset",
        "ongoing_txns",
        "producers",
        "snapshots",
        "unreplicated_txns",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        partition: str,
        snapshots: list[int],
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._partition = partition
        self._last_snapshot_offset = 0
        self.expiration_ms = expiration_ms
        self.map_end_offset = 0
        #: Whether what the log says is being read: nothing behind `map_end_offset` is known.
        self.is_rebuilding = False
        self.producers: dict[int, ProducerStateEntry] = {}
        self.ongoing_txns: dict[int, int] = {}
        """First offset -> producer id, in the order of the offsets."""
        self.unreplicated_txns: dict[int, int] = {}
        """First offset -> the marker's offset, of transactions whose marker is not below the high watermark."""
        self.snapshots = sorted(snapshots)

    # -- appending ---------------------------------------------------------------------------------------------------

    def prepare_update(self, producer_id: int, origin: int) -> ProducerAppendInfo:
        """Return the check of a producer's next batches."""
        current = self.producers.get(producer_id)
        return ProducerAppendInfo(self._partition, current or ProducerStateEntry(producer_id), origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Take in what an append has written."""
        updated = info.updated
        current = self.producers.get(updated.producer_id)
        if current is None:
            if len(self.producers) >= MAX_PRODUCERS:
                self.forget_older_half()
            self.producers[updated.producer_id] = updated
        else:
            current.update(updated)
        for first_offset in info.started_transactions:
            latest = next(reversed(self.ongoing_txns), NO_OFFSET)
            self.ongoing_txns[first_offset] = updated.producer_id
            if first_offset < latest:
                # What a follower appends at once holds transactions of several producers, one producer after the other.
                self.ongoing_txns = dict(sorted(self.ongoing_txns.items()))

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Up to where everything is decided once this transaction is complete."""
        for first_offset, producer_id in self.ongoing_txns.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Close a transaction; it stays unstable until its marker lies below the high watermark."""
        del self.ongoing_txns[completed.first_offset]
        self.unreplicated_txns[completed.first_offset] = completed.last_offset

    def replay(self, buffer: Buffer, header: BatchHeader) -> AbortedTxn | None:
        """Take in a batch read back from the log; the entry for the transaction index if its marker aborts."""
        aborted = None
        if header.has_producer_id:
            info = self.prepare_update(header.producer_id, REPLICATION)
            completed = info.append(buffer, header, header.base_offset)
            self.update(info)
            if completed is not None:
                aborted = self.finish(completed)
        self.map_end_offset = header.next_offset
        return aborted

    def finish(self, completed: CompletedTxn) -> AbortedTxn | None:
        """Complete a transaction whose marker is written; the entry for the transaction index if it was aborted."""
        stable = self.last_stable_offset(completed)
        self.complete_txn(completed)
        if not completed.is_aborted:
            return None
        return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)

    @property
    def first_unstable_offset(self) -> int:
        """The first offset of the oldest transaction that is not decided below the high watermark, -1 for none."""
        ongoing = next(iter(self.ongoing_txns), NO_OFFSET)
        if self.is_rebuilding and ongoing == NO_OFFSET:
            ongoing = self.map_end_offset
        if not self.unreplicated_txns:
            return ongoing
        unreplicated = min(self.unreplicated_txns)
        return unreplicated if ongoing == NO_OFFSET else min(ongoing, unreplicated)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget the transactions whose markers are replicated now."""
        if self.unreplicated_txns:
            self.unreplicated_txns = {
                first: last for first, last in self.unreplicated_txns.items() if last >= high_watermark
            }

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Follow the deletion of records."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._last_snapshot_offset = self.snapshots[-1] if self.snapshots else log_start_offset

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers that wrote nothing for `producer.id.expiration.ms` and have no open transaction."""
        expired = [producer_id for producer_id, entry in self.producers.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self.producers[producer_id]

    def next_expiry(self) -> float:
        """When the next producer may expire, in epoch milliseconds; infinite without one."""
        written = [one.last_timestamp for one in self.producers.values() if one.current_txn_first_offset == NO_OFFSET]
        return min(written) + self.expiration_ms if written else inf

    def forget_older_half(self) -> int:
        """Forget the half of the producers that wrote longest ago, but for those with open transactions; how many."""
        idle = [entry for entry in self.producers.values() if entry.current_txn_first_offset == NO_OFFSET]
        idle.sort(key=lambda entry: entry.last_timestamp)
        forgotten = idle[: len(idle) // 2 + 1]
        for entry in forgotten:
            del self.producers[entry.producer_id]
        return len(forgotten)

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        return entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp >= self.expiration_ms

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot_path(self, offset: int) -> str:
        """Return the file of the snapshot at an offset."""
        return f"{self._directory}/{file_name(offset, PRODUCER_SNAPSHOT_FILE_SUFFIX)}"

    def take_snapshot(self, *, sync: bool = True) -> None:
        """Write a snapshot at `map_end_offset`, unless that offset has one."""
        if self.map_end_offset > self._last_snapshot_offset:
            data = encode_snapshot(list(self.producers.values()))
            self._filesystem.replace(self.snapshot_path(self.map_end_offset), data, sync=sync)
            if self.map_end_offset not in self.snapshots:
                self.snapshots = sorted((*self.snapshots, self.map_end_offset))
            self._last_snapshot_offset = self.map_end_offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> list[str]:
        """Go back to the last usable snapshot within the log; why the ones that were tried could not be read."""
        for offset in list(self.snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        if self.map_end_offset == log_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return []
        self._clear()
        return self._load_latest_snapshot(log_start_offset, now_ms)

    def _clear(self) -> None:
        self.producers.clear()
        self.ongoing_txns.clear()
        self.unreplicated_txns.clear()

    def _load_latest_snapshot(self, log_start_offset: int, now_ms: int) -> list[str]:
        problems = []
        while self.snapshots:
            offset = self.snapshots[-1]
            try:
                entries = decode_snapshot(self._filesystem.read(self.snapshot_path(offset)))
            except (CorruptSnapshotError, FileNotFoundError) as error:
                problems.append(f"{self.snapshot_path(offset)}: {error}")
                self._delete_snapshot(offset)
                continue
            self._load(entries, now_ms)
            self._last_snapshot_offset = self.map_end_offset = offset
            return problems
        self._last_snapshot_offset = self.map_end_offset = log_start_offset
        return problems

    def _load(self, entries: list[ProducerStateEntry], now_ms: int) -> None:
        alive = [entry for entry in entries if not self._is_expired(entry, now_ms)]
        self.producers = {entry.producer_id: entry for entry in alive}
        open_txns = [(entry.current_txn_first_offset, entry.producer_id) for entry in alive]
        self.ongoing_txns = {first: producer_id for first, producer_id in sorted(open_txns) if first >= 0}

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything, snapshots too."""
        self._clear()
        for snapshot in list(self.snapshots):
            self._delete_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def remove_stray_snapshots(self, segment_base_offsets: list[int]) -> None:
        """Delete the snapshots that belong to no segment, but keep the newest if it lies beyond the last segment."""
        newest = self.snapshots[-1] if self.snapshots else NO_OFFSET
        for offset in list(self.snapshots):
            beyond = offset == newest and segment_base_offsets and offset > segment_base_offsets[-1]
            if offset not in segment_base_offsets and not beyond:
                self._delete_snapshot(offset)

    def delete_snapshots_after(self, offset: int) -> None:
        """Delete the snapshots of what is truncated."""
        for snapshot in [taken for taken in self.snapshots if taken > offset]:
            self._delete_snapshot(snapshot)
        self._last_snapshot_offset = min(self._last_snapshot_offset, offset)

    def mark_snapshots_for_deletion(self, offsets: Iterable[int]) -> list[str]:
        """Rename the snapshots at offsets so that they wait for deletion with their segments; the new paths."""
        marked = [self._mark_for_deletion(offset) for offset in offsets]
        return [path for path in marked if path is not None]

    def _mark_for_deletion(self, offset: int) -> str | None:
        if offset not in self.snapshots:
            return None
        self.snapshots.remove(offset)
        marked = self.snapshot_path(offset) + DELETED_FILE_SUFFIX
        try:
            self._filesystem.rename(self.snapshot_path(offset), marked)
        except FileNotFoundError:
            return None
        return marked

    def _delete_snapshot(self, offset: int) -> None:
        self.snapshots.remove(offset)
        self._filesystem.remove(self.snapshot_path(offset))
