"""The records of the quorum itself: leader changes, voters, `kraft.version`, and both ends of a snapshot.

Formats: ControlRecordType, ControlRecordUtils and the message schemas (KIP-595, 630, 853).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError, ProtocolError
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.leader_change_message import LeaderChangeMessage
from barnabas.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.messages.voters_record import VotersRecord
from barnabas.records import RecordBatchBuilder, read_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.protocol.message import Buffer, Message

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_ROOM = 4096
#: Type → message.
CONTROL_RECORDS: dict[int, type[Message]] = {
    2: LeaderChangeMessage,
    3: SnapshotHeaderRecord,
    4: SnapshotFooterRecord,
    5: KRaftVersionRecord,
    6: VotersRecord,
}
_TYPES = {message: number for number, message in CONTROL_RECORDS.items()}


class ControlRecord(NamedTuple):
    """A control record of the quorum and where it stands; types that are not the quorum's are left out."""

    offset: int
    message: Message


def build_control_batch(messages: Sequence[Message], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Return one control batch; each message brings the version that it is written in as its first field."""
    builder = RecordBatchBuilder(_ROOM)
    builder.set_producer_state(-1, -1, -1, transactional=False, control=True)
    for message in messages:
        value = message.encode(message.version)  # type: ignore[attr-defined]  # all five have it
        if builder.try_append(timestamp_ms, _KEY.pack(0, _TYPES[type(message)]), value) < 0:
            raise ProtocolError(f"{len(messages)} control records do not fit in {_ROOM} bytes")
    return builder.close(base_offset, epoch)


def build_data_batch(values: Sequence[bytes], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Return one batch with these values."""
    builder = RecordBatchBuilder(sum(map(len, values)) + 32 * len(values) + 128)
    for value in values:
        builder.try_append(timestamp_ms, None, value)
    return builder.close(base_offset, epoch)


def read_control_records(data: Buffer) -> Iterator[ControlRecord]:
    """Read the quorum's control records in some batches. Raises `CorruptRecordError` for one that is malformed."""
    for batch in read_batches(data):
        if not batch.is_control:
            continue
        for record in batch:
            key, value = record.key or b"", record.value or b""
            if len(key) < _KEY.size or len(value) < _VERSION.size:
                raise CorruptRecordError(f"the control record at offset {record.offset} is too short")
            kind = CONTROL_RECORDS.get(_KEY.unpack_from(key)[1])
            if kind is None:
                continue
            version = min(_VERSION.unpack_from(value)[0], kind.VALID_VERSIONS[1])
            try:
                yield ControlRecord(record.offset, kind.decode(value, version))
            except ProtocolError as error:
                raise CorruptRecordError(f"the control record at offset {record.offset}: {error}") from error
