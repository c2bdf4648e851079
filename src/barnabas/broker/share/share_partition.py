"""One partition of a topic as one group shares it: which records are whose, and for how long (KIP-932, KIP-1222)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.share.in_flight_records import (
    AcquisitionLock,
    InFlightBatch,
    InFlightRecords,
    RecordState,
    Transition,
)
from barnabas.broker.share.persister import StateBatch, StateUpdate
from barnabas.protocol.kinds import AcknowledgementKind

if TYPE_CHECKING:
    from barnabas.broker.share.persister import SharePartitionState

_STATES = {
    AcknowledgementKind.GAP: RecordState.ARCHIVED,
    AcknowledgementKind.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgementKind.RELEASE: RecordState.AVAILABLE,
    AcknowledgementKind.REJECT: RecordState.ARCHIVED,
}
#: Records that were delivered less often are never delivered in smaller pieces than they came.
_LEAST_THROTTLED_DELIVERIES = 2
#: After so many seconds a lock is looked at again whose records were being acknowledged when it ended.
_LOOK_AGAIN = 1.0
#: So many ranges whose locks have ended are freed at once.
_EXPIRED_AT_ONCE = 100


class ShareLimits(NamedTuple):
    """The settings of a group that a share-partition goes by; a record is delivered `max_deliveries` times at most."""

    max_in_flight: int
    max_deliveries: int
    lock_seconds: float
    renews: bool = True

    @property
    def throttled_deliveries(self) -> int:
        """From so many deliveries on records come in ever smaller pieces, so that a bad one does not take others."""
        return max(_LEAST_THROTTLED_DELIVERIES, ceil(self.max_deliveries / 2))


class FetchedBatch(NamedTuple):
    """The offsets of a record batch that was read; `is_aborted` where a reader of committed records skips it."""

    first: int
    last: int
    is_aborted: bool = False


class Acquirer(NamedTuple):
    """A member, and how much it wants: about `max_records`, or with `is_strict` (KIP-1206) not one more.

    What it gets comes in pieces of about `batch_size`, which it may acknowledge as wholes.
    """

    member_id: str
    max_records: int
    batch_size: int
    is_strict: bool = False


class AcquiredRecords(NamedTuple):
    """Records that a member got, for the `delivery_count`-th time."""

    first: int
    last: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says of records: one `AcknowledgementKind` for all of them or one for each."""

    first: int
    last: int
    types: Sequence[int]


class SharePartition:
    """The state machine: it knows no clock and no log, `now` is in monotonic seconds.

    A change that has to be persisted is begun (`acknowledge`, `release`), with what is to be stored, and ended by
    `complete`. Records whose lock ends are free at once, whether that could be stored or not.
    """

    __slots__ = (
        "_available_from",
        "_lock_number",
        "_locks",
        "complete_count",
        "leader_epoch",
        "records",
        "state_epoch",
    )

    def __init__(self, state: SharePartitionState, start_offset: int, leader_epoch: int) -> None:
        self.state_epoch = state.state_epoch
        self.leader_epoch = leader_epoch
        self.records = InFlightRecords(start_offset)
        #: How many records in flight are not delivered any more.
        self.complete_count = 0
        #: No record before it can be acquired.
        self._available_from = start_offset
        self._locks: list[tuple[float, int, int, int, AcquisitionLock]] = []
        self._lock_number = 0
        for stored in sorted(state.state_batches):
            if stored.first_offset < self.records.end or stored.last_offset < stored.first_offset:
                raise errors.UnknownServerError(
                    f"The stored state of a share-partition has {stored} where offset {self.records.end} is next"
                )
            if stored.first_offset > self.records.end:
                # Nothing was said of these yet.
                self._append(self.records.end, stored.first_offset - 1, RecordState.AVAILABLE, 0)
            found = RecordState(stored.delivery_state)
            self._append(stored.first_offset, stored.last_offset, found, stored.delivery_count)
        self._advance()

    def _append(self, first: int, last: int, state: RecordState, delivery_count: int) -> InFlightBatch:
        batch = InFlightBatch(first, last, state, delivery_count)
        self.records.append(batch)
        if state.is_terminal:
            self.complete_count += last - first + 1
        return batch

    # --- acquiring

    def next_fetch_offset(self) -> int:
        """Return the offset to read from: the first record that can be acquired, or that is not in flight yet."""
        self._available_from = self.records.first_available(self._available_from)
        return self._available_from

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Whether there may be something to acquire, if the log has it."""
        return self.next_fetch_offset() != self.records.end or self.records.count < limits.max_in_flight

    def acquire(
        self, acquirer: Acquirer, fetch_offset: int, fetched: Sequence[FetchedBatch], limits: ShareLimits, now: float
    ) -> list[AcquiredRecords]:
        """Give a member what it may have of the batches that were read from `fetch_offset` on.

        Offsets that the log has no records for any more are archived.
        """
        acquisition = _Acquisition(self, acquirer, limits, now)
        position = max(fetch_offset, self.records.start)
        for batch in acquisition.pieces(fetched, max(position, self.records.end)):
            if batch.last < position:
                continue
            if acquisition.is_full or not self._archive_missing(position, batch.first - 1, limits):
                break
            first = max(batch.first, position)
            if not batch.is_aborted:
                acquisition.take(first, batch.last)
            elif not self._archive_missing(first, batch.last, limits):
                break
            position = batch.last + 1
        self._advance()
        return acquisition.finish()

    def _archive_missing(self, first: int, last: int, limits: ShareLimits) -> bool:
        """Archive these offsets; False where there is no room for so many in flight."""
        if first > last:
            return True
        records = self.records
        for batch in records.between(first, min(last, records.end - 1)) if first < records.end else ():
            if batch.state == RecordState.AVAILABLE:
                batch.state = batch.next_state = RecordState.ARCHIVED
                self.complete_count += len(batch)
        if last >= records.end:
            if records.count >= limits.max_in_flight:
                return False
            self._append(records.end, last, RecordState.ARCHIVED, 0)
        records.merge(first, last)
        return True

    def locked(self, acquired: Sequence[AcquiredRecords], lock: AcquisitionLock) -> None:
        """Have a lock end in time."""
        self._watch(acquired[0].first, acquired[-1].last, lock)

    def _watch(self, first: int, last: int, lock: AcquisitionLock) -> None:
        self._lock_number += 1
        heapq.heappush(self._locks, (lock.deadline, self._lock_number, first, last, lock))

    def _watch_again(self, batch: InFlightBatch, now: float) -> None:
        self._lock_number += 1
        assert batch.lock is not None, "it has ended"
        heapq.heappush(self._locks, (now + _LOOK_AGAIN, self._lock_number, batch.first, batch.last, batch.lock))

    # --- acknowledging

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], limits: ShareLimits, now: float
    ) -> Transition | None:
        """Begin what a member says of records that it has; None where nothing is to be stored.

        Raises InvalidRecordStateError where it has them no more, InvalidRequestError where no member ever had; then
        nothing has changed.
        """
        start = reached = self.records.start
        runs = [(max(run[0], start), *run[1:]) for one in acknowledgements for run in _runs(one) if run[1] >= start]
        for first, last, type in runs:
            if first < reached:
                raise errors.InvalidRecordStateError(f"Offset {first} is acknowledged twice in one request.")
            self._check(member_id, first, last, limits, type)
            reached = last + 1
        transition = Transition()
        for first, last, type in runs:
            if type == AcknowledgementKind.RENEW:
                self._renew(first, last, now + limits.lock_seconds)
            else:
                self._begin(transition, first, last, _STATES[AcknowledgementKind(type)], limits)
        return transition if transition.ranges else None

    def _check(self, member_id: str, first: int, last: int, limits: ShareLimits, type: int) -> None:
        if type not in (*_STATES, AcknowledgementKind.RENEW):
            raise errors.InvalidRequestError(f"{type} is not a type of acknowledgement.")
        if type == AcknowledgementKind.RENEW and not limits.renews:
            raise errors.InvalidRecordStateError("Renewing acquisition locks is not enabled for the group.")
        if last >= self.records.end:
            raise errors.InvalidRequestError(f"Offsets {first} to {last} go beyond the records that were acquired.")
        for batch in self.records.overlapping(first, last):
            if batch.state != RecordState.ACQUIRED:
                raise errors.InvalidRecordStateError(f"Offset {max(first, batch.first)} is not acquired.")
            if batch.member_id != member_id:
                raise errors.InvalidRecordStateError(f"Offset {max(first, batch.first)} is acquired by another member.")
            if batch.transition is not None:
                raise errors.InvalidRecordStateError(f"Offset {max(first, batch.first)} is being acknowledged already.")

    def _renew(self, first: int, last: int, deadline: float) -> None:
        lock = AcquisitionLock(deadline)
        for batch in self.records.between(first, last):
            batch.lock = lock
        self.records.merge(first, last)
        self._watch(first, last, lock)

    def _begin(self, transition: Transition, first: int, last: int, state: RecordState, limits: ShareLimits) -> None:
        for batch in self.records.between(max(first, self.records.start), last):
            batch.transition = transition
            batch.next_state = state
            if state == RecordState.AVAILABLE and batch.delivery_count >= limits.max_deliveries:
                batch.next_state = RecordState.ARCHIVED
            if batch.next_state.is_terminal:
                self.complete_count += len(batch)
        self.records.merge(first, last)
        transition.ranges.append((first, last))

    def release(self, member_id: str, limits: ShareLimits) -> Transition | None:
        """Begin to give up all that a member has; None where it has nothing."""
        transition = Transition()
        ranges = [
            (batch.first, batch.last)
            for batch in self.records
            if batch.state == RecordState.ACQUIRED and batch.member_id == member_id and batch.transition is None
        ]
        for first, last in ranges:
            self._begin(transition, first, last, RecordState.AVAILABLE, limits)
        return transition if transition.ranges else None

    def update_of(self, transition: Transition) -> StateUpdate:
        """Return what is to be stored of a transition."""
        return self._update(
            StateBatch(max(batch.first, first), min(batch.last, last), batch.next_state, batch.delivery_count)
            for first, last in transition.ranges
            for batch in self.records.overlapping(first, last)
            if batch.transition is transition
        )

    def _update(self, batches: Iterator[StateBatch]) -> StateUpdate:
        return StateUpdate(
            self.state_epoch, self.leader_epoch, self.records.start, self.complete_count, _combined(batches)
        )

    def complete(self, transition: Transition, limits: ShareLimits, now: float, *, is_stored: bool) -> None:
        """End a transition: the states are as it says, or, where it could not be stored, as they were."""
        for first, last in transition.ranges:
            for batch in self.records.overlapping(first, last):
                if batch.transition is not transition:
                    continue
                batch.transition = None
                if is_stored:
                    self._set(batch, batch.next_state)
                    continue
                if batch.next_state.is_terminal:
                    self.complete_count -= len(batch)
                batch.next_state = batch.state
                if batch.lock is not None and batch.lock.deadline <= now:
                    self._let_go(batch, limits)
            self.records.merge(first, last)
        self._advance()

    def _set(self, batch: InFlightBatch, state: RecordState) -> None:
        batch.state = batch.next_state = state
        batch.member_id, batch.lock = "", None
        if state == RecordState.AVAILABLE:
            self._available_from = min(self._available_from, batch.first)

    def _let_go(self, batch: InFlightBatch, limits: ShareLimits) -> None:
        if batch.delivery_count < limits.max_deliveries:
            self._set(batch, RecordState.AVAILABLE)
        else:
            self._set(batch, RecordState.ARCHIVED)
            self.complete_count += len(batch)

    # --- locks that end

    def next_deadline(self) -> float:
        """When the next lock ends, in monotonic seconds; perhaps it is none any more then."""
        return self._locks[0][0] if self._locks else inf

    def expire_locks(self, limits: ShareLimits, now: float) -> StateUpdate | None:
        """Take records from members whose locks have ended; gives what is to be stored of it, None for nothing.

        So many ranges at once that others need not wait; the rest is still due then (`next_deadline`).
        """
        freed: list[StateBatch] = []
        looked_at = 0
        while self._locks and self._locks[0][0] <= now and looked_at < _EXPIRED_AT_ONCE:
            deadline, number, first, last, lock = heapq.heappop(self._locks)
            looked_at += 1
            for batch in self.records.overlapping(first, last):
                if looked_at >= _EXPIRED_AT_ONCE:
                    heapq.heappush(self._locks, (deadline, number, batch.first, last, lock))
                    last = batch.first - 1
                    break
                looked_at += 1
                if batch.lock is not lock:
                    continue
                if batch.transition is not None:
                    # Should it not be stored, the member has the records again.
                    self._watch_again(batch, now)
                    continue
                self._let_go(batch, limits)
                freed.append(StateBatch(batch.first, batch.last, batch.state, batch.delivery_count))
            self.records.merge(first, last)
        if not freed:
            return None
        update = self._update(iter(freed))
        self._advance()
        return update

    # --- the log underneath

    def log_starts_at(self, offset: int) -> None:
        """Forget the records that the log has no more."""
        for batch in self.records.drop_before(offset):
            self.complete_count -= len(batch) if batch.counts_as_complete else 0
        self._available_from = max(self._available_from, self.records.start)
        self._advance()

    def log_ends_at(self, offset: int) -> None:
        """Forget the records from an offset on: the log has lost them, and others will come in their place."""
        for batch in self.records.drop_from(offset):
            self.complete_count -= len(batch) if batch.counts_as_complete else 0
        self._available_from = min(self._available_from, self.records.end)

    def _advance(self) -> None:
        for batch in self.records.drop_complete():
            self.complete_count -= len(batch)
        self._available_from = max(self._available_from, self.records.start)


class _Acquisition:
    """What one member gets of one partition at once, under one lock."""

    __slots__ = ("_acquired", "_acquirer", "_count", "_ends", "_limits", "_lock", "_partition")

    def __init__(self, partition: SharePartition, acquirer: Acquirer, limits: ShareLimits, now: float) -> None:
        self._partition = partition
        self._acquirer = acquirer
        self._limits = limits
        self._lock = AcquisitionLock(now + limits.lock_seconds)
        self._acquired: list[AcquiredRecords] = []
        self._count = 0
        #: Whether nothing more may be taken, for what was taken last came in pieces.
        self._ends = False

    @property
    def is_full(self) -> bool:
        """Whether the member gets no more."""
        return self._ends or self._count >= self._acquirer.max_records

    def pieces(self, fetched: Sequence[FetchedBatch], fresh_from: int) -> Iterator[FetchedBatch]:
        """Give batches to take one after the other: from the fresh offset on as many together as make a piece."""
        most, limit = self._acquirer.batch_size, self._partition.records.start + self._limits.max_in_flight
        piece: FetchedBatch | None = None
        for batch in fetched:
            if piece is None:
                piece = batch
                continue
            length = piece.last - piece.first + 1
            is_full = length >= most or self._count + length >= self._acquirer.max_records or batch.first >= limit
            is_alike = batch.first == piece.last + 1 and not piece.is_aborted and not batch.is_aborted
            if is_full or not is_alike or piece.first < fresh_from:
                yield piece
                piece = batch
            else:
                piece = FetchedBatch(piece.first, batch.last)
        if piece is not None:
            yield piece

    def take(self, first: int, last: int) -> None:
        """Take what can be had of record batches that follow each other."""
        records = self._partition.records
        begins = True
        if first < records.end:
            pieces = [
                (max(first, batch.first), min(last, batch.last), batch.delivery_count, batch.size)
                for batch in records.overlapping(first, min(last, records.end - 1))
                if batch.state == RecordState.AVAILABLE
            ]
            for low, high, delivery_count, size in pieces:
                if self._ends or (self._acquirer.is_strict and self.is_full):
                    return
                high = min(high, low + self._most(delivery_count, size, high - low + 1) - 1)
                if low <= high:
                    self._change(low, high, delivery_count + 1, begins=begins)
                    begins = False
        first = max(first, records.end)
        if first <= last and not self._ends and records.count < self._limits.max_in_flight:
            if self._acquirer.is_strict:
                room = min(self._acquirer.max_records - self._count, self._limits.max_in_flight - records.count)
                last = min(last, first + room - 1)
            if first <= last:
                records.append(InFlightBatch(first, last, RecordState.AVAILABLE))
                self._change(first, last, 1, begins=begins)

    def _most(self, delivery_count: int, size: int, wanted: int) -> int:
        """Return how many of records that were delivered so often may come now, and end the acquisition with them."""
        limits = self._limits
        if self._acquirer.is_strict:
            wanted = min(wanted, self._acquirer.max_records - self._count)
        if delivery_count < limits.throttled_deliveries:
            return wanted
        self._ends = True
        if self._count:
            return 0
        if delivery_count >= limits.max_deliveries - 1:
            return min(wanted, 1)
        return min(wanted, max(1, size >> (delivery_count - limits.throttled_deliveries + 1)))

    def _change(self, first: int, last: int, delivery_count: int, *, begins: bool) -> None:
        for batch in self._partition.records.between(first, last):
            batch.state = batch.next_state = RecordState.ACQUIRED
            batch.delivery_count = delivery_count
            batch.member_id, batch.lock = self._acquirer.member_id, self._lock
        self._count += last - first + 1
        before = self._acquired[-1] if self._acquired else None
        if before is not None and before.last + 1 == first and before.delivery_count == delivery_count:
            is_long = before.last - before.first + 1 >= self._acquirer.batch_size
            if not (begins and is_long and not self._acquirer.is_strict):
                self._acquired[-1] = before._replace(last=last)
                return
        self._acquired.append(AcquiredRecords(first, last, delivery_count))

    def finish(self) -> list[AcquiredRecords]:
        """Return all that was taken."""
        if not self._acquired:
            return []
        records = self._partition.records
        for first, last, delivery_count in self._acquired:
            if delivery_count == 1:
                for batch in records.between(first, last):
                    batch.size = last - first + 1
        records.merge(self._acquired[0].first, self._acquired[-1].last)
        self._partition.locked(self._acquired, self._lock)
        return self._acquired


def _runs(acknowledgement: Acknowledgement) -> Iterator[tuple[int, int, int]]:
    """Give the offsets of one type after the other: first, last, type."""
    first, last, types = acknowledgement
    if len(types) == 1:
        yield first, last, types[0]
        return
    for type, group in groupby(types):
        count = sum(1 for _ in group)
        yield first, first + count - 1, type
        first += count


def _combined(batches: Iterator[StateBatch]) -> list[StateBatch]:
    """Make one of batches that follow each other and are alike."""
    found: list[StateBatch] = []
    for batch in batches:
        before = found[-1] if found else None
        if before is not None and before.last_offset + 1 == batch.first_offset and before[2:] == batch[2:]:
            found[-1] = before._replace(last_offset=batch.last_offset)
        else:
            found.append(batch)
    return found
