"""One partition of a topic on this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.plain_append import append_plain

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.log_append_info import LogAppendInfo
    from barnabas.broker.log.unified_log import UnifiedLog

#: The leader epoch of a partition whose leader never changed.
INITIAL_LEADER_EPOCH = 0
#: In place of a leader's id: the only replica is offline.
NO_LEADER = -1


class Partition:
    """A partition that this broker leads, with its log. Parked fetches wait under it as their key.

    It decides what the log only carries out: in which leader epoch records are written, and how far consumers may read
    (the high watermark). With one replica a record is committed when it is in the log; with several it will be when
    every replica in sync has it.

    `appended`, `messages_in` and `bytes_out` count bytes and records since the broker started; `deleted` tells that
    the topic is gone.
    """

    __slots__ = ("appended", "bytes_out", "deleted", "index", "leader_epoch", "log", "messages_in", "topic", "topic_id")

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: UnifiedLog, leader_epoch: int = INITIAL_LEADER_EPOCH
    ):
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.appended = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.deleted = False

    def append(self, records: Buffer, now_ms: int, origin: int = CLIENT) -> LogAppendInfo:
        """Append record batches as the partition's leader. Raises KafkaError, see `UnifiedLog.append`."""
        info = self.log.append(records, now_ms=now_ms, origin=origin, leader_epoch=self.leader_epoch)
        if not info.duplicate:
            self.appended += len(records)
            self.messages_in += info.record_count
            self.advance_high_watermark()
        return info

    def append_plain(self, batch: memoryview, now_ms: int) -> int:
        """Append a batch if it is plain (see `log.plain_append`): its first offset, or -1 for one that is not."""
        log = self.log
        offset = append_plain(log, batch, now_ms, self.leader_epoch)
        if offset >= 0:
            self.appended += len(batch)
            self.messages_in += log.local_log.log_end_offset - offset
            self.advance_high_watermark()
        return offset

    def advance_high_watermark(self) -> None:
        """Let consumers see what is committed: with one replica, all that is in the log."""
        log = self.log
        log.update_high_watermark(log.local_log.log_end_offset)

    def check_leader_epoch(self, epoch: int) -> None:
        """Raises FencedLeaderEpochError or UnknownLeaderEpochError unless `epoch` is current; -1 is not checked."""
        if epoch in (-1, self.leader_epoch):
            return
        found = f"{self.topic}-{self.index} is at leader epoch {self.leader_epoch}, the request at {epoch}"
        if epoch < self.leader_epoch:
            raise errors.FencedLeaderEpochError(found)
        raise errors.UnknownLeaderEpochError(found)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above `epoch` and where it ends; (-1, -1) for one that is not known."""
        if epoch == self.leader_epoch:
            # The current epoch goes on, also where nothing was written in it yet.
            return epoch, self.log.log_end_offset
        found = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return found.epoch, found.start_offset
