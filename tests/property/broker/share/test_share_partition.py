"""A share-partition does what a table with one line for each record would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from barnabas import errors
from barnabas.broker.share.coordinator.combine_state_batches import combine_state_batches
from barnabas.broker.share.in_flight_records import RecordState, Transition
from barnabas.broker.share.persister import SharePartitionState, StateBatch
from barnabas.broker.share.share_partition import (
    Acknowledgement,
    AcquiredRecords,
    Acquirer,
    FetchedBatch,
    ShareLimits,
    SharePartition,
)

MEMBERS = st.sampled_from(["a", "b", "c"])
LIMITS = ShareLimits(max_in_flight=40, max_deliveries=4, lock_seconds=10.0)
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED


@dataclass
class Line:
    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    deadline: float = 0.0
    #: The transition that is being stored, and the state after it.
    pending: Any = None
    after: RecordState = AVAILABLE


class SharePartitionMachine(RuleBasedStateMachine):
    """The log has records in batches, some with gaps between them; `lines` has those in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.batches: list[FetchedBatch] = []
        self.log_start = self.log_end = 0
        self.lines: dict[int, Line] = {}
        self.start = self.end = 0
        self.stored: list[StateBatch] = []
        self.waiting: list[tuple[Transition, int]] = []
        self.numbers = 0
        self.partition = SharePartition(SharePartitionState(1, 0, ()), 0, 0)
        #: Every record that was accepted, or archived for a reason that has a name: it must not be delivered again.
        self.ended: dict[int, str] = {}

    # --- the log

    @rule(count=st.integers(1, 6), gap=st.sampled_from([0, 0, 0, 2]), aborted=st.sampled_from([False, False, True]))
    def append(self, count: int, gap: int, aborted: bool) -> None:
        first = self.log_end + gap
        self.batches.append(FetchedBatch(first, first + count - 1, aborted))
        self.log_end = first + count

    @precondition(lambda self: self.log_end > self.log_start)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.log_end))
        self.batches = [one for one in self.batches if one.last >= self.log_start]

    # --- members

    @rule(member=MEMBERS, wanted=st.integers(1, 8), strict=st.booleans(), size=st.integers(1, 4))
    def fetch(self, member: str, wanted: int, strict: bool, size: int) -> None:
        partition = self.partition
        if partition.records.start < self.log_start:
            partition.log_starts_at(self.log_start)
            self.forget_before(self.log_start)
        free = [offset for offset in sorted(self.lines) if self.lines[offset].state == AVAILABLE]
        offset = partition.next_fetch_offset()
        assert offset == (free[0] if free else self.end)
        fetched = [one for one in self.batches if one.last >= offset]
        acquired = partition.acquire(Acquirer(member, wanted, size, strict), offset, fetched, LIMITS, self.now)
        self.check_acquired(member, wanted, strict, offset, fetched, acquired)

    def check_acquired(
        self,
        member: str,
        wanted: int,
        strict: bool,
        offset: int,
        fetched: list[FetchedBatch],
        acquired: list[AcquiredRecords],
    ) -> None:
        offsets = [one for first, last, _ in acquired for one in range(first, last + 1)]
        assert offsets == sorted(set(offsets))
        real = {one for batch in fetched if not batch.is_aborted for one in range(batch.first, batch.last + 1)}
        assert set(offsets) <= real
        if strict:
            assert len(offsets) <= wanted
        else:
            # The last batch is taken as a whole.
            assert len(offsets) < wanted + 6
        for first, last, count in acquired:
            for one in range(first, last + 1):
                line = self.lines.setdefault(one, Line())
                assert line.state == AVAILABLE
                assert line.pending is None
                assert one not in self.ended, (one, self.ended[one])
                assert count == line.count + 1 <= LIMITS.max_deliveries
                self.lines[one] = Line(ACQUIRED, count, member, self.now + LIMITS.lock_seconds)
        if not offsets and any(one.first <= offset <= one.last and not one.is_aborted for one in fetched[:1]):
            assert self.end - self.start >= LIMITS.max_in_flight
            assert offset == self.end
        self.take_over_archived(real)

    def take_over_archived(self, real: set[int]) -> None:
        """Offsets without records may have been archived; those with records may not."""
        records = self.partition.records
        for one in range(self.end, records.end):
            self.lines.setdefault(one, Line())
        self.end = max(self.end, records.end)
        for batch in records:
            for one in range(batch.first, batch.last + 1):
                line = self.lines[one]
                if batch.state == RecordState.ARCHIVED and line.state == AVAILABLE:
                    assert one not in real
                    self.lines[one] = Line(RecordState.ARCHIVED, line.count)
        for one in range(self.start, records.start):
            line = self.lines[one]
            if line.state == AVAILABLE:
                assert one not in real
                self.lines[one] = Line(RecordState.ARCHIVED, line.count)
        self.advance_start()

    @rule(data=st.data(), member=MEMBERS, kinds=st.lists(st.integers(0, 4), min_size=1, max_size=5))
    def acknowledge(self, data: st.DataObject, member: str, kinds: list[int]) -> None:
        mine = [one for one, line in self.lines.items() if line.member == member and line.state == ACQUIRED]
        pool = st.sampled_from(sorted(mine)) if mine and data.draw(st.booleans()) else st.integers(0, self.end + 2)
        first = data.draw(pool)
        last = first + len(kinds) - 1 if len(kinds) > 1 else first + data.draw(st.integers(0, 4))
        asked = Acknowledgement(first, last, kinds)
        types = {one: kinds[one - first] if len(kinds) > 1 else kinds[0] for one in range(first, last + 1)}
        relevant = [one for one in range(first, last + 1) if one >= self.start]
        expected: type[errors.KafkaError] | None = None
        if any(one >= self.end for one in relevant):
            expected = errors.KafkaError
        elif any(
            self.lines[one].state != ACQUIRED or self.lines[one].member != member or self.lines[one].pending is not None
            for one in relevant
        ):
            expected = errors.InvalidRecordStateError
        if expected is not None:
            with pytest.raises(expected):
                self.partition.acknowledge(member, [asked], LIMITS, self.now)
            return
        transition = self.partition.acknowledge(member, [asked], LIMITS, self.now)
        self.begin(transition, {one: types[one] for one in relevant})

    def begin(self, transition: Transition | None, types: dict[int, int]) -> None:
        changed = {one: kind for one, kind in types.items() if kind != 4}
        for one in types.keys() - changed.keys():
            self.lines[one].deadline = self.now + LIMITS.lock_seconds
        assert (transition is None) == (not changed)
        if transition is None:
            return
        after = {0: RecordState.ARCHIVED, 1: RecordState.ACKNOWLEDGED, 2: AVAILABLE, 3: RecordState.ARCHIVED}
        for one, kind in changed.items():
            line = self.lines[one]
            line.pending, line.after = transition, after[kind]
            if kind == 2 and line.count >= LIMITS.max_deliveries:
                line.after = RecordState.ARCHIVED
        update = self.partition.update_of(transition)
        told = {
            one: (batch.delivery_state, batch.delivery_count)
            for batch in update.state_batches
            for one in range(batch.first_offset, batch.last_offset + 1)
        }
        assert told == {one: (self.lines[one].after, self.lines[one].count) for one in changed}
        self.stored_update = update
        self.waiting.append((transition, self.numbers))

    @rule(member=MEMBERS)
    def release(self, member: str) -> None:
        types = {
            one: 2
            for one, line in self.lines.items()
            if line.member == member and line.state == ACQUIRED and line.pending is None
        }
        self.begin(self.partition.release(member, LIMITS), types)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_stored=st.sampled_from([True, True, True, False]))
    def complete(self, data: st.DataObject, is_stored: bool) -> None:
        number = data.draw(st.integers(0, len(self.waiting) - 1))
        transition, _ = self.waiting.pop(number)
        if is_stored:
            self.store(self.partition.update_of(transition).state_batches)
        self.partition.complete(transition, LIMITS, self.now, is_stored=is_stored)
        for one, line in self.lines.items():
            if line.pending is transition:
                line.pending = None
                if is_stored:
                    self.lines[one] = Line(line.after, line.count)
                    if line.after.is_terminal:
                        self.ended[one] = line.after.name
                elif line.deadline <= self.now:
                    self.let_go(one)
        self.advance_start()

    def store(self, batches: Any) -> None:
        self.stored = combine_state_batches([*self.stored, *batches], self.partition.records.start)

    def let_go(self, one: int) -> None:
        line = self.lines[one]
        state = AVAILABLE if line.count < LIMITS.max_deliveries else RecordState.ARCHIVED
        self.lines[one] = Line(state, line.count)
        if state.is_terminal:
            self.ended[one] = "delivered too often"

    # --- time, and the end of the leader

    @rule(seconds=st.floats(0, 12))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [
            one
            for one, line in self.lines.items()
            if line.state == ACQUIRED and line.deadline <= self.now and line.pending is None
        ]
        update = self.partition.expire_locks(LIMITS, self.now)
        assert (update is not None) == bool(due)
        for one in due:
            self.let_go(one)
        if update is not None:
            self.store(update.state_batches)
        self.advance_start()

    @rule()
    def restart(self) -> None:
        """What is stored is all that another leader knows: what was delivered may be delivered again."""
        start = self.partition.records.start
        batches = combine_state_batches(self.stored, start)
        self.partition = SharePartition(SharePartitionState(1, start, batches), start, 1)
        self.waiting.clear()
        lines = {}
        for batch in batches:
            for one in range(batch.first_offset, batch.last_offset + 1):
                lines[one] = Line(RecordState(batch.delivery_state), batch.delivery_count)
        self.end = max(lines, default=start - 1) + 1
        self.start = start
        self.lines = {one: lines.get(one, Line()) for one in range(start, self.end)}
        for one in range(start, self.end):
            if one in self.ended and not self.lines[one].state.is_terminal:
                # Only an offset without a record is archived without being stored.
                raise AssertionError(f"{one} was {self.ended[one]}, and comes back")
        self.advance_start()

    # --- what always holds

    def forget_before(self, offset: int) -> None:
        for one in [one for one in self.lines if one < offset]:
            del self.lines[one]
        self.start = max(self.start, offset)
        self.end = max(self.end, offset)
        self.advance_start()

    def advance_start(self) -> None:
        while self.start < self.end:
            line = self.lines[self.start]
            if not line.state.is_terminal or line.pending is not None:
                break
            del self.lines[self.start]
            self.start += 1

    @invariant()
    def the_table_says_the_same(self) -> None:
        records = self.partition.records
        assert (records.start, records.end) == (self.start, self.end)
        found = {
            one: (batch.state, batch.delivery_count, batch.member_id)
            for batch in records
            for one in range(batch.first, batch.last + 1)
        }
        assert found == {one: (line.state, line.count, line.member) for one, line in self.lines.items()}
        complete = sum(
            (line.after if line.pending is not None else line.state).is_terminal for line in self.lines.values()
        )
        assert self.partition.complete_count == complete

    @invariant()
    def batches_follow_each_other(self) -> None:
        offset = self.partition.records.start
        for batch in self.partition.records:
            assert batch.first == offset <= batch.last
            offset = batch.last + 1
        assert offset == self.partition.records.end


class TestSharePartition(SharePartitionMachine.TestCase):  # type: ignore[misc]  # hypothesis gives any
    settings = settings(max_examples=60, stateful_step_count=40)


def test_locks_that_end_together_are_freed_a_piece_at_a_time() -> None:
    partition = SharePartition(SharePartitionState(1, 0, ()), 0, 0)
    limits = ShareLimits(max_in_flight=10_000, max_deliveries=4, lock_seconds=10.0)
    fetched = [FetchedBatch(0, 999, False)]
    partition.acquire(Acquirer("a", 1000, 1000, False), 0, fetched, limits, 0.0)
    every_second = [Acknowledgement(offset, offset, [1]) for offset in range(0, 1000, 2)]
    transition = partition.acknowledge("a", every_second, limits, 1.0)
    assert transition is not None
    partition.complete(transition, limits, 1.0, is_stored=True)
    freed: list[int] = []
    while partition.next_deadline() <= 10.0:
        update = partition.expire_locks(limits, 10.0)
        found = [] if update is None else update.state_batches
        assert len(found) <= 100
        freed += [one.first_offset for one in found]
    assert freed == list(range(1, 1000, 2))
