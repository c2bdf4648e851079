"""Offsets as the application sees them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.protocol.topic_partition import TopicPartition


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


class MemberMetadata(ConsumerGroupMetadata):
    """That of a consumer, with what it had consumed by then: offsets in a transaction get their epochs from it."""

    consumed: Mapping[TopicPartition, OffsetAndMetadata] = MappingProxyType({})


def with_epochs(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], consumed: Mapping[TopicPartition, OffsetAndMetadata]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit; those without a leader epoch get that of what was consumed up to there (KIP-320).

    By it the next reader sees that its metadata are older than what was read. Kafka's clients commit what they are
    given: there it is for the application to say.
    """
    return {
        partition: offset._replace(leader_epoch=known.leader_epoch)
        if offset.leader_epoch < 0 and (known := consumed.get(partition)) is not None and known.offset == offset.offset
        else offset
        for partition, offset in offsets.items()
    }


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
