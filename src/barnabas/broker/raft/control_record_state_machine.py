"""Who votes and at which `kraft.version`, as the log and its snapshots say (KRaftControlRecordStateMachine)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.raft.control_records import read_control_records
from barnabas.broker.raft.log_history import Entry, LogHistory
from barnabas.broker.raft.snapshot_batches import snapshot_batches
from barnabas.broker.raft.voter_set import VoterSet
from barnabas.errors import IllegalStateError
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.voters_record import VotersRecord

if TYPE_CHECKING:
    from barnabas.broker.raft.replicated_log import ReplicatedLog
    from barnabas.protocol.message import Buffer

_READ_BYTES = 8 << 20


class PartitionState:
    """Follows the log to its end: voters count as soon as they are written, not when they are committed (KIP-853)."""

    __slots__ = ("_kraft_versions", "_log", "_next_offset", "_static_voters", "_voters")

    def __init__(self, log: ReplicatedLog, static_voters: VoterSet) -> None:
        self._log = log
        self._static_voters = static_voters
        self._voters: LogHistory[VoterSet] = LogHistory()
        self._kraft_versions: LogHistory[int] = LogHistory()
        self._next_offset = -1

    @property
    def last_voter_set(self) -> VoterSet:
        """Who votes now."""
        last = self._voters.last
        return self._static_voters if last is None else last.value

    @property
    def last_voter_set_entry(self) -> Entry[VoterSet] | None:
        """Who votes now, and the offset that says so: -1 for the bootstrap snapshot, None for static voters."""
        return self._voters.last

    @property
    def kraft_version(self) -> int:
        """The newest `kraft.version`."""
        last = self._kraft_versions.last
        return 0 if last is None else last.value

    @property
    def is_reconfig_supported(self) -> bool:
        """Whether voters may come and go (KIP-853)."""
        return self.kraft_version > 0

    def voter_set_at(self, offset: int) -> VoterSet | None:
        """Return who voted at an offset, None where the log does not say."""
        return self._voters.value_at(offset)

    def kraft_version_at(self, offset: int) -> int:
        """Return the `kraft.version` at an offset."""
        return self._kraft_versions.value_at(offset) or 0

    def update(self) -> None:
        """Read what the log has more, or a snapshot that the log begins with."""
        log = self._log
        snapshot = log.latest_snapshot_id
        if snapshot is not None and (self._next_offset < 0 or self._next_offset < log.start_offset):
            self._voters.clear()
            self._kraft_versions.clear()
            for data in snapshot_batches(log, snapshot):
                self._read(data, snapshot.offset - 1)
            self._next_offset = snapshot.offset
        self._next_offset = max(self._next_offset, log.start_offset)
        while self._next_offset < log.end_offset:
            data = log.read(self._next_offset, _READ_BYTES)
            if not data:
                raise IllegalStateError(f"the metadata log has nothing at offset {self._next_offset}, before its end")
            self._next_offset = self._read(data, None)

    def _read(self, data: Buffer, at_offset: int | None) -> int:
        """Take in the control records of some batches; the offset behind them."""
        from barnabas.records import scan_batches

        for offset, message in read_control_records(data):
            where = offset if at_offset is None else at_offset
            if isinstance(message, VotersRecord):
                self._add_voters(where, VoterSet.from_record(message))
            elif isinstance(message, KRaftVersionRecord):
                self._kraft_versions.add(where, message.k_raft_version)
        headers = scan_batches(data)
        return headers[-1].next_offset if headers else 0

    def _add_voters(self, offset: int, voters: VoterSet) -> None:
        last = self._voters.last
        if last is not None and last.offset >= 0 and not last.value.has_overlapping_majority(voters):
            raise IllegalStateError(
                f"the voters at offset {offset} ({voters}) differ by more than one from those at {last.offset} "
                f"({last.value})"
            )
        self._voters.add(offset, voters)

    def reload(self) -> None:
        """Read the newest snapshot and the log behind it anew, for the log begins behind it now.

        Nothing that was read before counts: it may have been longer than the snapshot, and of a history that is lost.
        """
        self._next_offset = -1
        self.update()

    def truncate_new(self, end_offset: int) -> None:
        """Forget what the log does not have any more."""
        self._voters.truncate_new(end_offset)
        self._kraft_versions.truncate_new(end_offset)
        self._next_offset = min(self._next_offset, end_offset)

    def truncate_old(self, start_offset: int) -> None:
        """Forget what a snapshot says as well."""
        self._voters.truncate_old(start_offset)
        self._kraft_versions.truncate_old(start_offset)
