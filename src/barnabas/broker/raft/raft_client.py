"""What stands between the quorum's log and those who live by it (RaftClient, its Listener, snapshot reader and writer).

No call here waits: an append returns the offset that its last record will have, and `Listener.handle_commit` tells when
that is committed; the end of a snapshot, which has to wait for the disk, comes as `Steps`. All is called on one thread,
the broker's loop, and listeners are never called from within a call of theirs to the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.metadata.metadata_records import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch, OffsetAndEpoch
    from barnabas.protocol.message import Message


class Batch(NamedTuple):
    """Committed records that were appended together; a control batch (leader change, voters) has none."""

    base_offset: int
    last_offset: int
    epoch: int
    #: When the leader appended it, in milliseconds since 1970.
    append_timestamp: int
    values: Sequence[bytes]

    def records(self) -> Iterator[Message]:
        """Decode the records, in order. Raises as `decode_record` does."""
        return map(decode_record, self.values)


class SnapshotReader(Protocol):
    """All that was true at a point of the log."""

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Where the log goes on behind the snapshot."""

    @property
    def last_contained_log_timestamp(self) -> int:
        """When the last record that went into it was appended, in milliseconds since 1970."""

    def batches(self) -> Iterator[Batch]:
        """Read the records, without the control records; offsets are positions in the snapshot.

        Raises `CorruptRecordError` for bytes that are no snapshot.
        """


class SnapshotWriter(Protocol):
    """A snapshot that is being written; it counts from `freeze` on, and then for ever."""

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Where the log goes on behind the snapshot."""

    def append(self, records: Sequence[ApiMessageAndVersion]) -> None:
        """Add records."""

    def freeze(self) -> Steps[None]:
        """End the snapshot, make it durable beside the loop, and drop the log before it in time.

        Raises `KafkaStorageError` when the disk fails; there is no such snapshot then.
        """

    def close(self) -> None:
        """Throw the snapshot away unless it is frozen."""


class Listener(Protocol):
    """The state machine over the log (RaftClient.Listener)."""

    def handle_commit(self, batches: Iterable[Batch]) -> None:
        """Take committed batches, in order and without gaps behind what came before.

        On the leader these are the batches it appended itself, and control batches between them.
        """

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Begin anew from a snapshot; all that came before counts no more."""

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Hear of a new epoch, or of its leader.

        Epochs only grow; each comes at most twice, first perhaps without a leader. This node's own leadership is told
        when the listener has seen everything that earlier leaders committed.
        """

    def begin_shutdown(self) -> None:
        """Hear that no more calls will come."""


class RaftClient(Protocol):
    """A node's view of the quorum's log (RaftClient)."""

    @property
    def node_id(self) -> int:
        """This node."""

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """Who leads now, as far as this node knows; ahead of what the listeners have heard."""

    @property
    def high_watermark(self) -> int | None:
        """The first offset that is not committed; None while this node does not know."""

    @property
    def log_end_offset(self) -> int:
        """The offset behind the last record in this node's log, committed or not."""

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot; None if there is none."""

    def register(self, listener: Listener) -> None:
        """Call a listener from the next turn on: with the newest snapshot, what was committed since, and who leads."""

    def unregister(self, listener: Listener) -> None:
        """Call a listener no more."""

    def prepare_append(self, epoch: int, records: Sequence[ApiMessageAndVersion]) -> int:
        """Put records into one batch, all or none, and return the offset that its last one will have.

        They are written with the next `schedule_prepared_append`, in order. Raises `NotLeaderError` when this node does
        not lead in `epoch`, `BufferAllocationError` when too much waits, `RecordBatchTooLargeError` above 8 MiB.
        """

    def schedule_prepared_append(self) -> None:
        """Have what was prepared written. Raises `NotLeaderError`."""

    def resign(self, epoch: int) -> None:
        """Give up the leadership of this epoch; an earlier epoch is ignored.

        Raises `ValueError` for an epoch that is still to come, or that another node leads.
        """

    def upgrade_kraft_version(self, epoch: int, level: int, *, validate_only: bool) -> None:
        """Have the quorum's records of another `kraft.version` written, ahead of what is appended next.

        Raises `InvalidUpdateVersionError` for a level that cannot be now, and `NotLeaderError` when this node does not
        lead in `epoch`. With `validate_only` nothing is written.
        """

    def create_snapshot(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp: int) -> SnapshotWriter | None:
        """Begin a snapshot of all before an offset that is committed; None if there is one already.

        Raises `ValueError` for an offset that is not committed, before the start of the log, or of another epoch.
        """
