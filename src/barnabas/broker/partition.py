"""One partition of a topic on this broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.plain_append import append_plain

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.log_append_info import LogAppendInfo
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition

#: The leader epoch of a partition whose leader never changed.
INITIAL_LEADER_EPOCH = 0
#: In place of a leader's id: the only replica is offline.
NO_LEADER = -1


class Partition:
    """A partition that this broker leads, with its log. Parked fetches and produces wait under it as their key.

    It decides what the log only carries out: in which leader epoch records are written, and which of them are
    committed: consumers read up to the high watermark, and producers get their answers when it has passed their
    records. With one replica a record is committed when it is in the log and, where `flush.messages` asks for that, on
    the disk; with several it will be when every replica in sync has it. A flush goes through `storage`; what is
    appended meanwhile waits for the next one. `on_committed(partition)` is called when the high watermark has moved
    later than an append, or never will.

    `appended` and `messages_in` count bytes and records since the broker started, `readable` the bytes of those up to
    the high watermark, `bytes_out` what was fetched; `is_flushing` tells that a flush is in flight, `deleted` that the
    topic is gone.
    """

    __slots__ = (
        "_on_committed",
        "_storage",
        "appended",
        "bytes_out",
        "deleted",
        "index",
        "is_flushing",
        "leader_epoch",
        "log",
        "messages_in",
        "readable",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: bytes,
        log: UnifiedLog,
        storage: Storage,
        on_committed: Callable[[Partition], None],
    ):
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = INITIAL_LEADER_EPOCH
        self.appended = 0
        self.readable = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.deleted = False
        self._storage = storage
        self._on_committed = on_committed
        self.is_flushing = False

    def append(self, records: Buffer, now_ms: int, origin: int = CLIENT) -> LogAppendInfo:
        """Append record batches as the partition's leader. Raises KafkaError, see `UnifiedLog.append`.

        A client's records may wait for a flush when this returns (`is_committed`). A coordinator's never do: its
        memory follows its records at once, so for these the loop waits for the disk.
        """
        log = self.log
        info = log.append(records, now_ms=now_ms, origin=origin, leader_epoch=self.leader_epoch)
        if not info.duplicate:
            self.appended += len(records)
            self.messages_in += info.record_count
        elif self.is_committed(info.last_offset):
            return info
        if not log.must_flush:
            self._advance_high_watermark()
        elif origin == CLIENT:
            self._flush(now_ms)
        else:
            log.flush()
            self._advance_high_watermark()
        return info

    def append_plain(self, batch: memoryview, now_ms: int) -> int:
        """Append a batch if it is plain (see `log.plain_append`): its first offset, or -1 for one that is not."""
        log = self.log
        offset = append_plain(log, batch, now_ms, self.leader_epoch)
        if offset >= 0:
            self.appended += len(batch)
            self.messages_in += log.local_log.log_end_offset - offset
            self._advance_high_watermark()
        return offset

    def is_committed(self, offset: int) -> bool:
        """Whether the record at an offset is committed, so that its producer may be answered."""
        return offset < self.log.high_watermark

    def _advance_high_watermark(self) -> None:
        if not self.is_flushing:
            log = self.log
            log.update_high_watermark(log.local_log.log_end_offset)
            self.readable = self.appended

    def _flush(self, now_ms: int) -> None:
        """Begin to bring to the disk what was appended so far, unless a flush is in flight: another follows it."""
        if self.is_flushing:
            return
        log, end, readable = self.log, self.log.log_end_offset, self.appended
        sync = log.prepare_flush(end)

        def done() -> None:
            self.is_flushing = False
            log.end_flush(end, sync.error, now_ms)
            if log is self.log and not log.is_offline:
                self._flushed(end, readable, now_ms)
            self._on_committed(self)

        self.is_flushing = True
        self._storage.submit(sync.run, done)

    def _flushed(self, end: int, readable: int, now_ms: int) -> None:
        if not self.log.must_flush:
            self._advance_high_watermark()
            return
        self.log.update_high_watermark(end)
        self.readable = readable
        try:
            self._flush(now_ms)
        except errors.KafkaStorageError:
            # The log has said so, and what waits is told as much.
            return

    def check_leader_epoch(self, epoch: int) -> None:
        """Raise FencedLeaderEpochError or UnknownLeaderEpochError unless `epoch` is current; -1 is not checked."""
        if epoch in (-1, self.leader_epoch):
            return
        found = f"{self.topic}-{self.index} is at leader epoch {self.leader_epoch}, the request at {epoch}"
        if epoch < self.leader_epoch:
            raise errors.FencedLeaderEpochError(found)
        raise errors.UnknownLeaderEpochError(found)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch not above `epoch` and where it ends; (-1, -1) for one that is not known."""
        if epoch == self.leader_epoch:
            # The current epoch goes on, also where nothing was written in it yet.
            return epoch, self.log.log_end_offset
        found = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return found.epoch, found.start_offset
