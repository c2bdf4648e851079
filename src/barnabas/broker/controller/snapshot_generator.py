"""Decides when the metadata log gets a snapshot, and writes it piece by piece (SnapshotGenerator, KIP-630)."""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.truncation import done_beside
from barnabas.broker.metadata.image_records import image_records
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.controller.quorum_controller import Committed
    from barnabas.broker.instant import Instant
    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.raft.raft_client import RaftClient, SnapshotWriter
    from barnabas.broker.storage_threads import Storage

#: So many records are written in one turn of the loop: some milliseconds.
_AT_ONCE = 500


class SnapshotLimits(NamedTuple):
    """After so many bytes of records, or so many seconds with any record, a snapshot is due; infinity: never."""

    max_bytes: float = 20 * 1024 * 1024
    max_interval: float = 3600.0


class SnapshotGenerator:
    """Listens to what is committed (`publish`), and writes snapshots in `tick`.

    A disk that fails costs the snapshot, not the log: `report` is told, and the next one is tried when it is due. The
    end of a snapshot waits for the disk in `storage`.
    """

    def __init__(
        self, raft: RaftClient, limits: SnapshotLimits, report: Callable[[str], None], storage: Storage
    ) -> None:
        self._raft = raft
        self._storage = storage
        #: When the last snapshot was ended, by the monotonic clock; 0 before there was one.
        self.ended_at = 0.0
        self._is_ending = False
        self._limits = limits
        self._report = report
        self._newest: Committed | None = None
        self._bytes = 0
        self._since = inf
        self._writer: SnapshotWriter | None = None
        self._records: Iterator[ApiMessageAndVersion] = iter(())

    def publish(self, committed: Committed, now: Instant) -> None:
        """Count what was committed; a snapshot that was loaded counts as one that was written."""
        self._newest = committed
        if committed.is_snapshot:
            self._bytes, self._since = 0, inf
        else:
            self._bytes += committed.byte_count
            self._since = min(self._since, now.now)

    def next_deadline(self) -> float:
        """When `tick` has something to do."""
        if self._is_ending:
            return inf
        if self._writer is not None or self._bytes >= self._limits.max_bytes:
            return 0.0
        return self._since + self._limits.max_interval

    def tick(self, now: Instant) -> None:
        """Begin a snapshot that is due, or write the next piece of it."""
        if now.now < self.next_deadline():
            return
        try:
            if self._writer is None:
                self._begin()
            else:
                self._go_on(self._writer, now)
        except KafkaStorageError as problem:
            self._failed(problem)

    def _failed(self, problem: KafkaStorageError) -> None:
        self.close()
        self._report(f"a snapshot of the metadata log could not be written: {problem}; the log is kept")

    def close(self) -> None:
        """Throw away a snapshot that is not finished."""
        if self._writer is not None:
            self._writer.close()
            self._writer, self._records = None, iter(())

    def _begin(self) -> None:
        newest = self._newest
        self._bytes, self._since = 0, inf
        if newest is None or newest.image.offset < 0:
            return
        image = newest.image
        snapshot_id = OffsetAndEpoch(image.offset + 1, image.epoch)
        self._writer = self._raft.create_snapshot(snapshot_id, newest.append_timestamp)
        # The image never changes, so what is committed meanwhile does no harm.
        self._records = image_records(image)

    def _go_on(self, writer: SnapshotWriter, now: Instant) -> None:
        records = list(islice(self._records, _AT_ONCE))
        if records:
            writer.append(records)
        else:
            self._is_ending = True
            done_beside(self._end(writer, now.now), self._storage, lambda _: None)

    def _end(self, writer: SnapshotWriter, now: float) -> Steps[None]:
        try:
            yield from writer.freeze()
            self.ended_at = now
            self.close()
        except KafkaStorageError as problem:
            self._failed(problem)
        finally:
            self._is_ending = False
