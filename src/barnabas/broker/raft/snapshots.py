"""Snapshots as records: a header, the voters, the state's records, a footer (KIP-630)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft.control_records import build_control_batch, build_data_batch, read_control_records
from barnabas.broker.raft.raft_client import Batch
from barnabas.broker.raft.snapshot_batches import snapshot_batches
from barnabas.errors import CorruptRecordError
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.records import read_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
    from barnabas.broker.raft.replicated_log import RawSnapshotWriter, ReplicatedLog
    from barnabas.broker.raft.voter_set import VoterSet
    from barnabas.protocol.message import Buffer, Message

#: How large a batch of a snapshot becomes, in bytes.
_BATCH_BYTES = 1 << 20


class RecordsSnapshotWriter:
    """Writes the records of a snapshot; a `SnapshotWriter`."""

    __slots__ = ("_next_offset", "_on_frozen", "_raw", "_size", "_timestamp_ms", "_values")

    def __init__(
        self,
        raw: RawSnapshotWriter,
        timestamp_ms: int,
        kraft_version: int,
        voters: VoterSet | None,
        on_frozen: Callable[[OffsetAndEpoch], None] = lambda _id: None,
    ) -> None:
        self._raw = raw
        self._timestamp_ms = timestamp_ms
        self._on_frozen = on_frozen
        self._next_offset = 0
        self._values: list[bytes] = []
        self._size = 0
        header: list[Message] = [SnapshotHeaderRecord(last_contained_log_timestamp=timestamp_ms)]
        if kraft_version:
            header.append(KRaftVersionRecord(0, kraft_version))
            if voters is not None:
                header.append(voters.to_record())
        self._append_control(header)

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """See `SnapshotWriter`."""
        return self._raw.snapshot_id

    def append(self, records: Sequence[ApiMessageAndVersion]) -> None:
        """See `SnapshotWriter`."""
        self.append_values([encode_record(message, version) for message, version in records])

    def append_values(self, values: Sequence[bytes]) -> None:
        """Add records that are encoded already."""
        for value in values:
            self._values.append(value)
            self._size += len(value)
            if self._size >= _BATCH_BYTES:
                self._flush()

    def freeze(self) -> Steps[None]:
        """See `SnapshotWriter`."""
        self._flush()
        self._append_control([SnapshotFooterRecord()])
        yield from self._raw.freeze()
        self._on_frozen(self._raw.snapshot_id)

    def close(self) -> None:
        """See `SnapshotWriter`."""
        self._raw.close()

    def _flush(self) -> None:
        if self._values:
            self._write(build_data_batch, self._values)
            self._values, self._size = [], 0

    def _append_control(self, messages: list[Message]) -> None:
        self._write(build_control_batch, messages)

    def _write(self, build: Callable[..., bytes], content: Sequence[object]) -> None:
        epoch = self._raw.snapshot_id.epoch
        batch = build(content, base_offset=self._next_offset, epoch=epoch, timestamp_ms=self._timestamp_ms)
        self._raw.append(batch)
        self._next_offset += len(content)


class RecordsSnapshotReader:
    """Reads a snapshot of a log; a `SnapshotReader`."""

    __slots__ = ("_log", "_snapshot_id")

    def __init__(self, log: ReplicatedLog, snapshot_id: OffsetAndEpoch) -> None:
        self._log = log
        self._snapshot_id = snapshot_id

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """See `SnapshotReader`."""
        return self._snapshot_id

    @property
    def last_contained_log_timestamp(self) -> int:
        """See `SnapshotReader`."""
        for data in snapshot_batches(self._log, self._snapshot_id):
            for _, message in read_control_records(data):
                if isinstance(message, SnapshotHeaderRecord):
                    return message.last_contained_log_timestamp
        raise CorruptRecordError(f"the snapshot {self._snapshot_id} has no header")

    def batches(self) -> Iterator[Batch]:
        """See `SnapshotReader`."""
        data = b""
        for data in snapshot_batches(self._log, self._snapshot_id):
            yield from (batch for batch in batches_of(data) if batch.values)
        last = [message for _, message in read_control_records(data)][-1:]
        if not last or not isinstance(last[0], SnapshotFooterRecord):
            raise CorruptRecordError(f"the snapshot {self._snapshot_id} has no end: some of it was lost")


def batches_of(data: Buffer) -> list[Batch]:
    """Read whole batches; control batches come without values. Raises `CorruptRecordError`."""
    found = []
    for batch in read_batches(data):
        batch.check()
        values = [] if batch.is_control else [bytes(record.value or b"") for record in batch]
        found.append(
            Batch(batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.max_timestamp, values)
        )
    return found
