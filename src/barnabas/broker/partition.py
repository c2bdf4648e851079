"""One partition of a topic on this broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import anatomy, errors
from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.plain_append import append_plain
from barnabas.broker.metadata.partition_registration import NO_LEADER
from barnabas.protocol.epochs import INITIAL_LEADER_EPOCH

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.log_append_info import LogAppendInfo
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.broker.replication.in_sync_replicas import InSyncReplicas
    from barnabas.broker.replication.partition_state import PendingExpandIsr, PendingPartitionChange, PendingShrinkIsr
    from barnabas.broker.replication.replica import FollowerFetch
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition

ACKS_ALL = -1


class Partition:
    """A partition that this broker leads or follows, with its log.

    Parked fetches and produces wait under it as their key, fetches of followers under `log_end`. It decides what the
    log only carries out: in which leader epoch records are written, and which of them are committed: consumers read up
    to the high watermark, and producers get their answers when it has passed their records. With one replica a record
    is committed when it is in the log and, where `flush.messages` asks for that, on the disk; with several when every
    replica in sync has it (`in_sync`, None for one replica and for a follower). A flush goes through `storage`; what is
    appended meanwhile waits for the next one. `mark(key)` is called when the high watermark has moved (key: the
    partition) or the log has grown (key: `log_end`) later than an append, else requests parked on it wait in vain.

    `appended` and `messages_in` count bytes and records since the broker started, `readable` the bytes of those up to
    the high watermark, `bytes_out` what consumers fetched; `bytes_followed` and `bytes_to_followers` count what went
    between replicas, the first of them as part of `appended`. `is_reassigning` tells that replicas are being moved,
    `is_flushing` that a flush is in flight, `deleted` that the topic is gone, or this broker's replica. `leaderships`
    counts how often this broker has ceased to lead.
    """

    __slots__ = (
        "_mark",
        "_resigned_epoch",
        "_storage",
        "_uncommitted",
        "appended",
        "bytes_followed",
        "bytes_out",
        "bytes_to_followers",
        "deleted",
        "in_sync",
        "index",
        "is_flushing",
        "is_leader",
        "is_reassigning",
        "leader_epoch",
        "leader_id",
        "leaderships",
        "log",
        "log_end",
        "me",
        "messages_in",
        "partition_epoch",
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
        mark: Callable[[object], None],
    ):
        self.topic, self.index = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.is_leader = True
        self.leader_id = NO_LEADER
        #: This broker's id where it is a member of a cluster.
        self.me = -1
        self.leaderships = 0
        self.leader_epoch = INITIAL_LEADER_EPOCH
        self.partition_epoch = -1
        self.in_sync: InSyncReplicas | None = None
        self.log_end = object()
        self.appended = 0
        self.readable = 0
        self.messages_in = 0
        self.bytes_out = self.bytes_followed = self.bytes_to_followers = 0
        self.is_reassigning = False
        self.deleted = False
        self._storage = storage
        self._mark = mark
        self._resigned_epoch = -1
        self._uncommitted: deque[tuple[int, int]] = deque()
        self.is_flushing = False

    # -- the role ----------------------------------------------------------------------------------------------------

    def await_registration(self) -> None:
        """Serve nothing before the controller has said who leads."""
        self.is_leader = False
        self.leader_epoch = -1

    def make_leader(
        self, me: int, registration: PartitionRegistration, in_sync: InSyncReplicas | None, now_ms: int
    ) -> bool:
        """Lead, or go on with another ISR or assignment; False for news that are older than what is known.

        `in_sync` is what is to know the followers, None where there is no other replica.
        """
        if registration.partition_epoch < self.partition_epoch or registration.leader_epoch <= self._resigned_epoch:
            return False
        is_new = not self.is_leader
        end = self.log.log_end_offset
        if registration.leader_epoch > self.leader_epoch and in_sync is not None:
            # Followers may ask for an epoch in which nothing is written: it must end here for them (KIP-279).
            self.log.leader_epochs.assign(registration.leader_epoch, end)
        self.in_sync = in_sync
        if in_sync is not None:
            in_sync.update(registration, end, now_ms, is_new=is_new)
        self._take_over(registration)
        self.is_leader, self.leader_id = True, me
        self.advance_high_watermark(now_ms)
        # What an earlier life, or a follower, had not flushed does not count until it is.
        self._flush_on(now_ms)
        self._wake_all()
        return True

    def make_follower(self, registration: PartitionRegistration) -> bool:
        """Follow, or wait for a leader; whether the epoch is a new one, so that fetching has to begin anew."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        is_new_epoch = registration.leader_epoch > self.leader_epoch or self.is_leader
        self.in_sync = None
        self.leaderships += self.is_leader
        self._take_over(registration)
        self.is_leader, self.leader_id = False, registration.leader
        self._wake_all()
        return is_new_epoch

    def replace_log(self, log: UnifiedLog) -> None:
        """Go on with a log that was offline and was opened anew.

        A leader with followers that has lost records of it leads no more in this epoch: it would write others at the
        same offsets and in the same epoch, which no replica could tell apart.
        """
        has_lost = log.log_end_offset < self.log.log_end_offset
        self.log = log
        self._uncommitted.clear()
        self.readable = self.appended
        if self.in_sync is not None:
            self.in_sync.on_lag()
        if has_lost and self.in_sync is not None:
            self.in_sync = None
            self.is_leader, self.leader_id = False, NO_LEADER
            self.leaderships += 1
            self._resigned_epoch = self.leader_epoch
        self._wake_all()

    def _take_over(self, registration: PartitionRegistration) -> None:
        self.leader_epoch = max(registration.leader_epoch, self.leader_epoch)
        self.partition_epoch = registration.partition_epoch
        self.is_reassigning = registration.is_reassigning
        # Whether its high watermark is checkpointed goes by the role.
        self.log.touch()

    def _wake_all(self) -> None:
        self._mark(self)
        self._mark(self.log_end)

    @property
    def is_sole_replica(self) -> bool:
        """Whether this broker leads, and no other has a replica."""
        return self.is_leader and self.in_sync is None

    def check_leader(self) -> None:
        """Raise NotLeaderOrFollowerError unless this broker leads."""
        if not self.is_leader:
            raise errors.NotLeaderOrFollowerError(
                f"{self.topic}-{self.index} is led by broker {self.leader_id} in epoch {self.leader_epoch}, not here."
            )

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, records: Buffer, now_ms: int, origin: int = CLIENT) -> LogAppendInfo:
        """Append record batches as the partition's leader. Raises KafkaError, see `UnifiedLog.append`.

        They may wait for a flush when this returns (`is_committed`). A fault on the way has the log opened anew.
        """
        self.check_leader()
        try:
            return self._append(records, now_ms, origin)
        except errors.KafkaError:
            raise
        except Exception as problem:
            self.log.doubt(problem)
            raise

    def _append(self, records: Buffer, now_ms: int, origin: int) -> LogAppendInfo:
        log = self.log
        info = log.append(records, now_ms=now_ms, origin=origin, leader_epoch=self.leader_epoch)
        if not info.duplicate:
            self.appended += len(records)
            self.messages_in += info.record_count
        elif self.is_committed(info.last_offset):
            return info
        if not log.must_flush:
            self._appended(now_ms)
        else:
            if self.in_sync is not None:
                self._note_growth()
            self._flush(now_ms)
        return info

    def append_plain(self, batch: memoryview, now_ms: int) -> int:
        """Append a batch if it is plain (see `log.plain_append`): its first offset, or -1 for one that is not."""
        if not self.is_leader:
            return -1
        log = self.log
        try:
            offset = append_plain(log, batch, now_ms, self.leader_epoch)
            if offset >= 0:
                self.appended += len(batch)
                self.messages_in += log.local_log.log_end_offset - offset
                self._appended(now_ms)
        except errors.KafkaError:
            raise
        except Exception as problem:
            log.doubt(problem)
            raise
        return offset

    def is_committed(self, offset: int) -> bool:
        """Whether the record at an offset is committed, so that its producer may be answered."""
        return offset < self.log.high_watermark

    def is_written(self, offset: int) -> bool:
        """Whether the record at an offset is in the log here, and on the disk where `flush.messages` asks for it."""
        return offset < self.log.recovery_point or not (self.is_flushing or self.log.must_flush)

    def check_enough_in_sync(self, acks: int) -> None:
        """Raise NotEnoughReplicasError if a Produce with acks=all may not be appended."""
        in_sync = self.in_sync
        if in_sync is not None and acks == ACKS_ALL:
            wanted = in_sync.effective_min_isr(self.log.config.min_insync_replicas)
            if len(in_sync.state.isr) < wanted:
                raise errors.NotEnoughReplicasError(
                    f"{self.topic}-{self.index} has {len(in_sync.state.isr)} replica(s) in sync "
                    f"({', '.join(map(str, sorted(in_sync.state.isr)))}); min.insync.replicas asks for {wanted}."
                )

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether a record that is committed now is on as many replicas as `min.insync.replicas` asks for."""
        in_sync = self.in_sync
        if in_sync is None:
            return True
        return len(in_sync.state.maximal_isr) >= in_sync.effective_min_isr(self.log.config.min_insync_replicas)

    # -- what is committed -------------------------------------------------------------------------------------------

    def _appended(self, now_ms: int) -> None:
        if self.in_sync is None:
            if not self.is_flushing:
                log = self.log
                log.update_high_watermark(log.local_log.log_end_offset)
                self.readable = self.appended
            return
        self._note_growth()
        self.advance_high_watermark(now_ms)

    def _note_growth(self) -> None:
        self._uncommitted.append((self.log.log_end_offset, self.appended))
        if anatomy.active is not None:
            self.log.tell_offsets(anatomy.active)
            self._tell_replica(anatomy.active)
        self._mark(self.log_end)
        if self.in_sync is not None:
            self.in_sync.on_lag()

    def advance_high_watermark(self, now_ms: int, end: int = -1) -> bool:
        """Move the high watermark to where it may be by now; whether it has moved.

        `end` is up to where the leader's own log counts: without it to its end, unless that is being flushed.
        """
        log, in_sync = self.log, self.in_sync
        if end < 0:
            end = log.recovery_point if self.is_flushing or log.must_flush else log.log_end_offset
        if in_sync is not None:
            end = in_sync.high_watermark(end, log.config.min_insync_replicas, now_ms)
        if end <= log.high_watermark:
            return False
        log.update_high_watermark(end)
        self._high_watermark_moved()
        return True

    def follow_high_watermark(self, high_watermark: int) -> bool:
        """Take over the leader's high watermark, as far as the log reaches; whether it has moved."""
        log = self.log
        before = log.high_watermark
        if log.update_high_watermark(high_watermark) == before:
            return False
        self._high_watermark_moved()
        return True

    def _high_watermark_moved(self) -> None:
        self._count_readable()
        self._mark(self)
        if anatomy.active is not None:
            self._tell_replica(anatomy.active)

    def _tell_replica(self, recorder: anatomy.Recorder) -> None:
        if self.me >= 0:
            ends = self.log.high_watermark, self.log.log_end_offset
            recorder.record(anatomy.events.ReplicaMoved(self.me, self.topic, self.index, *ends))

    def followed(self, size: int) -> None:
        """Count what was appended as a follower."""
        self.appended += size
        self.bytes_followed += size
        self._note_growth()

    def _count_readable(self) -> None:
        uncommitted, end = self._uncommitted, self.log.high_watermark
        while uncommitted and uncommitted[0][0] <= end:
            self.readable = uncommitted.popleft()[1]
        if end >= self.log.log_end_offset:
            uncommitted.clear()
            self.readable = self.appended

    def _flush(self, now_ms: int) -> None:
        """Begin to bring to the disk what was appended so far, unless a flush is in flight: another follows it."""
        if self.is_flushing:
            return
        log, end, readable = self.log, self.log.log_end_offset, self.appended
        sync = log.prepare_flush(end)

        def done() -> None:
            try:
                self.is_flushing = False
                log.end_flush(end, sync.error, now_ms)
                if log is self.log and not log.is_offline:
                    self._flushed(end, readable, now_ms)
                self._mark(self)
            except Exception as problem:
                self.is_flushing = False
                log.doubt(problem)
                self._mark(self)
                raise

        try:
            self.is_flushing = True
            self._storage.submit(sync.run, done)
        except Exception:
            self.is_flushing = False
            raise

    def _flushed(self, end: int, readable: int, now_ms: int) -> None:
        if self.in_sync is not None:
            self.advance_high_watermark(now_ms, end)
        elif self.is_leader and self.log.must_flush:
            self.log.update_high_watermark(end)
            self.readable = readable
        elif self.is_leader:
            self._appended(now_ms)
        if self.is_leader:
            self._flush_on(now_ms)

    def _flush_on(self, now_ms: int) -> None:
        """Begin to flush what must be, if anything."""
        if not self.log.must_flush:
            return
        try:
            self._flush(now_ms)
        except errors.KafkaStorageError:
            # The log has said so, and what waits is told as much.
            return

    # -- followers ---------------------------------------------------------------------------------------------------

    def check_follower(self, replica_id: int, leader_epoch: int) -> None:
        """Raise unless the broker is a follower here, as far as is known; it tries again then."""
        self.check_leader()
        if self.in_sync is None or replica_id not in self.in_sync.replicas:
            problem = errors.UnknownLeaderEpochError if leader_epoch >= 0 else errors.NotLeaderOrFollowerError
            raise problem(f"Broker {replica_id} is no replica of {self.topic}-{self.index} as far as is known here.")

    def update_follower_fetch_state(
        self, replica_id: int, fetch: FollowerFetch, now_ms: int
    ) -> PendingExpandIsr | None:
        """Take note of how far a follower has come, move the high watermark; gives a proposal to take it into the ISR.

        Raises NotLeaderOrFollowerError.
        """
        in_sync = self.in_sync
        assert in_sync is not None, "the follower was checked"
        known = in_sync.replicas[replica_id]
        before, start_before = known.log_end_offset, known.log_start_offset
        replica = in_sync.record_fetch(replica_id, fetch, self.log.log_end_offset, now_ms)
        proposal = in_sync.expand(replica, self.log.high_watermark)
        if replica.log_end_offset < self.log.log_end_offset:
            in_sync.on_lag()
        # Who counted for it may have gone since, and nothing else would say so where nothing is appended.
        if replica.log_end_offset != before or self.log.high_watermark < self.log.log_end_offset:
            self.advance_high_watermark(now_ms)
        if replica.log_start_offset != start_before:
            # Who deletes records may wait for that.
            self._mark(self)
        return proposal

    @property
    def low_watermark(self) -> int:
        """Where all replicas start that are alive: no record before it is left on any of them."""
        start = self.log.log_start_offset
        return start if self.in_sync is None else self.in_sync.low_watermark(start)

    def shrink_isr(self, now_ms: int) -> PendingShrinkIsr | None:
        """Return a proposal to take late followers out of the ISR; None where there are none."""
        return None if self.in_sync is None else self.in_sync.shrink(self.log.log_end_offset, now_ms)

    @property
    def unsent_proposal(self) -> PendingPartitionChange | None:
        """The proposal that was not sent, or whose answer was not taken in, for a fault of this program."""
        return None if self.in_sync is None else self.in_sync.unsent

    @property
    def may_lag(self) -> bool:
        """Whether a follower in sync may lack something, so that it can be late."""
        return self.in_sync is not None and not self.deleted and not self.in_sync.are_level(self.log.log_end_offset)

    def alter_partition_completed(
        self, proposal: PendingPartitionChange, answer: PartitionRegistration | int, now_ms: int
    ) -> bool:
        """Take in what the controller says of a proposal, or its error; whether it is to be sent again."""
        in_sync = self.in_sync
        if in_sync is None:
            return False
        if isinstance(answer, int):
            is_to_be_sent_again = in_sync.refused(proposal, answer)
            # Who was to join does not count any more.
            self.advance_high_watermark(now_ms)
            return is_to_be_sent_again
        if in_sync.accepted(proposal, answer):
            self.partition_epoch = in_sync.partition_epoch
            # A follower that is out of sync now is looked at with each Fetch.
            self._mark(self)
            self.advance_high_watermark(now_ms)
        return False

    # -- epochs ------------------------------------------------------------------------------------------------------

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
        if epoch == self.leader_epoch and self.is_leader:
            # The current epoch goes on, also where nothing was written in it yet.
            return epoch, self.log.log_end_offset
        found = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return found.epoch, found.start_offset

    @property
    def lags_behind_its_epoch(self) -> bool:
        """Whether the leader does not know yet what was committed before its epoch (OFFSET_NOT_AVAILABLE, KIP-207)."""
        return self.in_sync is not None and self.in_sync.epoch_start_offset > self.log.high_watermark
