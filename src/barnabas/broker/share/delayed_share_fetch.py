"""A ShareFetch that acquires records, now or as soon as there are any (DelayedShareFetch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.cold_fetch import READS
from barnabas.broker.log.cold_range import cold_ranges
from barnabas.broker.purgatory import DelayedOperation
from barnabas.broker.share.share_partition import AcquiredRecords, Acquirer, FetchedBatch
from barnabas.protocol.kinds import IsolationLevel
from barnabas.records.batch_header import BatchHeader, scan_batches

if TYPE_CHECKING:
    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.log.fetch_data_info import FetchDataInfo
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.share.share_partition import ShareLimits, SharePartition
    from barnabas.broker.share.share_partition_manager import LedSharePartition, SharePartitionManager
    from barnabas.protocol.message import Message

#: More is not read of one partition at once, but for one batch: most of it would not be acquired.
_MOST_BYTES = 1 << 20
#: So much more is read than the records of the last read would take, and so much at least.
_MARGIN, _LEAST_BYTES = 1.25, 1 << 15


class ShareFetchLimits(NamedTuple):
    """How much a ShareFetch wants: at least `min_bytes` in all, at most `max_bytes`."""

    acquirer: Acquirer
    min_bytes: int
    max_bytes: int
    isolation: IsolationLevel


class SharedRecords(NamedTuple):
    """What was found in one share-partition: whole batches, and which records of them are acquired; or an error."""

    led: LedSharePartition
    records: bytes = b""
    acquired: Sequence[AcquiredRecords] = ()
    problem: errors.KafkaError | None = None


class _Read(NamedTuple):
    led: LedSharePartition
    offset: int
    found: FetchDataInfo


class _Found:
    """How far an attempt has come: what was read and not acquired yet, and how many records are still wanted."""

    __slots__ = ("acquired", "has_begun_one", "left", "reads", "size")

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        #: Whether there are records of a share-partition that gave none before.
        self.has_begun_one = False
        self.reads: list[_Read] = []
        #: Bytes of all that was read.
        self.size = 0
        self.acquired: list[SharedRecords] = []


class DelayedShareFetch(DelayedOperation):
    """Acquires once enough can be had, and answers with `finish`; at its deadline it takes what there is.

    `attempt` is to be called first: it may answer at once.
    """

    __slots__ = ("_began", "_cold_reads", "_finish", "_led", "_limits", "_manager", "_replicas", "_waited")

    def __init__(
        self,
        manager: SharePartitionManager,
        replicas: ReplicaManager,
        led: Sequence[LedSharePartition],
        limits: ShareFetchLimits,
        deadline: float,
        finish: Callable[[list[SharedRecords], float], Message],
    ) -> None:
        keys = [key for one in led for key in (one, one.replica)]
        super().__init__(deadline, (*dict.fromkeys(keys),))
        self._manager = manager
        self._replicas = replicas
        self._led = led
        self._limits = limits
        self._finish = finish
        #: How often something was read beside the loop.
        self._cold_reads = 0
        #: When the first attempt was, and how many seconds later something could be acquired from; None until then.
        self._began: float | None = None
        self._waited: float | None = None

    def try_complete(self, now: float) -> Message | None:
        """See `DelayedOperation`."""
        return self.attempt(now, is_last=False)

    def on_expiration(self, now: float) -> Message:
        """See `DelayedOperation`."""
        message = self.attempt(now, is_last=True)
        assert message is not None, "the last attempt takes what there is"
        return message

    def attempt(self, now: float, *, is_last: bool) -> Message | None:
        """Acquire what there is, if it is enough or this is the last attempt; None where it goes on waiting.

        Nothing more is read once the records are enough. Of share-partitions that had no reader before only one gives
        records: members that join together shall each find some. Apache Kafka, which loads one after the other, answers
        with the first one, too.
        """
        limits = self._manager.settings.limits(self._led[0].key.group_id)
        ready = [led for led in self._led if self._can_acquire(led, limits)]
        self._began = now if self._began is None else self._began
        if ready and self._waited is None:
            self._waited = now - self._began
        failed = [SharedRecords(led, problem=led.problem) for led in self._led if led.problem is not None]
        share = min(self._limits.max_bytes // max(len(ready), 1), _MOST_BYTES)
        found = _Found(self._limits.acquirer.max_records)
        for led in ready:
            if found.has_begun_one and not led.record_size:
                continue
            try:
                offset, most = self._range_of(led, share, found.left, limits.max_in_flight)
                cold = self._cold_ranges(led, offset, most, is_last=is_last)
                if cold and found.acquired:
                    break
                if cold:
                    self._cold_reads += 1
                    self._replicas.bring_in(cold, lambda: self._replicas.wake(ready[0]))
                    return None
                read = led.replica.log.read(offset, most, isolation=self._limits.isolation)
            except errors.KafkaError as problem:
                failed.append(SharedRecords(led, problem=problem))
                continue
            found.reads.append(_Read(led, offset, read))
            found.size += len(read.records)
            if is_last or failed or (found.size and found.size >= self._limits.min_bytes):
                self._acquire(found, limits, now)
                if found.left <= 0:
                    break
        if failed:
            self._acquire(found, limits, now)
        if not is_last and not failed and not found.acquired:
            return None
        waited = now - self._began if self._waited is None else self._waited
        percent = len(ready) * 100 // len(self._led)
        self._manager.metrics.count_fetch(self._led[0].key.group_id, percent, waited, now)
        return self._finish(failed + found.acquired, now)

    def _range_of(self, led: LedSharePartition, share: int, records: int, max_in_flight: int) -> tuple[int, int]:
        """Return from where to read, and how much: what so many records take, by the size of those before."""
        assert led.state is not None, "it was asked"
        self._follow_log(led, led.state)
        offset = led.state.next_fetch_offset()
        if not led.record_size:
            return offset, share
        if offset == led.state.records.end:
            # What is new is acquired only as far as there is room in flight.
            records = min(records, max_in_flight - led.state.records.count)
        wanted = int(led.record_size * records * _MARGIN)
        return offset, min(share, max(wanted, self._limits.min_bytes, _LEAST_BYTES))

    def _cold_ranges(self, led: LedSharePartition, offset: int, most: int, *, is_last: bool) -> list[ColdRange]:
        if is_last or self._cold_reads >= READS:
            return []
        return cold_ranges(led.replica.log, offset, most)

    def _can_acquire(self, led: LedSharePartition, limits: ShareLimits) -> bool:
        if not led.is_led and led.problem is None:
            led.problem = errors.NotLeaderOrFollowerError("Another broker leads the partition, or will.")
        if led.problem is not None or led.state is None:
            return False
        return led.state.can_acquire(limits)

    def _follow_log(self, led: LedSharePartition, state: SharePartition) -> None:
        """Forget the records that the log has no more."""
        log = led.replica.log
        if state.records.start < log.log_start_offset:
            state.log_starts_at(log.log_start_offset)
        if state.records.end > log.log_end_offset:
            state.log_ends_at(log.log_end_offset)

    def _acquire(self, found: _Found, limits: ShareLimits, now: float) -> None:
        """Acquire from what was read since the last time."""
        reads, found.reads = found.reads, []
        for led, offset, read in reads:
            records = read.records
            if not len(records) or found.left <= 0:
                continue
            assert isinstance(records, bytes), "a region comes only to who wants to send it"
            assert led.state is not None, "it was asked"
            headers = scan_batches(records)
            aborted = _aborted(headers, read)
            fetched = [FetchedBatch(one.base_offset, one.last_offset, one.position in aborted) for one in headers]
            acquirer = self._limits.acquirer._replace(max_records=found.left)
            acquired = led.state.acquire(acquirer, offset, fetched, limits, now)
            self._manager.acquired(led)
            if acquired:
                for one in acquired:
                    if one.delivery_count == 1:
                        led.new_batches.record(one.last - one.first + 1, now)
                count = sum(one.last - one.first + 1 for one in acquired)
                found.left -= count
                found.has_begun_one |= not led.record_size
                taken = _slice(records, headers, acquired)
                led.record_size = len(taken) / count
                found.acquired.append(SharedRecords(led, taken, acquired))


def _aborted(headers: Sequence[BatchHeader], found: FetchDataInfo) -> set[int]:
    """Return the positions of the batches that belong to aborted transactions."""
    if not found.aborted_transactions:
        return set()
    waiting = sorted(found.aborted_transactions, key=lambda one: one.first_offset, reverse=True)
    producers: set[int] = set()
    positions = set()
    for header in headers:
        while waiting and waiting[-1].first_offset <= header.last_offset:
            producers.add(waiting.pop().producer_id)
        if header.is_control:
            # Of a producer whose transaction is aborted the next marker is the one that aborts it.
            producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in producers:
            positions.add(header.position)
    return positions


def _slice(records: bytes, headers: Sequence[BatchHeader], acquired: Sequence[AcquiredRecords]) -> bytes:
    """Return the batches from the first acquired record to the last."""
    needed = [one for one in headers if one.last_offset >= acquired[0].first and one.base_offset <= acquired[-1].last]
    begin, end = needed[0].position, needed[-1].position + needed[-1].size_in_bytes
    return records if end - begin == len(records) else records[begin:end]
