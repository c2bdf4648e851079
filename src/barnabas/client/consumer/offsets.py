"""Offsets as the application sees them."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """An offset to commit or a committed one: the offset of the next record to read, a note, and the leader's epoch.

    `leader_epoch` is the epoch of the last record that was consumed, -1 when it is not known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """The answer to "which is the first record at or after this time": its offset and its own time in epoch ms."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """What identifies a member to its group; a transactional producer sends it along with offsets (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class LeaderAndEpoch(NamedTuple):
    """The leader of a partition as the metadata has it: node id and epoch, each -1 when it is not known."""

    leader_id: int = -1
    epoch: int = -1


NO_LEADER = LeaderAndEpoch()


class FetchPosition(NamedTuple):
    """Where to read on: the next offset, the epoch of the record before it, and the leader that it was checked with."""

    offset: int
    offset_epoch: int = -1
    current_leader: LeaderAndEpoch = NO_LEADER


class EpochEndOffset(NamedTuple):
    """A leader's answer to "where does this epoch end": both -1 when it knows no such epoch (KIP-320)."""

    leader_epoch: int
    end_offset: int


class LogTruncation(NamedTuple):
    """A log lost records that were consumed: where the consumer stood, and where its log and the leader's part."""

    position: FetchPosition
    divergent_offset: OffsetAndMetadata | None
